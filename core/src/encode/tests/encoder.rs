//! Against the ids that Hugging Face's tokenizers give, and at the limits.

use super::*;
use crate::Prompts;
use crate::admission::tokenize_quota::MAX_OF_REQUEST;
use crate::testing::support::{expected, ids, limits, qwen3_template, tokenizer};
use crate::{Prompt, TokenInfo};
use proptest::prelude::*;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokenizers::TruncationParams;

const PLACE: Place = Place { field: "inputs", index: Some(3) };
const QUERY: Place = Place { field: "queries", index: Some(5) };

fn encoder(model: &str, limit: usize) -> Encoder {
    let template = (model == "qwen3-reranker-tiny").then(qwen3_template);
    Encoder::new(tokenizer(model), template, limits(limit, false)).unwrap()
}

fn prompts(default: Option<&str>) -> Prompts {
    Prompts {
        by_name: [("query".to_owned(), "Find: ".to_owned()), ("plain".to_owned(), String::new())].into(),
        default: default.map(str::to_owned),
        excluded: false,
    }
}

fn options() -> EncodeOptions {
    EncodeOptions::new("inputs")
}

fn truncating(direction: TruncationDirection) -> EncodeOptions {
    EncodeOptions { truncate: Some(true), direction: Some(direction), ..options() }
}

fn encode(encoder: &Encoder, input: Input, options: &EncodeOptions) -> Result<Vec<u32>, Error> {
    Ok(encoder.encode(input, PLACE, &encoder.resolve(options, Some(&prompts(None)))?)?.tokens.input_ids().to_vec())
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap().to_owned()
}

fn rerank(case: &Value) -> Input {
    Input::Rerank {
        instruction: Some(Arc::from(text(case, "instruction"))),
        query: SharedText::from(text(case, "query")).at(QUERY),
        document: text(case, "document"),
    }
}

