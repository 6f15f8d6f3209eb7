//! What the documents of a rerank request have in common, encoded once, where that is exact.
//!
//! The head (instruction, query and labels) ends in punctuation and a space. The space may become one token with the
//! document's first word, the punctuation may not: no pre-tokenizer below has a word in which a space follows
//! punctuation, none looks back, and none looks ahead but from white space. So the text up to the punctuation and the
//! rest of the prompt have the same tokens apart as together. Other tokenizers encode every prompt as a whole.

use crate::RerankTemplate;
use std::sync::Arc;
use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::{ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer};

/// The words of Qwen and of Llama 3, which take one and three digits at a time.
const PATTERNS: [&str; 2] = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// A template with everything fixed about it.
#[derive(Debug)]
pub(crate) struct EncodedTemplate {
    template: RerankTemplate,
    /// The ids of the pieces after the document.
    pub(crate) after: Vec<u32>,
    /// What stands before a document in its piece may be encoded on its own.
    pub(crate) splits: bool,
}

/// What stands before the documents of one query.
#[derive(Debug, Clone)]
pub(crate) struct EncodedHead {
    instruction: Option<Arc<str>>,
    query: Arc<str>,
    /// All but `rest`.
    pub(crate) input_ids: Vec<u32>,
    /// To be encoded together with the document.
    pub(crate) rest: String,
}

impl EncodedTemplate {
    /// # Errors
    /// The tokenizer's.
    pub(crate) fn new(tokenizer: &Tokenizer, template: RerankTemplate) -> Result<Self, tokenizers::Error> {
        let after = encode_pieces(tokenizer, &template.after)?;
        let splits = splits_before_space(tokenizer, template.fixed_label());
        Ok(Self { template, after, splits })
    }

    /// # Errors
    /// The tokenizer's.
    pub(crate) fn head(
        &self,
        tokenizer: &Tokenizer,
        instruction: Option<Arc<str>>,
        query: Arc<str>,
    ) -> Result<EncodedHead, tokenizers::Error> {
        let mut input_ids = encode_pieces(tokenizer, &self.template.before(instruction.as_deref(), &query))?;
        let head = self.template.head(instruction.as_deref(), &query);
        let rest = match head.strip_suffix(' ').filter(|_| self.splits) {
            Some(begun) => {
                input_ids.extend(encode_pieces(tokenizer, &[begun])?);
                " ".to_owned()
            }
            None => head,
        };
        Ok(EncodedHead { instruction, query, input_ids, rest })
    }
}

impl EncodedHead {
    /// Whether this is what stands before the documents of a query.
    pub(crate) fn is_for(&self, instruction: Option<&Arc<str>>, query: &Arc<str>) -> bool {
        self.instruction.as_ref() == instruction && self.query == *query
    }
}

fn encode_pieces(tokenizer: &Tokenizer, pieces: &[impl AsRef<str>]) -> Result<Vec<u32>, tokenizers::Error> {
    let mut ids = Vec::new();
    for piece in pieces {
        ids.extend_from_slice(tokenizer.encode_fast(piece.as_ref(), false)?.get_ids());
    }
    Ok(ids)
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
