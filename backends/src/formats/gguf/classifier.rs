//! Heads of classifiers and rerankers in GGUF files.

use super::file::{CLASS_ROWS, GgufFile};
use crate::config::{MAX_LABELS, MaskConfig};
use crate::error::LoadError;
use candle_core::quantized::gguf_file::Value;

/// The layer of a classifier's head before [`CLASS_ROWS`].
const CLASS_DENSE: &str = "cls.weight";

impl GgufFile {
    /// Labels of the rows of [`CLASS_ROWS`]; empty if the file has none.
    ///
    /// # Errors
    /// They are not strings.
    pub(super) fn class_labels(&self) -> Result<Vec<&str>, LoadError> {
        let key = format!("{}.classifier.output_labels", self.architecture()?);
        let wrong = || self.wrong(&key, "a list of strings");
        let Some(value) = self.get(&key) else { return Ok(vec![]) };
        let Value::Array(labels) = value else { return Err(wrong()) };
        labels.iter().map(|label| if let Value::String(label) = label { Ok(&**label) } else { Err(wrong()) }).collect()
    }

    /// Labels of a classifier, one per row of its head; `None` if the file has no classifier.
    ///
    /// # Errors
    /// The labels are malformed, or their number differs from the rows.
    pub(super) fn classifier_labels(&self) -> Result<Option<Vec<String>>, LoadError> {
        if self.tensor(CLASS_ROWS).is_none() || self.family()?.mask == MaskConfig::Causal {
            return Ok(None);
        }
        let rows = self.rows(CLASS_ROWS)?;
        let labels: Vec<String> = self.class_labels()?.into_iter().map(str::to_owned).collect();
        match labels.len() {
            0 if rows > MAX_LABELS => {
                let problem = format!("tensor `{CLASS_ROWS}` has {rows} rows, the limit is {MAX_LABELS}");
                Err(LoadError::invalid(self.name(), problem))
            }
            0 => Ok(Some((0..rows).map(|row| format!("LABEL_{row}")).collect())),
            count if count == rows => Ok(Some(labels)),
            count => {
                let problem = format!("tensor `{CLASS_ROWS}` has {rows} rows for {count} labels");
                Err(LoadError::invalid(self.name(), problem))
            }
        }
    }

    /// Refuses a classifier without its first layer, which converters drop for BERT.
    ///
    /// # Errors
    /// Names the layer.
    pub(super) fn check_head(&self) -> Result<(), LoadError> {
        let (dense, rows) = (self.tensor(CLASS_DENSE).is_some(), self.tensor(CLASS_ROWS).is_some());
        if dense == rows {
            return Ok(());
        }
        let (there, missing) = if dense { (CLASS_DENSE, CLASS_ROWS) } else { (CLASS_ROWS, CLASS_DENSE) };
        let what = format!("tensor `{there}` without `{missing}`, as converters write BERT's classifiers");
        Err(LoadError::unsupported(
            self.name(),
            what,
            "classifiers of RoBERTa, XLM-RoBERTa and DistilBERT; safetensors",
        ))
    }
}
