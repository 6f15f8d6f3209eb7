//! Parts of long texts against the whole texts.

use crate::encode::encoder::Encoder;
use crate::error::Error;
use crate::request::{EncodeOptions, Input, Place, TruncationDirection};
use crate::testing::support::{limits, tokenizer};
use proptest::prelude::*;
use tokenizers::TruncationParams;

const PLACE: Place = Place { field: "inputs", index: None };

fn encoder(model: &str, limit: usize) -> Encoder {
    Encoder::new(tokenizer(model), None, limits(limit, false)).unwrap()
}

fn options() -> EncodeOptions {
    EncodeOptions::new("inputs")
}

fn truncating(direction: TruncationDirection) -> EncodeOptions {
    EncodeOptions { truncate: Some(true), direction: Some(direction), ..options() }
}

fn bare(direction: TruncationDirection) -> EncodeOptions {
    EncodeOptions { add_special_tokens: false, ..truncating(direction) }
}

fn encode(encoder: &Encoder, input: Input, options: &EncodeOptions) -> Result<Vec<u32>, Error> {
    Ok(encoder.encode(input, PLACE, &encoder.resolve(options, None)?)?.tokens.input_ids().to_vec())
}

fn problem(result: Result<Vec<u32>, Error>) -> String {
    match result {
        Err(error @ (Error::Validation { .. } | Error::TooLong { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Texts whose words do not end where a cut by bytes goes: numbers and letters in a row, and words of every length.
fn runs() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => "[a-z]{1,9}",
        2 => "[0-9]{1,40}",
        1 => "[a-zé日]{40,400}",
        1 => "[.,;!\n ]{1,3}",
    ];
    prop::collection::vec(word, 40..80).prop_map(|words| {
        let paragraph = words.join(" ");
        paragraph.repeat((150_000 / paragraph.len()).max(1))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn a_text_that_is_cut_on_the_left_keeps_the_tokens_that_it_has_whole(text in runs(), limit in 2usize..40) {
        for model in ["qwen3-tiny", "llama-tiny"] {
            let encoder = encoder(model, limit);
            prop_assert!(encoder.bound.exceeds(&text, limit));
            let whole = tokenizer(model).encode_fast(text.as_str(), false).unwrap();
            let kept = &whole.get_ids()[whole.len() - limit..];
            let options = bare(TruncationDirection::Left);
            prop_assert_eq!(encode(&encoder, Input::Text(text.clone()), &options).unwrap(), kept);
        }
    }
}

#[test]
fn a_text_without_words_is_cut_on_the_left_where_it_would_be_cut_whole() {
    let number = |digits: usize| "1234567".repeat(digits / 7 + 1)[..digits].to_owned();
    for digits in [100_000, 100_001, 100_002] {
        let encoder = encoder("llama-tiny", 5);
        let text = format!("{} ", number(digits));
        let whole = tokenizer("llama-tiny").encode_fast(text.as_str(), false).unwrap();
        let options = bare(TruncationDirection::Left);
        let got = encode(&encoder, Input::Text(text), &options).unwrap();
        assert_eq!(got, whole.get_ids()[whole.len() - 5..], "{digits} digits, three to a word");
    }
    let long = Input::Text(number(5_000_000));
    let refused = problem(encode(&encoder("llama-tiny", 5), long.clone(), &truncating(TruncationDirection::Left)));
    assert!(refused.contains("cannot be truncated: 5000000 bytes in a row"), "{refused}");
    assert_eq!(encode(&encoder("llama-tiny", 5), long, &bare(TruncationDirection::Right)).unwrap().len(), 5);
}

#[test]
fn a_text_that_has_too_many_tokens_whatever_they_are_is_refused_before_it_is_tokenized() {
    let text = "a".repeat(300_000);
    for model in ["qwen3-tiny", "llama-tiny"] {
        let encoder = encoder(model, 40);
        let least = encoder.bound.least_tokens(&text);
        let tokens = tokenizer(model).encode_fast(text.as_str(), false).unwrap().len();
        assert!(40 < least && least <= tokens, "{model}: {least} of {tokens}");
        let refused = problem(encode(&encoder, Input::Text(text.clone()), &options()));
        assert!(refused.contains(&format!("has {least} tokens or more, and")), "{refused}");
    }
    let note = "\u{1100}\u{1161}\u{11a8}".repeat(10_000);
    let encoder = encoder("qwen3-tiny", 40);
    let tokens = tokenizer("qwen3-tiny").encode_fast(note.as_str(), false).unwrap().len();
    assert!(encoder.bound.least_tokens(&note) <= tokens, "composition makes three bytes of nine");
}

#[test]
fn a_part_ends_between_characters() {
    let bound = encoder("qwen3-tiny", 10).bound;
    let text = "é".repeat(200_000);
    for direction in [TruncationDirection::Right, TruncationDirection::Left] {
        let part = bound.part(&text, 10, direction).unwrap();
        match direction {
            TruncationDirection::Right => assert!(part.len() < text.len() && !bound.exceeds(part, 10)),
            TruncationDirection::Left => assert_eq!(part, text, "it is one word"),
        }
        assert_eq!(bound.part("short", 10, direction).unwrap(), "short");
    }
}

#[test]
fn the_tokenizer_says_which_end_is_cut_where_the_request_does_not() {
    let with_direction = |direction| {
        let mut tokenizer = tokenizer("llama-tiny");
        let truncation = TruncationParams { direction, max_length: usize::MAX, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(truncation)).unwrap();
        Encoder::new(tokenizer, None, limits(5, true)).unwrap()
    };
    let text = || Input::Text("one two three four five six seven eight nine ten".to_owned());
    let cut = |encoder: &Encoder, direction| {
        let options = EncodeOptions { direction, add_special_tokens: false, ..options() };
        encode(encoder, text(), &options).unwrap()
    };
    let plain = encoder("llama-tiny", 5);
    let [left, right] = [TruncationDirection::Left, TruncationDirection::Right]
        .map(|direction| encode(&plain, text(), &bare(direction)).unwrap());
    assert_ne!(left, right);
    let (to_the_left, to_the_right) =
        (with_direction(tokenizers::TruncationDirection::Left), with_direction(tokenizers::TruncationDirection::Right));
    assert_eq!((cut(&to_the_left, None), cut(&to_the_right, None)), (left.clone(), right.clone()));
    assert_eq!(cut(&to_the_left, Some(TruncationDirection::Right)), right);
    assert_eq!(cut(&to_the_right, Some(TruncationDirection::Left)), left);
}

#[test]
fn an_input_costs_what_is_encoded_of_it() {
    let encoder = encoder("qwen3-tiny", 10);
    let prompt = Some(crate::Prompt::Text("find ".repeat(100)));
    let options = encoder.resolve(&EncodeOptions { prompt, ..truncating(TruncationDirection::Right) }, None).unwrap();
    let cost = |input| encoder.cost(&input, &options);
    assert_eq!(cost(Input::Text("word".to_owned())), 504);
    assert_eq!(cost(Input::Pair("a query".into(), "word".to_owned())), 511);
    let rerank = |query: &str| Input::Rerank {
        instruction: Some("find".into()),
        query: query.into(),
        document: "word".to_owned(),
    };
    assert_eq!(cost(rerank("a query")), 15);
    let long = "word ".repeat(1 << 20);
    let most = cost(Input::Text(long.clone()));
    assert!((1 << 16..1 << 18).contains(&most), "{most}");
    assert_eq!(cost(Input::Pair(long.as_str().into(), long.clone())), 2 * most);
    assert_eq!(encoder.most_tokens_of(&Input::Text(long), &options), 10);
    assert_eq!(encoder.most_tokens_of(&list_of(3), &options), 3);
}

fn list_of(ids: usize) -> Input {
    Input::Ids(vec![7; ids])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_short_part_has_the_tokens_that_the_whole_keeps(
        paragraph in prop::collection::vec(prop_oneof![4 => "[a-zA-Z]{1,9}", 2 => "[0-9]{1,9}", 1 => "[.,;!\n ]{1,30}", 1 => "[a-z\u{e9}\u{65e5}]{40,90}"], 60..200),
        limit in 1usize..40,
    ) {
        let text = paragraph.join(" ");
        for model in ["qwen3-tiny", "llama-tiny"] {
            let encoder = encoder(model, limit);
            let whole = tokenizer(model).encode_fast(text.as_str(), false).unwrap();
            for direction in [TruncationDirection::Right, TruncationDirection::Left] {
                let options = bare(direction);
                let kept = whole.len().min(limit);
                let kept = match direction {
                    TruncationDirection::Right => &whole.get_ids()[..kept],
                    TruncationDirection::Left => &whole.get_ids()[whole.len() - kept..],
                };
                let resolved = encoder.resolve(&options, None).unwrap();
                let encoded = encoder.encode(Input::Text(text.clone()), PLACE, &resolved).unwrap();
                prop_assert_eq!(encoded.tokens.input_ids(), kept);
                prop_assert_eq!(encoded.is_truncated, whole.len() > limit);
            }
        }
    }

    #[test]
    fn a_prompt_that_is_encoded_once_changes_nothing(
        prompt in "[a-zA-Z0-9:'., \n\u{e9}]{1,60}",
        texts in prop::collection::vec("[ a-z0-9:'\n\u{e9}]{1,20}", 1..5),
        limit in 3usize..60,
        left in any::<bool>(),
    ) {
        for model in ["qwen3-tiny", "llama-tiny", "xlm-roberta-tiny"] {
            let encoder = encoder(model, limit);
            let direction = if left { TruncationDirection::Left } else { TruncationDirection::Right };
            let with = EncodeOptions { prompt: Some(crate::Prompt::Text(prompt.clone())), ..truncating(direction) };
            let with = encoder.resolve(&with, None).unwrap();
            for text in &texts {
                let plain = encoder.resolve(&truncating(direction), None).unwrap();
                let expected = encoder.encode(Input::Text(format!("{prompt}{text}")), PLACE, &plain).map(|it| it.tokens);
                let found = encoder.encode(Input::Text(text.clone()), PLACE, &with).map(|it| it.tokens);
                prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"));
            }
        }
    }
}
