//! Names of tensors in files, in the spellings that are not those of a class.

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
