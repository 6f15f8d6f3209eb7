//! Word boundaries: places where a text may be cut without changing its tokens.
//!
//! In the pre-tokenizers below no word has a space after a letter or digit, and no pattern looks back, or ahead from
//! anything but white space. So a text cut before a space that follows an ASCII letter or digit has the same tokens in
//! two parts as in one.

use std::ops::Not;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::{AddedToken, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer};

/// Patterns of the words of Qwen and of Llama 3, which take one and three digits at a time.
const PATTERNS: [&str; 2] = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// Maximum bytes of a text that composition (NFC) turns into one.
const COMPOSED: usize = 4;

/// Properties of a tokenizer's words, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WordBoundaries {
    /// A text may be cut at [`is_boundary`].
    pub(crate) known: bool,
    /// Maximum bytes of a text per byte that its tokens stand for; `None` if a token may stand for any number.
    pub(crate) bytes_for_byte: Option<usize>,
}

impl WordBoundaries {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Self {
        let added = tokenizer.get_added_tokens_decoder();
        let plain = added.values().all(|token| (token.single_word || token.lstrip || token.rstrip).not());
        let words = plain && splits_words(tokenizer);
        let stays_apart = |token: &AddedToken| {
            let content = token.content.as_bytes();
            (1..content.len()).all(|at| is_boundary(content, at).not())
        };
        // Without one of these characters in the vocabulary, bytes of a text have no token at all.
        let has_bytes =
            || ByteLevel::alphabet().into_iter().all(|byte| tokenizer.token_to_id(&byte.to_string()).is_some());
        let bytes_for_byte = if tokenizer.get_normalizer().is_some() { COMPOSED } else { 1 };
        Self {
            known: words && added.values().all(stays_apart),
            bytes_for_byte: (words && has_bytes()).then_some(bytes_for_byte),
        }
    }

    /// The last boundary at `at` or before it, or the text's beginning.
    pub(crate) fn last_before(text: &str, at: usize) -> usize {
        (1..=at.min(text.len())).rev().find(|&at| is_boundary(text.as_bytes(), at)).unwrap_or(0)
    }
}

/// True between an ASCII letter or digit and a space.
fn is_boundary(text: &[u8], at: usize) -> bool {
    at == text.len() || text[at] == b' ' && at.checked_sub(1).is_some_and(|before| text[before].is_ascii_alphanumeric())
}

/// True for byte-level BPE with a known word pattern.
pub(super) fn splits_words(tokenizer: &Tokenizer) -> bool {
    let is_plain = |word: &PreTokenizerWrapper, use_regex: bool| matches!(word, PreTokenizerWrapper::ByteLevel(bytes) if !bytes.add_prefix_space && bytes.use_regex == use_regex);
    let is_known = |split: &PreTokenizerWrapper| {
        let PreTokenizerWrapper::Split(split) = split else { return false };
        let SplitPattern::Regex(pattern) = &split.pattern else { return false };
        PATTERNS.contains(&pattern.as_str()) && split.behavior == SplitDelimiterBehavior::Isolated && !split.invert
    };
    let words = match tokenizer.get_pre_tokenizer() {
        Some(PreTokenizerWrapper::Sequence(steps)) => match steps.as_ref() {
            [split, bytes] => is_known(split) && is_plain(bytes, false),
            _ => false,
        },
        // With its own pattern, which is GPT-2's.
        Some(bytes) => is_plain(bytes, true),
        None => false,
    };
    // Composition joins neither of the two characters at a cut to the other.
    words
        && matches!(tokenizer.get_normalizer(), None | Some(NormalizerWrapper::NFC(_)))
        && matches!(tokenizer.get_model(), ModelWrapper::BPE(bpe) if bpe.dropout.is_none())
}
