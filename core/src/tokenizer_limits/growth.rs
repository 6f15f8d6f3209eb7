//! Growth of texts: how many bytes the steps of a tokenizer make of one byte.

use serde::Serialize;
use serde_json::Value;
use tokenizers::{DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper};

/// Maximum steps of a normaliser, a pre-tokenizer or a decoder.
const MAX_STEPS: usize = 32;

/// Maximum bytes that a normaliser may make of one byte. Compatibility decomposition alone makes eleven.
const MAX_NORMALIZED: u64 = 1024;

/// The same of a pre-tokenizer and of a decoder.
const MAX_OTHER: u64 = 64;

/// Maximum bytes that a normaliser may put before every piece.
const MAX_PREPENDED: usize = 16;

/// Maximum bytes that a normaliser makes of one byte, after all its steps.
///
/// # Errors
/// They are too many, or a step is not known; the rest of a sentence.
pub(crate) fn of_normalizer(normalizer: &NormalizerWrapper) -> Result<u64, String> {
    within(normalizer, "normalizers", normalizer_step, MAX_NORMALIZED)
}

/// Maximum bytes that a pre-tokenizer makes of one byte.
///
/// # Errors
/// As for [`of_normalizer`].
pub(crate) fn of_pre_tokenizer(pre_tokenizer: &PreTokenizerWrapper) -> Result<u64, String> {
    within(pre_tokenizer, "pretokenizers", pre_tokenizer_step, MAX_OTHER)
}

/// Maximum bytes that a decoder makes of one byte of tokens.
///
/// # Errors
/// As for [`of_normalizer`].
pub(crate) fn of_decoder(decoder: &DecoderWrapper) -> Result<u64, String> {
    within(decoder, "decoders", decoder_step, MAX_OTHER)
}

/// Growth by all steps, read from the library's own output for them, because it accepts several spellings as input.
fn within(
    steps: &impl Serialize,
    sequence: &str,
    step: fn(&str, &Value) -> Result<u64, String>,
    limit: u64,
) -> Result<u64, String> {
    let steps = serde_json::to_value(steps).map_err(|error| format!("cannot be written: {error}"))?;
    let mut left = vec![&steps];
    let (mut growth, mut count) = (1u64, 0);
    while let Some(value) = left.pop() {
        count += 1;
        if count > MAX_STEPS {
            return Err(format!("has more than {MAX_STEPS} steps"));
        }
        match value["type"].as_str() {
            Some("Sequence") => left.extend(value[sequence].as_array().into_iter().flatten()),
            Some(kind) => growth = growth.saturating_mul(step(kind, value)?),
            None => return Err("has a step without a type".to_owned()),
        }
        if growth > limit {
            return Err(format!("may make more than {limit} bytes of one, which is the limit"));
        }
    }
    Ok(growth)
}

fn normalizer_step(kind: &str, step: &Value) -> Result<u64, String> {
    Ok(match kind {
        "Strip" | "StripAccents" | "Nmt" => 1,
        // İ becomes two characters.
        "Lowercase" | "ByteLevel" => 2,
        "NFC" | "NFD" => 3,
        // Decomposition, spaces around an ideograph, lower case.
        "BertNormalizer" => 6,
        "NFKC" | "NFKD" => 11,
        "Replace" => replaced(step),
        "Prepend" => match text(step, "prepend").len() {
            length if length <= MAX_PREPENDED => 1 + length as u64,
            length => return Err(format!("prepends {length} bytes, the limit is {MAX_PREPENDED}")),
        },
        "Precompiled" => super::charsmap::growth(text(step, "precompiled_charsmap"))?,
        other => return Err(format!("has the step {other}, which is not supported")),
    })
}

fn pre_tokenizer_step(kind: &str, step: &Value) -> Result<u64, String> {
    Ok(match kind {
        "BertPreTokenizer" | "CharDelimiterSplit" | "Delimiter" | "Digits" | "FixedLength" | "Punctuation"
        | "Split" | "UnicodeScripts" | "Whitespace" | "WhitespaceSplit" => 1,
        // Bytes as characters; a space before every piece.
        "ByteLevel" => 4,
        "Metaspace" => 2 * text(step, "replacement").len().max(1) as u64,
        other => return Err(format!("has the step {other}, which is not supported")),
    })
}

fn decoder_step(kind: &str, step: &Value) -> Result<u64, String> {
    Ok(match kind {
        "ByteFallback" | "Fuse" | "Metaspace" | "Strip" => 1,
        // A space for every token, or between characters if the replaced text is empty.
        "BPEDecoder" | "WordPiece" | "CTC" => 2,
        // A byte that is not a character becomes one of three.
        "ByteLevel" => 3,
        "Replace" => replaced(step),
        other => return Err(format!("has the step {other}, which is not supported")),
    })
}

/// Bytes that a replacement makes of one byte: its text for each match, with empty matches between any two bytes.
fn replaced(step: &Value) -> u64 {
    let content = text(step, "content").len() as u64;
    match step["pattern"]["String"].as_str().map(|pattern| pattern.len() as u64) {
        Some(pattern @ 1..) => content.div_ceil(pattern).max(1),
        _ => content + 1,
    }
}

fn text<'v>(step: &'v Value, field: &str) -> &'v str {
    step[field].as_str().unwrap_or_default()
}
