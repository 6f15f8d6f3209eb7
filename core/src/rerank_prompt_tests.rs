//! Apart or together, the tokens are the same.

use super::*;
use crate::RerankTemplate;
use crate::test_support::tokenizer;
use proptest::prelude::*;
use std::sync::LazyLock;
use tokenizers::AddedToken;
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
        let head = RerankTemplate::qwen3().head(Some(&instruction), &query);
        for tokenizer in TOKENIZERS.iter() {
            prop_assert!(splits_before_space(tokenizer, LABEL));
            let whole = tokenizer.encode_fast([&head, document.as_str()].concat(), false).unwrap();
            let encoded = EncodedHead::new(tokenizer, &head).unwrap();
            let (ids, cut) = encoded.of(&head).unwrap();
            let rest = tokenizer.encode_fast([&head[cut..], document.as_str()].concat(), false).unwrap();
            prop_assert_eq!([ids, rest.get_ids()].concat(), whole.get_ids());
        }
    }
}

#[test]
fn a_head_knows_its_own_text_only() {
    let encoded = EncodedHead::new(&TOKENIZERS[0], "a: ").unwrap();
    assert_eq!(encoded.of("a: ").map(|(_, cut)| cut), Some(2));
    assert!(encoded.of("b: ").is_none() && encoded.of("a:").is_none());
    assert!(EncodedHead::new(&TOKENIZERS[0], "a:").is_none());
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
