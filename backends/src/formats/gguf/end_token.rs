//! The end token (EOS) that a tokenizer adds to texts.
//!
//! Last-token pooling reads the state of the end token. Older converters did not write that the tokenizer adds it; texts of such files
//! would be pooled at their last word.

use super::file::GgufFile;
use super::tokens::{TOKENS, strings};
use crate::error::LoadError;
use crate::json::shown;
use prefold_core::Pooling;

const ADD: &str = "tokenizer.ggml.add_eos_token";
const ID: &str = "tokenizer.ggml.eos_token_id";

/// End of a chat message, which files of chat models name as the end token, and the end token of embedding models with their vocabulary.
const END_OF_MESSAGE: &str = "<|im_end|>";
const END_OF_TEXT: &str = "<|endoftext|>";

/// Reason why texts end with a token, or with none.
enum End<'a> {
    /// The file states it, or the kind of tokenizer has it.
    Stated(&'a str, u32),
    /// The file does not state it, but its pooling needs it.
    Supplied(&'a str, u32),
    /// The file states that there is none.
    Refused,
    /// The file states nothing.
    None,
}

/// The token after every text; `default` says whether tokenizers of this kind add one.
///
/// # Errors
/// Its metadata are malformed, or there is no such token.
pub(super) fn end_token(file: &GgufFile, default: bool) -> Result<Option<(String, u32)>, LoadError> {
    Ok(match end(file, default)? {
        End::Stated(text, id) | End::Supplied(text, id) => Some((text.to_owned(), id)),
        End::Refused | End::None => None,
    })
}

/// A warning for last-token pooling, if the file does not state the end token.
///
/// # Errors
/// As for [`end_token`].
pub(super) fn warning(file: &GgufFile) -> Result<Option<String>, LoadError> {
    const BESIDE: &str = "a tokenizer.json in the same folder would be used instead";
    // Other kinds always end texts.
    let (kind, pre) = (file.str("tokenizer.ggml.model")?, file.str("tokenizer.ggml.pre")?);
    if !matches!(kind, Some("gpt2" | "llama")) || matches!(pre, Some("roberta-bpe" | "modern-bert")) {
        return Ok(None);
    }
    Ok(match end(file, false)? {
        End::Stated(..) => None,
        End::Supplied(text, _) => Some(format!(
            "`{ADD}` is missing, as in files of older converters; texts get the end token (EOS) {}, which last-token pooling \
             needs; {BESIDE}",
            shown(&text.into())
        )),
        End::Refused => Some(format!(
            "`{ADD}` is false: texts get no end token (EOS), so last-token pooling takes the state of a text's last word; {BESIDE}"
        )),
        End::None => Some(format!(
            "the file names no end token (EOS) for texts, so last-token pooling takes the state of a text's last word; {BESIDE}"
        )),
    })
}

fn end(file: &GgufFile, default: bool) -> Result<End<'_>, LoadError> {
    match file.bool(ADD)? {
        Some(false) => return Ok(End::Refused),
        Some(true) => {}
        None if default => {}
        None if file.pooling()? == Some(Pooling::LastToken) => return supplied(file),
        None => return Ok(End::None),
    }
    let (text, id) = token(file)?.ok_or_else(|| file.lacks(ID))?;
    Ok(End::Stated(text, id))
}

/// The end token of an embedding model whose file does not state that it is added.
fn supplied(file: &GgufFile) -> Result<End<'_>, LoadError> {
    Ok(match token(file)? {
        None => End::None,
        Some((END_OF_MESSAGE, id)) => {
            let of_text = strings(file, TOKENS)?.into_iter().zip(0..).find(|(text, _)| *text == END_OF_TEXT);
            let (text, id) = of_text.unwrap_or((END_OF_MESSAGE, id));
            End::Supplied(text, id)
        }
        Some((text, id)) => End::Supplied(text, id),
    })
}

/// The token that the file names as the end.
fn token(file: &GgufFile) -> Result<Option<(&str, u32)>, LoadError> {
    let id = file.usize(ID)?.map_or_else(|| file.usize("tokenizer.ggml.seperator_token_id"), |id| Ok(Some(id)));
    let Some(id) = id? else { return Ok(None) };
    let tokens = strings(file, TOKENS)?;
    match (tokens.get(id), u32::try_from(id)) {
        (Some(text), Ok(id)) => Ok(Some((text, id))),
        _ => Err(file.wrong(ID, &format!("below the number of tokens ({}), it is {id}", tokens.len()))),
    }
}
