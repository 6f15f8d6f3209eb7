//! Tokenizer files in other formats than `tokenizer.json`.

use crate::error::LoadError;

/// Vocabulary that a tokenizer is made from if there is no `tokenizer.json`.
pub(crate) const VOCABULARY: &str = "vocab.txt";

/// Special tokens in files of transformers 4; read unless `tokenizer_config.json` lists the added tokens.
pub(crate) const SPECIAL_TOKENS: &str = "special_tokens_map.json";
/// Added tokens in files of older versions.
pub(crate) const ADDED_TOKENS: &str = "added_tokens.json";

/// File with a chat template; an older place is `chat_template` in `tokenizer_config.json`.
pub(crate) const CHAT_TEMPLATE: &str = "chat_template.jinja";

/// The tokenizer file of Hugging Face's tokenizers library.
const FILE: &str = "tokenizer.json";

/// Tokenizer files that prefold does not convert.
const OTHER_FILES: [&str; 5] =
    ["sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model", "vocab.json"];

/// Files that hold a vocabulary.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    [FILE, VOCABULARY].into_iter().chain(OTHER_FILES)
}

/// Advice for a missing `tokenizer.json`: how to make it, if there are files to make it from; what else is missing, if there are
/// no weights either; otherwise empty.
///
/// # Errors
/// An error of `exists`.
pub(crate) fn hint(exists: impl Fn(&str) -> Result<bool, LoadError>) -> Result<String, LoadError> {
    for file in [VOCABULARY].into_iter().chain(OTHER_FILES) {
        if exists(file)? {
            return Ok(format!(
                ", and none is made from {file}; AutoTokenizer.from_pretrained(MODEL).save_pretrained(FOLDER) of the \
                 Python package transformers makes one"
            ));
        }
    }
    let has_weights = ["", ".index.json"].iter().try_fold(false, |has, index| {
        Ok::<_, LoadError>(
            has || exists(&format!("model.safetensors{index}"))? || exists(&format!("pytorch_model.bin{index}"))?,
        )
    })?;
    Ok(if has_weights { "" } else { ", nor weights; the download may be incomplete" }.to_owned())
}
