//! Number of labels in `config.json`.

use crate::config::MAX_LABELS;
use crate::error::LoadError;
use crate::json::Fields;

/// Number of labels: of `id2label`, as transformers saves it, otherwise `num_labels`, otherwise two, the default that it does not save.
///
/// # Errors
/// A field is malformed or out of range, or the two contradict each other.
pub(crate) fn label_count(fields: &Fields<'_>) -> Result<usize, LoadError> {
    let num_labels = fields.optional::<usize>("num_labels")?;
    let Some(names) = fields.object("id2label")? else {
        return match num_labels.unwrap_or(2) {
            count @ 1..=MAX_LABELS => Ok(count),
            count => Err(fields.problem("num_labels", &format!("must be from 1 to {MAX_LABELS}, it is {count}"))),
        };
    };
    let count = names.entries().count();
    if count == 0 || num_labels.is_some_and(|it| it != count) {
        let problem = format!("has {count} labels, `num_labels` is {}", num_labels.map_or(0, |it| it));
        return Err(fields.problem("id2label", &problem));
    }
    if count > MAX_LABELS {
        return Err(fields.problem("id2label", &format!("has {count} labels, the limit is {MAX_LABELS}")));
    }
    Ok(count)
}
