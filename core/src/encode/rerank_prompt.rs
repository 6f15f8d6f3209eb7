//! Common head of a rerank request's prompts, encoded once where that is exact.
//!
//! The head (instruction, query and labels) ends in punctuation and a space. The space may become one token with the
//! document's first word, the punctuation may not: in the known pre-tokenizers (`word_boundaries.rs`) no word has a
//! space after punctuation, and no pattern looks back, or ahead from anything but white space. So the text up to the
//! punctuation and the rest of the prompt have the same tokens encoded separately as together. Other tokenizers encode
//! every prompt as a whole.

use super::word_boundaries::splits_words;
use crate::capabilities::RerankTemplate;
use crate::request::SharedText;
use std::sync::Arc;
use tokenizers::Tokenizer;

/// A template, and the ids of its fixed texts.
#[derive(Debug)]
pub(crate) struct EncodedTemplate {
    template: RerankTemplate,
    /// Ids of the pieces after the document.
    pub(crate) after: Vec<u32>,
    /// True if the text before a document in its piece may be encoded on its own.
    pub(crate) splits: bool,
}

/// Prompt before the documents of one query.
#[derive(Debug, Clone)]
pub(crate) struct EncodedHead {
    instruction: Option<Arc<str>>,
    query: SharedText,
    /// Ids of all but `rest`.
    pub(crate) input_ids: Vec<u32>,
    /// Text that is encoded together with the document.
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
        query: SharedText,
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
    /// True for the head of this instruction and query.
    pub(crate) fn is_for(&self, instruction: Option<&Arc<str>>, query: &SharedText) -> bool {
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

/// True if a text that ends with the label may be encoded in two parts, cut before the label's last space.
pub(crate) fn splits_before_space(tokenizer: &Tokenizer, label: &str) -> bool {
    // The contractions of the patterns begin with an apostrophe.
    let Some(end) = label.strip_suffix(' ').and_then(|label| label.chars().next_back()) else { return false };
    end.is_ascii_punctuation() && end != '\'' && splits_words(tokenizer) && added_tokens_stay_apart(tokenizer, end)
}

/// True if no added token reaches over the cut between `end` and a space, with its content or by its flags.
fn added_tokens_stay_apart(tokenizer: &Tokenizer, end: char) -> bool {
    let cut = [end, ' '].iter().collect::<String>();
    let added = tokenizer.get_added_tokens_decoder();
    added.values().all(|token| !(token.single_word || token.lstrip || token.rstrip || token.content.contains(&cut)))
}

#[cfg(test)]
#[path = "tests/rerank_prompt.rs"]
mod tests;
