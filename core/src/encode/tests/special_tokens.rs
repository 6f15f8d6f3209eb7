//! Limits that special tokens fill.

use crate::encode::encoder::Encoder;
use crate::error::Error;
use crate::request::{EncodeOptions, Input, Place};
use crate::testing::support::{limits, qwen3_template, tokenizer};

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

/// No shorter text would fit, so the limit of the request is at fault.
#[test]
fn a_limit_of_the_request_that_special_tokens_fill_is_named() {
    let place = Place { field: "inputs", index: None };
    let pair = || Input::Pair("one two".into(), "three".to_owned());
    let text = || Input::Text("one two three".to_owned());
    for (model, input, fixed) in
        [("qwen3-tiny", text(), 1), ("bert-mean-tiny", text(), 2), ("bert-mean-tiny", pair(), 3)]
    {
        for truncate in [None, Some(false)] {
            let encoder = Encoder::new(tokenizer(model), None, limits(500, true)).unwrap();
            let encode = |max_tokens| {
                let asked = EncodeOptions { max_tokens: Some(max_tokens), truncate, ..EncodeOptions::new("inputs") };
                let options = encoder.resolve(&asked, None).unwrap();
                encoder.encode(input.clone(), place, &options).err()
            };
            let Some(Error::Validation { field: "truncate_prompt_tokens", problem }) = encode(fixed) else {
                panic!("{model}")
            };
            let words = format!("is {fixed}, and the tokens around the text are {fixed}; send a higher limit");
            assert_eq!(problem, words, "{model}");
            assert!(!matches!(encode(fixed + 1), Some(Error::Validation { .. })), "{model}");
        }
    }
}

#[test]
fn a_limit_of_the_request_that_a_rerank_prompt_fills_is_named() {
    let encoder = Encoder::new(tokenizer("qwen3-tiny"), Some(qwen3_template()), limits(1000, true)).unwrap();
    let encode = |query: &str, max_tokens| {
        let asked = EncodeOptions { max_tokens: Some(max_tokens), ..EncodeOptions::new("documents") };
        let options = encoder.resolve(&asked, None).unwrap();
        let place = Place { field: "documents", index: Some(0) };
        encoder.encode_rerank(None, query.into(), "three", place, &options).err()
    };
    for query in ["one", &"one ".repeat(1000)] {
        let problem = encode(query, 3);
        assert!(matches!(problem, Some(Error::Validation { field: "truncate_prompt_tokens", .. })), "{problem:?}");
    }
    assert!(matches!(encode(&"one ".repeat(1000), 900), Some(Error::TooLong { .. })));
}
