//! Limits that special tokens fill.

use crate::encode::encoder::Encoder;
use crate::error::Error;
use crate::request::{EncodeOptions, Input, Place};
use crate::testing::support::{limits, tokenizer};

#[test]
fn a_limit_that_special_tokens_fill_is_refused() {
    for (model, special) in [("qwen3-tiny", 1), ("llama-tiny", 1), ("bert-mean-tiny", 2)] {
        let encode = |text: &str, limit| {
            let encoder = Encoder::new(tokenizer(model), None, limits(limit, true)).unwrap();
            let options = encoder.resolve(&EncodeOptions::new("inputs"), None).unwrap();
            let fitted = encoder.encode(Input::Text(text.to_owned()), Place { field: "inputs", index: None }, &options);
            fitted.map(|fitted| fitted.tokens.input_ids().len())
        };
        let Err(Error::TooLong { problem, .. }) = encode("one two three", special) else { panic!("{model}") };
        let words = format!("has no room for its text, because special tokens take {special}; this model's maximum");
        assert!(problem.contains(&words), "{model}: {problem}");
        assert_eq!(encode("one two three", special + 1).unwrap(), special + 1, "{model}");
        assert_eq!(encode("", special).unwrap(), special, "{model}");
    }
}
