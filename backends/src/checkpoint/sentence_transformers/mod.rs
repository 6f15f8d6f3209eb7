//! Files of sentence-transformers: the list of modules and the config of each.

pub(crate) mod dense;
pub(crate) mod dense_uses;
pub(crate) mod dimensions;
pub(crate) mod logit_score;
pub(crate) mod module_list;
pub(crate) mod pooling;
pub(crate) mod prompts;
pub(crate) mod texts;
pub(crate) mod transformer;

/// Path of a module's config.
pub(crate) fn config_of(folder: &str) -> String {
    format!("{}/config.json", folder.trim_end_matches('/'))
}
