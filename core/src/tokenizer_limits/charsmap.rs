//! `precompiled_charsmap` of a SentencePiece normaliser: a trie, and the texts that replace what it finds.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Maximum bytes of a `precompiled_charsmap`; real models have 0.3 MB.
pub(super) const MAX_LEN: usize = 2 << 20;

/// Length of the longest replacement.
///
/// # Errors
/// The trie is longer than the data, for which the library would reserve memory; the rest of a sentence.
pub(super) fn growth(charsmap: &str) -> Result<u64, String> {
    let bytes = BASE64_STANDARD
        .decode(charsmap)
        .map_err(|error| format!("has a `precompiled_charsmap` that is not base64: {error}"))?;
    longest(&bytes).ok_or_else(|| "has a `precompiled_charsmap` that is cut".to_owned())
}

/// Checks a `precompiled_charsmap` of another file than `tokenizer.json`, before it is built.
///
/// # Errors
/// It is too long or cut; the rest of a sentence.
pub fn check_charsmap(bytes: &[u8]) -> Result<(), String> {
    match longest(bytes) {
        _ if bytes.len() > MAX_LEN => Err(format!("has {} bytes, the limit is {MAX_LEN}", bytes.len())),
        Some(_) => Ok(()),
        None => Err("is cut".to_owned()),
    }
}

/// Length of the longest replacement; `None` if the trie is longer than the data.
fn longest(bytes: &[u8]) -> Option<u64> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let texts = rest.get(u32::from_le_bytes(*length) as usize..)?;
    Some(texts.split(|&byte| byte == 0).map(<[u8]>::len).max().unwrap_or(0).max(1) as u64)
}
