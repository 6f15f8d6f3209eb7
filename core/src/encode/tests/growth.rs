use super::*;
use crate::testing::support::tokenizer;
use tokenizers::normalizers::{NFKC, Prepend, Replace, Sequence};
use tokenizers::{NormalizerWrapper, decoders};

fn with_normalizer(steps: Vec<NormalizerWrapper>) -> (Tokenizer, Growth) {
    let mut tokenizer = tokenizer("llama-tiny");
    tokenizer.with_normalizer(Some(Sequence::new(steps))).unwrap();
    let growth = Growth::new(&tokenizer, &tokenizer.get_vocab(true), 1200).unwrap();
    (tokenizer, growth)
}

fn replace(from: &str, to: &str) -> NormalizerWrapper {
    Replace::new(from, to).unwrap().into()
}

#[test]
fn a_text_that_becomes_far_longer_than_it_is_is_refused() {
    let ligature = || "\u{fdfa}".repeat(100_000);
    let (tokenizer, growth) = with_normalizer(vec![NFKC.into()]);
    let refused = growth.check_text(&tokenizer, &ligature()).unwrap_err();
    assert_eq!(
        refused,
        "has 300000 bytes, which normalisation expands to more than 2400000; the limit is 8 times the length, or 1048576"
    );
    growth.check_text(&tokenizer, &ligature()[..90_000]).unwrap();
    growth.check_text(&tokenizer, &"long ".repeat(100_000)).unwrap();

    let (tokenizer, growth) = with_normalizer(vec![replace("a", &"a".repeat(900))]);
    growth.check_text(&tokenizer, &"a".repeat(1000)).unwrap();
    assert!(growth.check_text(&tokenizer, &"a".repeat(2000)).is_err());
    growth.check_text(&tokenizer, &"b".repeat(2_000_000)).unwrap();
}

#[test]
fn a_usual_normaliser_is_not_run_twice() {
    let spaces = vec![NormalizerWrapper::Prepend(Prepend::new("\u{2581}".to_owned())), replace(" ", "\u{2581}")];
    let (_, growth) = with_normalizer(spaces);
    assert_eq!(growth.normalizer, 12);
    let nfc = tokenizer("qwen3-tiny");
    let growth = Growth::new(&nfc, &nfc.get_vocab(true), 1200).unwrap();
    assert!(growth.normalizer <= MAX_GROWTH, "Qwen's never makes more: {growth:?}");
}

#[test]
fn what_a_request_decodes_has_a_limit() {
    let mut tokenizer = tokenizer("llama-tiny");
    tokenizer.with_decoder(Some(decoders::wordpiece::WordPiece::default()));
    let vocab = tokenizer.get_vocab(true);
    let growth = Growth::new(&tokenizer, &vocab, 1200).unwrap();
    let (token, &id) = vocab.iter().max_by_key(|(token, _)| token.len()).unwrap();
    let count = MAX_DECODED as usize / (2 * token.len());
    let decoded = AtomicU64::new(0);
    growth.count_decoded(&vec![id; count], &decoded).unwrap();
    let refused = growth.count_decoded(&[id], &decoded).unwrap_err();
    assert!(refused.contains("33554432 bytes"), "{refused}");
    growth.count_decoded(&[id], &AtomicU64::new(0)).unwrap();
}
