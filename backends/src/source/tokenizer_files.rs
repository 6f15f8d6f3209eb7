//! Files with a tokenizer in other forms than `tokenizer.json`.

use crate::LoadError;

/// Files that a tokenizer is made from where there is no `tokenizer.json`.
pub(crate) const VOCABULARY_FILES: [&str; 3] = ["vocab.txt", "special_tokens_map.json", "added_tokens.json"];

/// The file of a tokenizer as the library of Hugging Face writes it.
const FILE: &str = "tokenizer.json";

/// Files of tokenizers that are not made here.
const OTHER_FILES: [&str; 5] =
    ["sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model", "vocab.json"];

/// Files that hold a vocabulary.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    [FILE].into_iter().chain(VOCABULARY_FILES.into_iter().take(1)).chain(OTHER_FILES)
}

/// Advice for a missing `tokenizer.json`: how to make it, if there are files to make it from. Otherwise empty.
///
/// # Errors
/// Those of `exists`.
pub(crate) fn hint(exists: impl Fn(&str) -> Result<bool, LoadError>) -> Result<String, LoadError> {
    for file in VOCABULARY_FILES.into_iter().take(1).chain(OTHER_FILES) {
        if exists(file)? {
            return Ok(format!(
                ", and none is made from {file}: AutoTokenizer.from_pretrained(MODEL).save_pretrained(FOLDER) of the \
                 Python package transformers writes it"
            ));
        }
    }
    Ok(String::new())
}
