//! Names of a transformer's tensors.

mod decoders;
mod encoders;
mod tensor_names;

pub(crate) use decoders::{DECODER, GEMMA3, LFM2};
pub(crate) use encoders::{
    BERT, DEBERTA, DISTILBERT, ELECTRA, GTE, JINA_V2, JINA_V2_CODE, MODERNBERT, MPNET, NOMIC, NOMIC_EXPERTS, ROBERTA,
    T5, UMT5, XLM_ROBERTA_FLASH, XLM_ROBERTA_XL,
};
pub(crate) use tensor_names::TensorNames;

/// First components of names that files may lack.
pub(crate) const OPTIONAL_PREFIXES: [&str; 8] =
    ["model.", "bert.", "roberta.", "mpnet.", "distilbert.", "electra.", "new.", "deberta."];

/// First components of names in published code, and in files of the same models from transformers 5.
/// T5's word embeddings have the encoder's name, the name `shared`, or both; the code of bidirectional LFM2 names the model after the
/// family.
pub(crate) const RENAMED_PREFIXES: [(&str, &str); 4] =
    [("new.", "gte."), ("bert.", "nomic_bert."), ("encoder.embed_tokens.", "shared."), ("model.", "lfm2.")];

/// A name without the prefix of a model's class, by which the names of all its classes are equal.
pub(crate) fn bare(name: &str) -> &str {
    let renamed = RENAMED_PREFIXES.iter().map(|(_, prefix)| prefix);
    OPTIONAL_PREFIXES.iter().chain(renamed).find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}
