//! Token types of pairs.

use super::*;
use crate::testing::support::{limits, tokenizer};

#[test]
fn the_second_text_has_type_1_without_a_post_processor() {
    let mut tokenizer = tokenizer("qwen3-tiny");
    tokenizer.with_post_processor(None::<tokenizers::PostProcessorWrapper>);
    let limits = EncodeLimits { token_types: 2, ..limits(100, false) };
    let encoder = Encoder::new(tokenizer, None, limits).unwrap();
    let place = Place { field: "inputs", index: None };
    let pair = Input::Pair("a".into(), "b".to_owned());
    let encoded = encoder.encode(pair, place, &encoder.resolve(&EncodeOptions::new("inputs"), None).unwrap()).unwrap();
    let ids = encoded.tokens.input_ids().to_vec();
    assert_eq!(encoded.tokens, Tokens::new(ids).with_token_types(vec![0, 1]).unwrap());
}
