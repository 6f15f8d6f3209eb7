//! All rows of the list.

use super::row::{File, Group, Mark};
use super::{adapter_config, config_json, files, gguf, modules, rope, tokenizer_config};

/// All groups.
pub(crate) fn groups() -> impl Iterator<Item = &'static Group> {
    let lists: [&'static [Group]; 7] = [
        config_json::GROUPS,
        rope::GROUPS,
        tokenizer_config::GROUPS,
        modules::GROUPS,
        adapter_config::GROUPS,
        files::GROUPS,
        gguf::GROUPS,
    ];
    lists.into_iter().flatten()
}

/// Mark and default of a field; `None` if the list does not have it.
pub(crate) fn find(file: File, field: &str) -> Option<(Mark, &'static str)> {
    let of_file = groups().filter(|group| group.file == file);
    of_file.flat_map(|group| group.fields.iter().map(|row| (group.mark, row))).find_map(|(mark, (name, default))| {
        let is_row = match (name.strip_prefix('*'), name.strip_suffix('*')) {
            (Some(end), _) => field.ends_with(end),
            (None, Some(start)) => field.starts_with(start),
            (None, None) => field == *name,
        };
        is_row.then_some((mark, *default))
    })
}
