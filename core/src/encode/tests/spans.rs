//! Positions of tokens compared with Hugging Face's tokenizers.

use super::*;
use crate::request::EncodeOptions;
use crate::testing::support::{limits, tokenizer};

/// A post-processor that trims offsets, as RoBERTa's does, trims them once.
#[test]
fn places_of_tokens_are_those_of_the_tokenizer() {
    let encoder = Encoder::new(tokenizer("roberta-tiny"), None, limits(100, false)).unwrap();
    let resolved = encoder.resolve(&EncodeOptions::new("inputs"), None).unwrap().with_offsets();
    let place = Place { field: "inputs", index: None };
    for text in ["Honey bees dance.", " two  spaces ", "né\u{e9} \u{1f41d} bees, bees"] {
        let whole = encoder.tokenizer.encode_char_offsets(text, true).unwrap();
        let special = whole.get_special_tokens_mask().iter();
        let expected: Vec<_> = whole.get_offsets().iter().zip(special).filter(|&(_, &special)| special == 0).collect();
        let spans = encoder.spans(text.to_owned(), place, &resolved).unwrap();
        let found: Vec<_> = spans.tokens.iter().map(|token| (token.start, token.end)).collect();
        assert_eq!(found, expected.into_iter().map(|(&place, _)| place).collect::<Vec<_>>(), "{text:?}");
        assert_eq!(spans.kept.iter().filter(|&&kept| kept).count(), found.len());
    }
}
