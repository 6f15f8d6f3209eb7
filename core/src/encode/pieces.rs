//! Tokens of a text, special tokens excluded, and the truncation of texts and pairs.

use crate::request::TruncationDirection;
use tokenizers::Encoding;

/// Tokens of a text without special ones.
#[derive(Debug, Clone)]
pub(crate) struct Pieces {
    /// All tokens, or the tokens at the end that is kept.
    encoding: Encoding,
    /// Number of all tokens.
    len: usize,
    /// Byte of the text at which its offsets begin.
    pub(crate) start: usize,
}

impl Pieces {
    pub(crate) fn new(encoding: Encoding, start: usize) -> Self {
        Self { len: encoding.len(), encoding, start }
    }

    /// Number of the tokens that the text has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Truncates to the tokens that an input of `max_tokens` can have, for a text that many pairs share.
    pub(crate) fn kept_for(mut self, max_tokens: usize, direction: TruncationDirection) -> Self {
        cut(&mut self.encoding, max_tokens, direction);
        self
    }

    /// The tokens, truncated to a maximum number.
    pub(crate) fn cut_to(mut self, len: usize, direction: TruncationDirection) -> Encoding {
        cut(&mut self.encoding, len, direction);
        self.encoding
    }
}

/// Leaves `len` tokens at one end.
fn cut(encoding: &mut Encoding, len: usize, direction: TruncationDirection) {
    let excess = encoding.len().saturating_sub(len);
    if excess == 0 {
        return;
    }
    // The library's truncation makes encodings of everything that is cut off, and is slow if little is left.
    let kept = match direction {
        TruncationDirection::Left => excess..encoding.len(),
        TruncationDirection::Right => 0..len,
    };
    *encoding = Encoding::new(
        encoding.get_ids()[kept.clone()].to_vec(),
        encoding.get_type_ids()[kept.clone()].to_vec(),
        encoding.get_tokens()[kept.clone()].to_vec(),
        encoding.get_word_ids()[kept.clone()].to_vec(),
        encoding.get_offsets()[kept.clone()].to_vec(),
        encoding.get_special_tokens_mask()[kept.clone()].to_vec(),
        encoding.get_attention_mask()[kept].to_vec(),
        Vec::new(),
        Default::default(),
    );
}

/// Lengths of a pair after truncation to `max` tokens together, as `longest_first` of Hugging Face's tokenizers does: first the longer text
/// is truncated, then both to equal lengths.
pub(crate) fn longest_first([first, second]: [usize; 2], max: usize) -> [usize; 2] {
    let shorter = first.min(second);
    let shorter = if shorter + shorter <= max { shorter } else { max / 2 };
    let longer = max - shorter;
    if first > second { [longer, shorter] } else { [shorter, longer] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokenizers::{TruncationParams, TruncationStrategy, truncate_encodings};

    fn encoding(len: usize) -> Encoding {
        let ids: Vec<u32> = (0..len as u32).collect();
        Encoding::new(
            ids,
            vec![0; len],
            vec![String::new(); len],
            vec![None; len],
            vec![(0, 0); len],
            vec![0; len],
            vec![1; len],
            vec![],
            Default::default(),
        )
    }

    proptest! {
        #[test]
        fn pairs_are_cut_as_the_library_cuts_them(first in 0usize..30, second in 0usize..30, max in 0usize..40) {
            prop_assume!(first + second > max);
            for (direction, of_library) in [
                (TruncationDirection::Left, tokenizers::TruncationDirection::Left),
                (TruncationDirection::Right, tokenizers::TruncationDirection::Right),
            ] {
                let params = TruncationParams {
                    direction: of_library, max_length: max, strategy: TruncationStrategy::LongestFirst, stride: 0,
                };
                let (one, two) = truncate_encodings(encoding(first), Some(encoding(second)), &params).unwrap();
                let two = two.unwrap();
                let lens = longest_first([first, second], max);
                let found = Pieces::new(encoding(first), 0).kept_for(max, direction).cut_to(lens[0], direction);
                prop_assert_eq!(found.get_ids(), one.get_ids());
                let found = Pieces::new(encoding(second), 0).cut_to(lens[1], direction);
                prop_assert_eq!(found.get_ids(), two.get_ids());
            }
        }
    }
}
