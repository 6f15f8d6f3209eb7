//! Tokenizer files in other formats than `tokenizer.json`.

use crate::error::LoadError;

/// Files that a tokenizer is made from if there is no `tokenizer.json`.
pub(crate) const VOCABULARY_FILES: [&str; 3] = ["vocab.txt", "special_tokens_map.json", "added_tokens.json"];

/// The tokenizer file of Hugging Face's tokenizers library.
const FILE: &str = "tokenizer.json";

/// Tokenizer files that prefold does not convert.
const OTHER_FILES: [&str; 5] =
    ["sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model", "vocab.json"];

/// Files that hold a vocabulary.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    [FILE].into_iter().chain(VOCABULARY_FILES.into_iter().take(1)).chain(OTHER_FILES)
}

/// Advice for a missing `tokenizer.json`: how to make it, if there are files to make it from; otherwise empty.
///
/// # Errors
/// An error of `exists`.
pub(crate) fn hint(exists: impl Fn(&str) -> Result<bool, LoadError>) -> Result<String, LoadError> {
    for file in VOCABULARY_FILES.into_iter().take(1).chain(OTHER_FILES) {
        if exists(file)? {
            return Ok(format!(
                ", and none is made from {file}; AutoTokenizer.from_pretrained(MODEL).save_pretrained(FOLDER) of the \
                 Python package transformers makes one"
            ));
        }
    }
    Ok(String::new())
}
