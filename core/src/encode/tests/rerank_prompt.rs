//! Apart or together, the tokens are the same.

use super::*;
use crate::testing::support::{qwen3_template, tokenizer};
use proptest::prelude::*;
use std::sync::LazyLock;
use tokenizers::AddedToken;
use tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

const LABEL: &str = "\n<Document>: ";

/// Qwen's words, Llama's, and GPT-2's.
static TOKENIZERS: LazyLock<[Tokenizer; 3]> = LazyLock::new(|| {
    let mut gpt2 = tokenizer("qwen3-reranker-tiny");
    gpt2.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    [tokenizer("qwen3-reranker-tiny"), tokenizer("llama-tiny"), gpt2]
});

/// Texts out of what may stick together: white space of all kinds, marks that compose, punctuation, special tokens.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,6}",
        2 => "[ \t\n\r]{1,3}",
        2 => "[0-9:;<>'.!?-]{1,3}",
        1 => prop::sample::select(vec![
            "<|im_end|>", "<|im_start|>", "<|endoftext|>", "<think>", "</think>", "<|begin_of_text|>", "<|", "\u{301}",
            "\u{30a}A", "e\u{301}", "日本", "\u{a0}", "\u{3000}", "🙂", "'s", "'LL", ": ", "\n<Document>: ", "  ",
            "\u{1100}\u{1161}\u{11a8}", "\u{200d}", "\u{85}", "ﬁ",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn tokens_are_those_of_the_whole(instruction in text(), query in text(), document in text()) {
        let template = qwen3_template();
        let text = template.head(Some(&instruction), &query);
        let (instruction, query): (Arc<str>, SharedText) = (instruction.into(), query.into());
        for tokenizer in TOKENIZERS.iter() {
            prop_assert!(splits_before_space(tokenizer, LABEL));
            let ids = |text: String| tokenizer.encode_fast(text, false).unwrap().get_ids().to_vec();
            let whole = [ids(template.before[0].clone()), ids([&text, document.as_str()].concat())].concat();
            let encoded = EncodedTemplate::new(tokenizer, template.clone()).unwrap();
            let head = encoded.head(tokenizer, Some(Arc::clone(&instruction)), query.clone()).unwrap();
            prop_assert_eq!(head.rest.as_str(), " ");
            prop_assert_eq!([head.input_ids, ids([" ", document.as_str()].concat())].concat(), whole);
        }
    }
}

#[test]
fn a_head_knows_its_own_query_only() {
    let template = EncodedTemplate::new(&TOKENIZERS[0], qwen3_template()).unwrap();
    let (instruction, [a, b]): (Arc<str>, [SharedText; 2]) = ("b".into(), ["a", "b"].map(SharedText::from));
    let head = template.head(&TOKENIZERS[0], Some(Arc::clone(&instruction)), a.clone()).unwrap();
    assert!(head.is_for(Some(&instruction), &a));
    assert!(!head.is_for(Some(&instruction), &b) && !head.is_for(None, &a) && !head.is_for(Some(&"a".into()), &a));
}

#[test]
fn pieces_are_encoded_apart() {
    let template = RerankTemplate {
        before: ["{query}", "he"].map(str::to_owned).to_vec(),
        document: "document: {document}".to_owned(),
        ..qwen3_template()
    };
    let ids = |text: &str| TOKENIZERS[0].encode_fast(text, false).unwrap().get_ids().to_vec();
    let template = EncodedTemplate::new(&TOKENIZERS[0], template).unwrap();
    let head = template.head(&TOKENIZERS[0], None, " t".into()).unwrap();
    let apart = [ids(" t"), ids("he"), ids("document:")].concat();
    assert_eq!(head.input_ids, apart);
    assert_ne!([ids(" the"), ids("document:")].concat(), apart, "together they are other tokens");
}

#[test]
fn what_is_not_proved_is_not_split() {
    for label in ["", " ", ":", "Document ", "it' ", ":  ", ":\n", "\u{3001} "] {
        assert!(!splits_before_space(&TOKENIZERS[0], label), "{label:?}");
    }
    type Change = fn(&mut Tokenizer);
    let changes: [Change; 7] = [
        |tokenizer| _ = tokenizer.with_pre_tokenizer(None::<PreTokenizerWrapper>),
        |tokenizer| _ = tokenizer.with_pre_tokenizer(Some(ByteLevel::new(true, true, true))),
        |tokenizer| _ = tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, false))),
        |tokenizer| _ = tokenizer.with_normalizer(Some(tokenizers::normalizers::unicode::NFKC)).unwrap(),
        |tokenizer| _ = tokenizer.add_tokens([AddedToken::from("x: y", false)]).unwrap(),
        |tokenizer| _ = tokenizer.add_tokens([AddedToken::from("<mask>", false).lstrip(true)]).unwrap(),
        |tokenizer| _ = tokenizer.add_tokens([AddedToken::from(">:", false).rstrip(true)]).unwrap(),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut tokenizer = tokenizer("qwen3-reranker-tiny");
        assert!(splits_before_space(&tokenizer, LABEL));
        change(&mut tokenizer);
        assert!(!splits_before_space(&tokenizer, LABEL), "change {index}");
    }
}
