//! Lower case and accents of texts, which files of newer converters state.

use super::file::GgufFile;
use super::tokens::BESIDE;
use crate::error::LoadError;

const LOWERCASE: &str = "tokenizer.ggml.normalizer.lowercase";
const STRIP_ACCENTS: &str = "tokenizer.ggml.normalizer.strip_accents";

/// The normalization that a file states; `None` for what it does not.
#[derive(Debug, Clone, Copy)]
pub(super) struct LetterCase {
    pub(super) lowercase: Option<bool>,
    /// As in BERT's normalizer, texts in lower case lose their accents unless it is false.
    pub(super) strip_accents: Option<bool>,
}

impl LetterCase {
    /// Reads the file's statements.
    ///
    /// # Errors
    /// A value has another type.
    pub(super) fn read(file: &GgufFile) -> Result<Self, LoadError> {
        Ok(Self { lowercase: file.bool(LOWERCASE)?, strip_accents: file.bool(STRIP_ACCENTS)? })
    }

    /// Refuses to strip accents, in tokenizers whose files do not say in which form.
    ///
    /// # Errors
    /// The file says so.
    pub(super) fn without_stripping(self, file: &GgufFile) -> Result<Self, LoadError> {
        refuse(file, STRIP_ACCENTS, self.strip_accents).map(|()| self)
    }

    /// Refuses both, in tokenizers whose files do not say when.
    ///
    /// # Errors
    /// The file states one of them.
    pub(super) fn none(self, file: &GgufFile) -> Result<(), LoadError> {
        refuse(file, LOWERCASE, self.lowercase)?;
        refuse(file, STRIP_ACCENTS, self.strip_accents)
    }
}

fn refuse(file: &GgufFile, key: &str, value: Option<bool>) -> Result<(), LoadError> {
    match value {
        Some(true) => {
            let supported = format!("false with this `tokenizer.ggml.model`; {BESIDE}");
            Err(LoadError::unsupported(file.name(), format!("`{key}` true"), supported))
        }
        Some(false) | None => Ok(()),
    }
}