fn problem(result: Result<Vec<u32>, Error>) -> String {
    match result {
        Err(error @ (Error::Validation { .. } | Error::TooLong { .. } | Error::ForeignIds { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ids_of_all_fixtures() {
    for model in ["qwen3-tiny", "llama-tiny", "qwen2-tiny", "mistral-tiny", "llama-seqcls-tiny", "qwen3-seqcls-tiny"] {
        let (encoder, expected) = (encoder(model, 1000), expected(model));
        let mut seen = 0;
        for case in ["cases", "pair_cases", "pad_id_cases"].iter().filter_map(|key| expected[*key].as_array()).flatten()
        {
            let input = match (case["text"].as_str(), case["text_pair"].as_str()) {
                (Some(first), Some(second)) => Input::Pair(first.into(), second.to_owned()),
                (Some(text), None) => Input::Text(text.to_owned()),
                _ => Input::Ids(ids(&case["input_ids"])),
            };
            let got = encode(&encoder, input, &options()).unwrap();
            assert_eq!(got, ids(&case["input_ids"]), "{model} {}", case["name"]);
            seen += 1;
        }
        assert!(seen >= 13, "{model} has {seen} cases");
    }
}

#[test]
fn rerank_prompts_of_the_fixture() {
    let (encoder, expected) = (encoder("qwen3-reranker-tiny", 1000), expected("qwen3-reranker-tiny"));
    let cases = expected["cases"].as_array().unwrap();
    assert!(cases.len() >= 16);
    for case in cases {
        let got = encode(&encoder, rerank(case), &options()).unwrap();
        assert_eq!(got, ids(&case["input_ids"]), "{}", case["name"]);
    }
    let mut input = rerank(&cases[0]);
    let default = text(&expected["prompt"], "default_instruction");
    if let Input::Rerank { instruction, .. } = &mut input {
        assert_eq!(instruction.take().as_deref(), Some(default.as_str()));
    }
    assert_eq!(encode(&encoder, input, &options()).unwrap(), ids(&cases[0]["input_ids"]));
}

#[test]
fn truncation_keeps_special_tokens() {
    let long = "The tide comes in twice a day. ".repeat(20);
    // Tokens that the post-processor puts in front and behind.
    for (model, front, behind) in [("qwen3-tiny", 0, 1), ("llama-tiny", 1, 0), ("mistral-tiny", 1, 1)] {
        let whole = encode(&encoder(model, 1000), Input::Text(long.clone()), &options()).unwrap();
        let encoder = encoder(model, 10);
        let cut = |direction| encode(&encoder, Input::Text(long.clone()), &truncating(direction)).unwrap();
        let (head, tail) = (&whole[..front], &whole[whole.len() - behind..]);
        let body = &whole[front..whole.len() - behind];
        let room = 10 - front - behind;
        assert_eq!(cut(TruncationDirection::Right), [head, &body[..room], tail].concat(), "{model}");
        assert_eq!(cut(TruncationDirection::Left), [head, &body[body.len() - room..], tail].concat(), "{model}");

        let bare = EncodeOptions { add_special_tokens: false, ..truncating(TruncationDirection::Right) };
        assert_eq!(encode(&encoder, Input::Text(long.clone()), &bare).unwrap(), &body[..10], "{model}");
    }
}

#[test]
fn exactly_the_limit_is_not_too_long() {
    let whole = encode(&encoder("qwen3-tiny", 1000), Input::Text("one two three".to_owned()), &options()).unwrap();
    let encode_within =
        |limit| encode(&encoder("qwen3-tiny", limit), Input::Text("one two three".to_owned()), &options());
    assert_eq!(encode_within(whole.len()).unwrap(), whole);
    let message = problem(encode_within(whole.len() - 1));
    let limit =
        format!("this model's maximum context length is {} tokens. Please reduce the length of", whole.len() - 1);
    assert!(message.starts_with(&format!("`inputs` item 3 has {} tokens, and", whole.len())), "{message}");
    assert!(message.contains(&limit), "{message}");
}

#[test]
fn pairs_are_cut_longest_first() {
    let model = "llama-seqcls-tiny";
    let (short, long) = ("bread", "The tide comes in twice a day. ".repeat(20));
    let body =
        |text: &str| encode(&encoder(model, 1000), Input::Text(text.to_owned()), &options()).unwrap()[1..].to_vec();
    let bos = encode(&encoder(model, 1000), Input::Text(short.to_owned()), &options()).unwrap()[0];
    let pair = |first: &str, second: &str| {
        let input = Input::Pair(first.into(), second.to_owned());
        encode(&encoder(model, 20), input, &truncating(TruncationDirection::Right)).unwrap()
    };
    let (a, b) = (body(short), body(&long));
    let room = 20 - 2 - a.len();
    assert_eq!(pair(short, &long), [&[bos], &a[..], &[bos], &b[..room]].concat(), "the short text stays whole");
    assert_eq!(pair(&long, &long), [&[bos], &b[..9], &[bos], &b[..9]].concat(), "halves when both are long");
}

#[test]
fn the_query_of_a_rerank_request_is_encoded_once_and_cut_for_each_document() {
    let encoder = encoder("llama-seqcls-tiny", 20);
    let long = "The tide comes in twice a day. ".repeat(20);
    let pairs = [("tide", "x"), ("tide", &long), (&long, "x"), (&long, &long), ("", "x"), ("tide", "x")];
    let pair = |(first, second): (&str, &str)| Input::Pair(first.into(), second.to_owned());
    let asked = truncating(TruncationDirection::Left);
    // Whatever pair of a request comes first, the others have the tokens that they have alone.
    for start in 0..pairs.len() {
        let shared = encoder.resolve(&asked, None).unwrap();
        for index in (start..pairs.len()).chain(0..start) {
            let found = encoder.encode(pair(pairs[index]), PLACE, &shared).unwrap();
            assert_eq!(found.tokens.input_ids(), encode(&encoder, pair(pairs[index]), &asked).unwrap(), "{index}");
        }
        assert_eq!(shared.first.get().unwrap().as_ref().unwrap().0, pairs[start].0.into());
    }
}

#[test]
fn a_pair_within_a_number_of_tokens_loses_those_of_the_document() {
    let model = "llama-seqcls-tiny";
    let encoder = encoder(model, 1000);
    let long = "The tide comes in twice a day. ".repeat(20);
    let pair = |second: &str| Input::Pair(long.as_str().into(), second.to_owned());
    let whole = encode(&encoder, pair(&long), &options()).unwrap();
    let query = whole.len() - encode(&encoder, Input::Text(long.clone()), &options()).unwrap().len();
    for direction in [TruncationDirection::Right, TruncationDirection::Left] {
        let within = |limit| EncodeOptions { max_tokens: Some(limit), direction: Some(direction), ..options() };
        let cut = encode(&encoder, pair(&long), &within(query + 1 + 4)).unwrap();
        let document = &whole[query + 1..];
        let kept = match direction {
            TruncationDirection::Right => &document[..4],
            TruncationDirection::Left => &document[document.len() - 4..],
        };
        assert_eq!(cut, [&whole[..=query], kept].concat());
        let message = problem(encode(&encoder, pair(&long), &within(query + 1)));
        assert!(message.contains(&format!("no room after a query of {} tokens", query + 1)), "{message}");
        assert_eq!(
            encode(&encoder, pair("tide"), &within(1000)).unwrap(),
            encode(&encoder, pair("tide"), &options()).unwrap()
        );
    }
}

/// `fixed`: tokens in front of the first one that holds a part of the document.
fn check_document_cuts(case: &Value, fixed: usize) {
    let model = "qwen3-reranker-tiny";
    let whole = encode(&encoder(model, 1000), rerank(case), &options()).unwrap();
    let suffix = tokenizer(model).encode(qwen3_template().after.concat(), false).unwrap().get_ids().to_vec();
    let document = &whole[fixed..whole.len() - suffix.len()];
    assert!(document.len() > 10);

    let limit = whole.len() - 7;
    let cut = |direction| encode(&encoder(model, limit), rerank(case), &truncating(direction)).unwrap();
    let kept = document.len() - 7;
    assert_eq!(cut(TruncationDirection::Right), [&whole[..fixed], &document[..kept], &suffix].concat());
    assert_eq!(cut(TruncationDirection::Left), [&whole[..fixed], &document[7..], &suffix].concat());

    let refused = problem(encode(&encoder(model, limit), rerank(case), &options()));
    let expected = format!("`inputs` item 3 has {} tokens, and truncation is off", whole.len());
    assert!(refused.starts_with(&expected), "{refused}");

    let no_room = fixed + suffix.len();
    for cut in [options(), truncating(TruncationDirection::Right)] {
        let refused = problem(encode(&encoder(model, no_room), rerank(case), &cut));
        assert!(
            refused.starts_with("`queries` item 5 and its instruction have ") && refused.contains("no room"),
            "{refused}"
        );
    }
    let last = encode(&encoder(model, no_room + 1), rerank(case), &truncating(TruncationDirection::Right)).unwrap();
    assert_eq!(last, [&whole[..fixed + 1], &suffix].concat(), "room for one token of the document");
}

#[test]
fn only_the_document_of_a_rerank_prompt_is_cut() {
    let expected = expected("qwen3-reranker-tiny");
    let mut case = expected["cases"][0].clone();
    let template = qwen3_template();
    let count = |text: &str| tokenizer("qwen3-reranker-tiny").encode(text, false).unwrap().len();
    let head = template.head(Some(&text(&case, "instruction")), &text(&case, "query"));
    // "Honey" is not in the small vocabulary: the head's last character, a space, is a token of its own.
    let prefix = count(&template.before(None, "").concat());
    check_document_cuts(&case, prefix + count(&head));
    // " the" is one token, which begins in the head and belongs to the document.
    case["document"] = "the tide comes in twice a day and goes out again in the evening".into();
    check_document_cuts(&case, prefix + count(head.trim_end()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_head_that_is_encoded_once_changes_nothing(
        queries in prop::collection::vec("[a-z<>: \\n]{0,12}", 1..3),
        documents in prop::collection::vec("[ a-z.\\n]{0,60}", 1..6),
        room in 60usize..160,
        direction in prop::sample::select(vec![TruncationDirection::Left, TruncationDirection::Right]),
        truncate in any::<bool>(),
    ) {
        let template = qwen3_template();
        let count = |text: String| tokenizer("qwen3-reranker-tiny").encode(text, false).unwrap().len();
        let limit = count(template.before(None, "").concat()) + count(template.after.concat()) + room;
        let once = encoder("qwen3-reranker-tiny", limit);
        let mut whole = encoder("qwen3-reranker-tiny", limit);
        whole.template.as_mut().unwrap().splits = false;
        prop_assert!(once.template.as_ref().unwrap().splits);
        let options = EncodeOptions { truncate: Some(truncate), direction: Some(direction), ..options() };
        // The rules of one request, whose head is the first document's.
        let resolved = once.resolve(&options, None).unwrap();
        for (query, document) in queries.iter().flat_map(|query| documents.iter().map(move |document| (query, document))) {
            let input = || Input::Rerank { instruction: None, query: SharedText::from(query.as_str()).at(QUERY), document: document.clone() };
            let got = once.encode(input(), PLACE, &resolved).map_err(|error| error.to_string());
            let expected = whole.encode(input(), PLACE, &whole.resolve(&options, None).unwrap());
            prop_assert_eq!(got, expected.map_err(|error| error.to_string()));
        }
        prop_assert!(resolved.head.get().is_some_and(Option::is_some));
    }
}

/// Words in a row, far more than are kept.
fn long_text() -> String {
    (0..60_000).map(|i: u32| format!("w{} ", i.wrapping_mul(2_654_435_761) % 977)).collect()
}

#[test]
fn a_text_that_is_far_too_long_is_cut_as_if_it_were_encoded_whole() {
    let text = long_text();
    for model in ["qwen3-tiny", "llama-tiny", "mistral-tiny"] {
        let encoder = encoder(model, 40);
        assert!(encoder.bound.exceeds(&text, 40), "{model}: this shows nothing");
        let whole = tokenizer(model).encode(text.as_str(), false).unwrap();
        let count = whole.get_ids().len();
        for direction in [TruncationDirection::Right, TruncationDirection::Left] {
            let options = EncodeOptions { add_special_tokens: false, ..truncating(direction) };
            let kept = match direction {
                TruncationDirection::Right => &whole.get_ids()[..40],
                TruncationDirection::Left => &whole.get_ids()[count - 40..],
            };
            assert_eq!(encode(&encoder, Input::Text(text.clone()), &options).unwrap(), kept, "{model} {direction:?}");
        }
        let refused = problem(encode(&encoder, Input::Text(text.clone()), &options()));
        assert!(refused.contains("tokens or more") && refused.contains("40"), "{refused}");
    }
}

#[test]
fn a_document_that_is_far_too_long_is_cut_as_if_it_were_encoded_whole() {
    let (encoder, document) = (encoder("qwen3-reranker-tiny", 200), long_text());
    let case = &expected("qwen3-reranker-tiny")["cases"][0];
    let input = |document: &str| match rerank(case) {
        Input::Rerank { instruction, query, .. } => Input::Rerank { instruction, query, document: document.to_owned() },
        other => other,
    };
    assert!(encoder.bound.exceeds(&document, 200));
    // Too long, and short enough to be encoded whole; its ends equal the long one's.
    let middle = document.len() / 2;
    let (first, last) = (&document[..20_000], &document[document.len() - 20_000..]);
    assert!(!encoder.bound.exceeds(&[first, last].concat(), 200) && middle > 20_000);
    for direction in [TruncationDirection::Right, TruncationDirection::Left] {
        let got = encode(&encoder, input(&document), &truncating(direction)).unwrap();
        let want = encode(&encoder, input(&[first, last].concat()), &truncating(direction)).unwrap();
        assert_eq!(got, want, "{direction:?}");
        assert_eq!(got.len(), 200);
    }
    let Input::Rerank { instruction, .. } = rerank(case) else { panic!("not a rerank input") };
    let query = Input::Rerank { instruction, query: SharedText::from(document).at(QUERY), document: "a".to_owned() };
    let refused = problem(encode(&encoder, query, &truncating(TruncationDirection::Right)));
    assert!(refused.starts_with("`queries` item 5 has more tokens") && refused.contains("200"), "{refused}");
}

#[test]
fn a_template_that_fills_the_model_is_refused() {
    let new = |limit| {
        let template = Some(qwen3_template());
        Encoder::new(tokenizer("qwen3-reranker-tiny"), template, limits(limit, false))
    };
    assert!(matches!(new(20), Err(Error::Validation { field: "template", .. })));
    assert!(new(1000).is_ok());
}

#[test]
fn rerank_needs_a_template() {
    let input = Input::Rerank { instruction: None, query: SharedText::from("q").at(QUERY), document: "d".to_owned() };
    assert!(matches!(encode(&encoder("qwen3-tiny", 100), input, &options()), Err(Error::Validation { .. })));
}

#[test]
fn ids_are_checked_and_cut() {
    let encoder = encoder("qwen3-tiny", 4);
    let list = |ids: &[u32]| Input::Ids(ids.to_vec());
    assert_eq!(encode(&encoder, list(&[1, 2, 3, 1199]), &options()).unwrap(), [1, 2, 3, 1199], "nothing is added");
    assert_eq!(
        problem(encode(&encoder, list(&[1, 1200]), &options())),
        "`inputs` item 3 has token id 1200 at position 1, ids must be below 1200"
    );
    assert!(problem(encode(&encoder, list(&[1; 5]), &options())).contains("has 5 tokens"));
    let six = list(&[1, 2, 3, 4, 5, 6]);
    assert_eq!(encode(&encoder, six.clone(), &truncating(TruncationDirection::Right)).unwrap(), [1, 2, 3, 4]);
    assert_eq!(encode(&encoder, six, &truncating(TruncationDirection::Left)).unwrap(), [3, 4, 5, 6]);
    assert!(matches!(encode(&encoder, list(&[]), &options()), Err(Error::Empty { .. })));
}

#[test]
fn an_input_without_tokens_is_empty() {
    let empty = Input::Text(String::new());
    let error = encode(&encoder("qwen3-seqcls-tiny", 100), empty.clone(), &options()).unwrap_err();
    assert!(matches!(error, Error::Empty { .. }));
    assert_eq!(error.to_string(), "`inputs` item 3 has no tokens");
    assert_eq!(encode(&encoder("qwen3-tiny", 100), empty, &options()).unwrap(), [1000], "the end token alone will do");
}

#[test]
fn a_token_unknown_to_the_model_is_refused() {
    let limits = EncodeLimits { vocab_size: 50, ..limits(100, false) };
    let encoder = Encoder::new(tokenizer("qwen3-tiny"), None, limits).unwrap();
    assert!(problem(encode(&encoder, Input::Text("Hi".to_owned()), &options())).contains("ids must be below 50"));
}

#[test]
fn prompts_stand_before_texts() {
    let encoder = encoder("qwen3-tiny", 100);
    let named = |name: &str| EncodeOptions { prompt: Some(Prompt::Named(name.to_owned())), ..options() };
    let plain = |text: &str| encode(&encoder, Input::Text(text.to_owned()), &options()).unwrap();
    let text = || Input::Text("bread".to_owned());
    assert_eq!(encode(&encoder, text(), &named("query")).unwrap(), plain("Find: bread"));
    assert_eq!(encode(&encoder, text(), &named("plain")).unwrap(), plain("bread"));
    let unknown = encode(&encoder, text(), &named("passage")).unwrap_err();
    assert!(matches!(unknown, Error::Validation { field: "prompt_name", .. }));
    assert_eq!(
        unknown.to_string(),
        "`prompt_name` `passage` is not a prompt of the served model; it has: plain, query"
    );
    let ids = encode(&encoder, Input::Ids(vec![1]), &named("query"));
    assert!(matches!(ids, Err(Error::Validation { field: "prompt_name", .. })));

    let given = |prompt: String| EncodeOptions { prompt: Some(Prompt::Text(prompt)), ..options() };
    assert_eq!(encode(&encoder, text(), &given("Find: ".to_owned())).unwrap(), plain("Find: bread"));
    assert_eq!(encode(&encoder, text(), &given(String::new())).unwrap(), plain("bread"));
    let ids = encode(&encoder, Input::Ids(vec![1]), &given(String::new()));
    assert!(matches!(ids, Err(Error::Validation { field: "prompt", .. })));
    let long = encode(&encoder, text(), &given("x".repeat(Prompt::MAX_BYTES + 1))).unwrap_err().to_string();
    assert_eq!(long, "`prompt` has 16385 bytes, the limit is 16384");
}

#[test]
fn the_default_prompt_is_for_texts() {
    let encoder = encoder("qwen3-tiny", 100);
    let with_default = |input, options: &EncodeOptions| {
        let resolved = encoder.resolve(options, Some(&prompts(Some("Find: ")))).unwrap();
        encoder.encode(input, PLACE, &resolved).unwrap().tokens.input_ids().to_vec()
    };
    let without = |input| encode(&encoder, input, &options()).unwrap();
    let both = |input: Input, twin: Input| (with_default(input, &options()), without(twin));
    let (got, twin) = both(Input::Text("bread".to_owned()), Input::Text("Find: bread".to_owned()));
    assert_eq!(got, twin);
    let pair = |first: &str| Input::Pair(first.into(), "b".to_owned());
    let (got, twin) = both(pair("a"), pair("Find: a"));
    assert_eq!(got, twin);
    assert_eq!(with_default(Input::Ids(vec![7]), &options()), [7]);
    let named = EncodeOptions { prompt: Some(Prompt::Named("plain".to_owned())), ..options() };
    let got = with_default(Input::Text("bread".to_owned()), &named);
    assert_eq!(got, without(Input::Text("bread".to_owned())), "a name replaces it");
    let given = EncodeOptions { prompt: Some(Prompt::Text(String::new())), ..options() };
    let got = with_default(Input::Text("bread".to_owned()), &given);
    assert_eq!(got, without(Input::Text("bread".to_owned())), "a text too");
}

#[test]
fn auto_truncate_is_what_truncate_is_when_absent() {
    let new = |auto| Encoder::new(tokenizer("qwen3-tiny"), None, limits(2, auto));
    let ids = || Input::Ids(vec![1, 2, 3]);
    assert_eq!(encode(&new(true).unwrap(), ids(), &options()).unwrap(), [1, 2]);
    assert!(encode(&new(false).unwrap(), ids(), &options()).is_err());
    let refusing = EncodeOptions { truncate: Some(false), ..options() };
    assert!(encode(&new(true).unwrap(), ids(), &refusing).is_err());
}

#[test]
fn what_the_tokenizer_file_says_of_truncation_and_padding_is_not_asked() {
    let mut prepared = tokenizer("qwen3-tiny");
    prepared.with_truncation(Some(TruncationParams { max_length: 3, ..TruncationParams::default() })).unwrap();
    prepared.with_padding(Some(tokenizers::PaddingParams {
        strategy: tokenizers::PaddingStrategy::Fixed(50),
        ..tokenizers::PaddingParams::default()
    }));
    let fresh = Encoder::new(prepared, None, limits(100, false)).unwrap();
    let text = Input::Text("The tide comes in twice a day.".to_owned());
    let plain = encode(&encoder("qwen3-tiny", 100), text.clone(), &options()).unwrap();
    assert_eq!(encode(&fresh, text, &options()).unwrap(), plain);
}

#[test]
fn characters_are_counted_not_bytes() {
    let encoder = encoder("qwen3-tiny", 100);
    let count = |input| encoder.encode(input, PLACE, &encoder.resolve(&options(), None).unwrap()).unwrap().characters;
    assert_eq!(count(Input::Text("über".to_owned())), 4);
    assert_eq!(count(Input::Pair("über".into(), "x".to_owned())), 5);
    assert_eq!(count(Input::Ids(vec![1, 2])), 0);
}

#[test]
fn tokens_show_their_place_in_the_text() {
    let encoder = encoder("llama-tiny", 4);
    let resolved = encoder.resolve(&options(), None).unwrap();
    let text = "grün: 日本 <|begin_of_text|>x and more than the limit".to_owned();
    let tokens = encoder.tokens(text.clone(), PLACE, &resolved).unwrap();
    let [token, special_text] = [(); 2].map(|()| "<|begin_of_text|>".to_owned());
    assert_eq!(tokens[0], TokenInfo { id: 1000, token, text: special_text, special: true, start: None, stop: None });
    let spaced = tokens.iter().find(|token| token.text.starts_with(' ') && token.text.is_ascii()).unwrap();
    assert_eq!(spaced.token, spaced.text.replacen(' ', "Ġ", 1), "the vocabulary's string of a byte-level token");
    assert_eq!(tokens.iter().filter(|token| token.special).count(), 2, "the one in the text is special too");
    let mut end = 0;
    for token in tokens.iter().filter(|token| !token.special) {
        let (start, stop) = (token.start.unwrap(), token.stop.unwrap());
        assert!(start <= stop && stop >= end, "{token:?}");
        let piece: String = text.chars().skip(start).take(stop - start).collect();
        assert_eq!(token.text, piece);
        end = stop;
    }
    assert_eq!(end, text.chars().count(), "characters, and all of them");
    let bare = EncodeOptions { add_special_tokens: false, ..options() };
    let tokens = encoder.tokens(text, PLACE, &encoder.resolve(&bare, None).unwrap()).unwrap();
    assert_eq!(tokens.iter().filter(|token| token.special).count(), 1);
}

#[test]
fn tokens_of_a_request_have_a_limit_whatever_normalisation_makes_of_its_texts() {
    let encoder = encoder("qwen3-tiny", 4);
    let note = |count: usize| "\u{1d160}".repeat(count);
    let resolved = encoder.resolve(&options(), None).unwrap();
    let tokens = encoder.tokens(note(1000), PLACE, &resolved).unwrap().len();
    assert!(tokens > 10 * 1000, "{tokens}");
    let rest = MAX_OF_REQUEST - tokens;
    let fits = rest * 1000 / tokens - 1000;
    assert_eq!(encoder.tokens(note(fits), PLACE, &resolved).unwrap().len(), fits * 12 + 1);
    let error = encoder.tokens(note(2000), PLACE, &resolved).unwrap_err();
    assert_eq!(error.to_string(), "`inputs` may have more than 1048576 tokens, the limit of a request");
    assert!(encoder.tokens(note(2000), PLACE, &encoder.resolve(&options(), None).unwrap()).is_ok(), "another request");
}

#[test]
fn decode_gives_the_text_back() {
    let encoder = encoder("qwen3-tiny", 4);
    let text = "The tide comes in twice a day: 日本.";
    let ids = tokenizer("qwen3-tiny").encode(text, true).unwrap().get_ids().to_vec();
    assert_eq!(encoder.decode(&ids, PLACE, true, &AtomicU64::new(0)).unwrap(), text);
    assert_eq!(encoder.decode(&ids, PLACE, false, &AtomicU64::new(0)).unwrap(), format!("{text}<|endoftext|>"));
    assert!(matches!(encoder.decode(&[9999], PLACE, true, &AtomicU64::new(0)), Err(Error::Validation { .. })));
}
