use super::*;
use crate::tokenizer_limits::{TokenizerFile, check_added_tokens, check_normalizer, check_unigram};
use serde_json::json;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::replace::Replace;
use tokenizers::{AddedToken, NormalizerWrapper, Tokenizer};

const IN_ALL: &str = "have more than 4194304 bytes together, once they are normalized, in all tokenizers of the model";

#[test]
fn added_tokens_are_counted_over_all_tokenizers() {
    let long = "x".repeat(2048);
    let file: TokenizerFile =
        serde_json::from_value(json!({"added_tokens": vec![json!({"content": long}); 1000]})).unwrap();
    let mut sums = TokenizerSums::default();
    file.check(&mut sums).unwrap();
    file.check(&mut sums).unwrap();
    assert_eq!(sums.built_bytes(), 80 * 2 * 2_048_000);
    // Tokens of other files count in the same sum: 48 are left.
    let others = |count| vec![AddedToken::from(long.as_str(), true); count];
    check_added_tokens(&others(48), None, &mut sums).unwrap();
    assert_eq!(check_added_tokens(&others(1), None, &mut sums).unwrap_err(), IN_ALL);
    assert_eq!(file.check(&mut sums).unwrap_err(), format!("`added_tokens` {IN_ALL}"));
}

#[test]
fn tries_are_counted_over_all_tokenizers() {
    // Without a byte in common behind the number.
    let pieces: Vec<String> = (0..1000).map(|number| format!("{number:05}{}", "x".repeat(245))).collect();
    let check = |sums: &mut TokenizerSums| check_unigram(pieces.iter().map(String::as_str), sums);
    let mut sums = TokenizerSums::default();
    check(&mut sums).unwrap();
    assert_eq!(sums.built_bytes() / 10_000_000, 8);
    let (refused, limit) = (check(&mut sums).unwrap_err(), (128 << 20) + 2000 * 2048);
    assert!(refused.starts_with("has 1000 pieces whose trie takes 8"), "{refused}");
    assert!(refused.contains("the tries of all tokenizers of the model take 17"), "{refused}");
    assert!(refused.ends_with(&format!("the limit is {limit}")), "{refused}");
}

#[test]
fn another_normalizer_takes_the_place_of_the_one_before() {
    let mut tokenizer = Tokenizer::new(BPE::default());
    tokenizer.add_tokens([AddedToken::from("x".repeat(1000), false)]).unwrap();
    let times = |count| NormalizerWrapper::from(Replace::new("x", "x".repeat(count)).unwrap());
    let mut sums = TokenizerSums { added_bytes: MAX_ADDED_BYTES - 2000, ..TokenizerSums::default() };
    check_normalizer(&tokenizer, &times(3), &mut sums).unwrap();
    assert_eq!(sums.added_bytes, MAX_ADDED_BYTES);
    tokenizer.with_normalizer(Some(times(3))).unwrap();
    check_normalizer(&tokenizer, &times(2), &mut sums).unwrap();
    assert_eq!(sums.added_bytes, MAX_ADDED_BYTES - 1000);
    assert_eq!(check_normalizer(&tokenizer, &times(5), &mut sums).unwrap_err(), IN_ALL);
}
