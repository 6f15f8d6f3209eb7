//! Limits on added tokens, which are found in a text as a whole.

use super::growth::of_normalizer;
use super::sums::TokenizerSums;
use super::vocabulary::MAX_TOKEN_BYTES;
use serde::Deserialize;
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper, Tokenizer};

/// Maximum added tokens. Real tokenizers have up to some ten thousand.
const MAX_TOKENS: usize = 100_000;

/// Maximum bytes that all steps of the normalizer make of all added tokens, including intermediate results: a bound on its work.
const MAX_NORMALIZED: u64 = 256 << 20;

/// Fields of an added token that have limits.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AddedToken {
    content: String,
    lstrip: bool,
    rstrip: bool,
    normalized: bool,
}

/// Checks the added tokens of another file than `tokenizer.json`, before the library adds them, and adds them to the sums.
///
/// # Errors
/// They are beyond a limit; the rest of a sentence.
pub fn check_added_tokens(
    tokens: &[tokenizers::AddedToken],
    normalizer: Option<&NormalizerWrapper>,
    sums: &mut TokenizerSums,
) -> Result<(), String> {
    let growth = normalizer.map_or(Ok(1), of_normalizer)?;
    let read = |token: &tokenizers::AddedToken| AddedToken {
        content: token.content.clone(),
        lstrip: token.lstrip,
        rstrip: token.rstrip,
        normalized: token.normalized,
    };
    let tokens: Vec<AddedToken> = tokens.iter().map(read).collect();
    check_added(&tokens, normalizer.map(|steps| (steps, growth)), sums)
}

/// Checks a tokenizer's added tokens, which the sums already count, under another normalizer, before the library
/// normalizes them again.
///
/// # Errors
/// They are beyond a limit; the rest of a sentence.
pub fn check_normalizer(
    tokenizer: &Tokenizer,
    normalizer: &NormalizerWrapper,
    sums: &mut TokenizerSums,
) -> Result<(), String> {
    let tokens: Vec<_> = tokenizer.get_added_tokens_decoder().values().cloned().collect();
    let mut counted = TokenizerSums::default();
    check_added_tokens(&tokens, tokenizer.get_normalizer(), &mut counted)?;
    sums.remove_tokens(&counted);
    check_added_tokens(&tokens, Some(normalizer), sums)
}

/// Checks the number of tokens and their lengths, before and after normalization, which turns a byte into at most the number of bytes that the
/// second argument gives. White space at the edge of a token that takes adjacent white space would be scanned again for each such token in a row.
///
/// # Errors
/// They are beyond a limit; the rest of a sentence.
pub(super) fn check_added(
    added: &[AddedToken],
    normalizer: Option<(&NormalizerWrapper, u64)>,
    sums: &mut TokenizerSums,
) -> Result<(), String> {
    if added.len() > MAX_TOKENS {
        return Err(format!("has {} items, the limit is {MAX_TOKENS}", added.len()));
    }
    let mut work = 0_u64;
    for (index, token) in added.iter().enumerate() {
        let length = token.content.len();
        if length > MAX_TOKEN_BYTES {
            return Err(format!("item {index} has {length} bytes, the limit is {MAX_TOKEN_BYTES}"));
        }
        let mut content = NormalizedString::from(token.content.as_str());
        if let Some((normalizer, growth)) = normalizer.filter(|_| token.normalized) {
            work = work.saturating_add(length as u64 * growth);
            if work > MAX_NORMALIZED {
                return Err(format!("may take more than {MAX_NORMALIZED} bytes while they are normalized"));
            }
            normalizer.normalize(&mut content).map_err(|error| format!("item {index}: {error}"))?;
        }
        sums.add_token(content.get().len().max(length) as u64)?;
        let is_cut = |content: &str| content.trim() != content;
        if (token.lstrip || token.rstrip) && (is_cut(&token.content) || is_cut(content.get())) {
            return Err(format!(
                "item {index}, {:?}, has white space at its edge and takes adjacent white space (`lstrip`, `rstrip`)",
                token.content
            ));
        }
    }
    Ok(())
}
