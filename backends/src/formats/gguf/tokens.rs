//! Vocabulary in a GGUF file's metadata, for all kinds of tokenizers.

use super::file::GgufFile;
use crate::error::LoadError;
use crate::formats::special_tokens::SecondText;
use candle_core::quantized::gguf_file::Value;
use prefold_core::check_pieces;
use std::borrow::Cow;
use tokenizers::AddedToken;
use tokenizers::models::bpe::Vocab;

pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const TOKEN_TYPES: &str = "tokenizer.ggml.token_type";

/// Advice if the file's tokenizer is not supported.
pub(super) const BESIDE: &str = "to use the model's tokenizer.json, put it into the same folder";

/// A token of the vocabulary; its id is its index.
pub(super) struct Token<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) kind: Kind,
}

/// Kind of a token, by `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Part of texts; byte tokens too.
    Normal,
    /// Special token; the unknown token too, which texts may spell out.
    Control,
    /// Matched as a whole, and not special.
    UserDefined,
    /// Id without a token.
    Unused,
}

/// The vocabulary by id.
///
/// # Errors
/// It is missing, malformed or beyond a limit.
pub(super) fn tokens(file: &GgufFile) -> Result<Vec<Token<'_>>, LoadError> {
    let texts = strings(file, TOKENS)?;
    let beyond = |problem| LoadError::invalid(file.name(), format!("the vocabulary {problem}"));
    check_pieces(texts.iter().copied().zip(0..), None).map_err(beyond)?;
    let wrong = || file.wrong(TOKEN_TYPES, "a list of whole numbers");
    let kinds = match file.get(TOKEN_TYPES) {
        Some(Value::Array(kinds)) => kinds,
        Some(_) => return Err(wrong()),
        None => return Err(file.lacks(TOKEN_TYPES)),
    };
    if kinds.len() != texts.len() {
        let problem = format!("metadata `{TOKEN_TYPES}` has {} entries for {} tokens", kinds.len(), texts.len());
        return Err(LoadError::invalid(file.name(), problem));
    }
    let token = |(text, kind): (_, &Value)| {
        let kind = match *kind {
            Value::I32(kind) => i64::from(kind),
            Value::U32(kind) => i64::from(kind),
            _ => return Err(wrong()),
        };
        let kind = match kind {
            2 | 3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            _ => Kind::Normal,
        };
        Ok(Token { text: Cow::Borrowed(text), kind })
    };
    texts.into_iter().zip(kinds).map(token).collect()
}

/// Ids by piece, in the order of the pieces.
///
/// # Errors
/// A piece occurs twice.
pub(super) fn vocab(file: &GgufFile, pieces: impl ExactSizeIterator<Item = String>) -> Result<Vocab, LoadError> {
    let len = pieces.len();
    let vocab: Vocab = pieces.zip(0u32..).collect();
    if vocab.len() != len {
        let problem = format!("metadata `{TOKENS}` has {len} tokens, only {} different ones", vocab.len());
        return Err(LoadError::invalid(file.name(), problem));
    }
    Ok(vocab)
}

/// Added tokens. The mask token includes the space before it.
///
/// # Errors
/// The mask's id is malformed.
pub(super) fn added_tokens(file: &GgufFile, tokens: &[Token<'_>]) -> Result<Vec<AddedToken>, LoadError> {
    let mask = token_at(file, tokens, "tokenizer.ggml.mask_token_id")?.map(|(text, _)| text);
    let added = tokens.iter().filter(|token| matches!(token.kind, Kind::Control | Kind::UserDefined));
    let added = added.map(|token| {
        let takes_space = mask.as_deref() == Some(&*token.text);
        AddedToken::from(&*token.text, token.kind == Kind::Control).normalized(false).lstrip(takes_space)
    });
    Ok(added.collect())
}

/// The token whose id is the value of a key, and the id; `None` without the key.
///
/// # Errors
/// The value is not the id of a token.
pub(super) fn token_at(file: &GgufFile, tokens: &[Token<'_>], key: &str) -> Result<Option<(String, u32)>, LoadError> {
    let Some(id) = file.usize(key)? else { return Ok(None) };
    match (tokens.get(id), u32::try_from(id)) {
        (Some(token), Ok(id)) => Ok(Some((token.text.clone().into_owned(), id))),
        _ => Err(file.wrong(key, &format!("below the number of tokens ({}), it is {id}", tokens.len()))),
    }
}

/// The token before every text, if any; `default` says whether tokenizers of this kind add one.
///
/// # Errors
/// Its metadata are malformed, or there is no such token.
pub(super) fn first_token(
    file: &GgufFile,
    tokens: &[Token<'_>],
    default: bool,
) -> Result<Option<(String, u32)>, LoadError> {
    const ID: &str = "tokenizer.ggml.bos_token_id";
    if !file.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(default) {
        return Ok(None);
    }
    for key in [ID, "tokenizer.ggml.cls_token_id"] {
        if let Some(token) = token_at(file, tokens, key)? {
            return Ok(Some(token));
        }
    }
    Err(file.lacks(ID))
}

/// The tokens around the second text of a pair, `usual` in tokenizers of this kind: no separator before it if the file says so.
/// Other kinds have none; files of ModernBERT may still state one.
///
/// # Errors
/// The statement is malformed.
pub(super) fn separation(file: &GgufFile, usual: SecondText) -> Result<SecondText, LoadError> {
    Ok(match (usual, file.bool("tokenizer.ggml.add_sep_token")?) {
        (SecondText::Separated, Some(false)) => SecondText::Joined,
        (usual, _) => usual,
    })
}

/// Scores of the pieces by id.
///
/// # Errors
/// They are missing or malformed.
pub(super) fn scores(file: &GgufFile, tokens: &[Token<'_>]) -> Result<Vec<f64>, LoadError> {
    let wrong = || file.wrong(SCORES, "a list of finite numbers, one for each token");
    let scores = match file.get(SCORES) {
        Some(Value::Array(scores)) if scores.len() == tokens.len() => scores,
        Some(_) => return Err(wrong()),
        None => return Err(file.lacks(SCORES)),
    };
    let score = |score: &Value| match *score {
        Value::F32(score) if score.is_finite() => Ok(f64::from(score)),
        _ => Err(wrong()),
    };
    scores.iter().map(score).collect()
}

/// The strings of a list.
///
/// # Errors
/// It is missing or malformed.
pub(super) fn strings<'a>(file: &'a GgufFile, key: &str) -> Result<Vec<&'a str>, LoadError> {
    let wrong = || file.wrong(key, "a list of strings");
    match file.get(key) {
        None => Err(file.lacks(key)),
        Some(Value::Array(values)) => values
            .iter()
            .map(|value| if let Value::String(s) = value { Ok(s.as_str()) } else { Err(wrong()) })
            .collect(),
        Some(_) => Err(wrong()),
    }
}

/// Error of the tokenizer library.
pub(super) fn failed(file: &GgufFile) -> impl Fn(tokenizers::Error) -> LoadError + Copy {
    |error| LoadError::invalid(file.name(), format!("tokenizer: {error}"))
}
