//! Prompts before the first text of a pair.

use super::encoder::Encoder;
use crate::testing::support::{limits, tokenizer};
use crate::{EncodeOptions, Input, Prompt, Prompts};

const PLACE: crate::Place = crate::Place { field: "inputs", index: None };

#[test]
fn a_prompt_stands_before_the_first_text_of_a_pair() {
    let encoder = Encoder::new(tokenizer("bert-reranker-tiny"), None, limits(100, false)).unwrap();
    let encode = |first: &str, default: Option<&str>, prompt: Option<Prompt>| {
        let by_name = [("web".to_owned(), "the red cat ".to_owned())].into();
        let prompts = Prompts { by_name, default: default.map(str::to_owned), excluded: false };
        let options = EncodeOptions { prompt, ..EncodeOptions::new("inputs") };
        let resolved = encoder.resolve(&options, Some(&prompts)).unwrap();
        // Twice, since the second pair takes the tokens of the first one's query.
        let pair = |second: &str| {
            let input = Input::Pair(first.into(), second.to_owned());
            encoder.encode(input, PLACE, &resolved).unwrap().tokens.input_ids().to_vec()
        };
        [pair("red fox"), pair("blue sea")]
    };
    let plain = encode("fox", None, None);
    let prompted = encode("the red cat fox", None, None);
    assert_ne!(plain, prompted);
    assert_eq!(encode("fox", Some("the red cat "), None), prompted);
    assert_eq!(encode("fox", None, Some(Prompt::Named("web".to_owned()))), prompted);
    assert_eq!(encode("fox", Some("the red cat "), Some(Prompt::Text(String::new()))), plain);
}
