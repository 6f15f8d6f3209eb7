//! Names of tensors in files, in spellings other than a class's.

use crate::config::names::bare;

/// Model2Vec's name of what sentence-transformers names `embedding.weight`.
const STATIC_TABLE: &str = "embeddings";
/// Model2Vec's factors of tokens, the only floats that may have 64 bits.
pub(super) const FACTORS: &str = "weights";

/// `true` for a tensor whose type must be known.
pub(super) fn is_weight(name: &str) -> bool {
    name.ends_with(".weight") || name.ends_with(".bias") || name == STATIC_TABLE
}

/// Another spelling of a name: of a LayerNorm's weight or bias in files converted from TensorFlow, or Model2Vec's.
pub(super) fn other_name(name: &str) -> Option<String> {
    if name == "embedding.weight" {
        return Some(STATIC_TABLE.to_owned());
    }
    let norm = |suffix| name.strip_suffix(suffix).filter(|norm| norm.ends_with("LayerNorm"));
    norm(".weight").map(|norm| format!("{norm}.gamma")).or_else(|| norm(".bias").map(|norm| format!("{norm}.beta")))
}

/// The problem of files in which the name of a missing tensor has a prefix, as written by training code that saves a
/// model inside another module; `None` if there is no such name.
pub(super) fn with_prefix<'a, I: Iterator<Item = &'a str>>(names: impl Fn() -> I, name: &str) -> Option<String> {
    let find = |name: &str| {
        let prefix_of = |stored: &'a str| stored.strip_suffix(name).filter(|prefix| prefix.ends_with('.'));
        names()
            .filter_map(|stored| Some((prefix_of(stored)?, stored)))
            .min_by_key(|(prefix, _)| (prefix.len(), *prefix))
    };
    let (prefix, stored) = find(name).or_else(|| find(bare(name)))?;
    let (count, all) = (names().filter(|it| it.starts_with(prefix)).count(), names().count());
    // Fewer begin with the number of a layer.
    let (stored, advice) = (format!("there is `{stored}`"), "save them without it (docs/models.md, Names of tensors)");
    let problem =
        format!("tensor `{name}` is missing, but {stored}: {count} of {all} tensors begin with `{prefix}`; {advice}");
    (2 * count >= all).then_some(problem)
}
