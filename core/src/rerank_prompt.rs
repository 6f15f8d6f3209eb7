//! What the documents of a rerank request have in common, encoded once, where that is exact.
//!
//! The head (instruction, query and labels) ends in punctuation and a space. The space may become one token with the
//! document's first word, the punctuation may not: no pre-tokenizer below has a word in which a space follows
//! punctuation, none looks back, and none looks ahead but from white space. So the text up to the punctuation and the
//! rest of the prompt have the same tokens apart as together. Other tokenizers encode every prompt as a whole.

use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::{ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer};

/// The words of Qwen and of Llama 3, which take one and three digits at a time.
const PATTERNS: [&str; 2] = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// The head up to its last space.
#[derive(Debug, Clone)]
pub(crate) struct EncodedHead {
    text: String,
    input_ids: Vec<u32>,
}

impl EncodedHead {
    /// `None` if the tokenizer fails; whoever encodes the whole prompt will learn why.
    pub(crate) fn new(tokenizer: &Tokenizer, head: &str) -> Option<Self> {
        let text = head.strip_suffix(' ')?.to_owned();
        let input_ids = tokenizer.encode_fast(text.as_str(), false).ok()?.get_ids().to_vec();
        Some(Self { text, input_ids })
    }

    /// The tokens of `head` up to its last space and how many bytes they cover; `None` if this is another head.
    pub(crate) fn of(&self, head: &str) -> Option<(&[u32], usize)> {
        (head.strip_suffix(' ') == Some(&self.text)).then_some((&self.input_ids, self.text.len()))
    }
}

/// Whether a text that ends with the label may be encoded in two parts, cut before the label's last space.
pub(crate) fn splits_before_space(tokenizer: &Tokenizer, label: &str) -> bool {
    // The contractions of the patterns begin with an apostrophe.
    let Some(end) = label.strip_suffix(' ').and_then(|label| label.chars().next_back()) else { return false };
    end.is_ascii_punctuation() && end != '\'' && splits_words(tokenizer) && added_tokens_stay_apart(tokenizer, end)
}

fn splits_words(tokenizer: &Tokenizer) -> bool {
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
    // Composition joins neither of the two characters at the cut to the other.
    words
        && matches!(tokenizer.get_normalizer(), None | Some(NormalizerWrapper::NFC(_)))
        && matches!(tokenizer.get_model(), ModelWrapper::BPE(bpe) if bpe.dropout.is_none())
}

/// Whether no added token reaches over the cut between `end` and a space, as a part of the text or with its flags.
fn added_tokens_stay_apart(tokenizer: &Tokenizer, end: char) -> bool {
    let cut = [end, ' '].iter().collect::<String>();
    let added = tokenizer.get_added_tokens_decoder();
    added.values().all(|token| !(token.single_word || token.lstrip || token.rstrip || token.content.contains(&cut)))
}

#[cfg(test)]
#[path = "rerank_prompt_tests.rs"]
mod tests;
