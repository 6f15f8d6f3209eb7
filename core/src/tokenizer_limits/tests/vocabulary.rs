use super::*;
use crate::tokenizer_limits::{TokenizerFile, TokenizerSums};
use serde_json::{Value, json};

fn refusal(model: Value) -> String {
    let file: TokenizerFile = serde_json::from_value(json!({"model": model})).unwrap();
    file.check(&mut TokenizerSums::default()).unwrap_err()
}

fn accept(model: Value) {
    let file: TokenizerFile = serde_json::from_value(json!({"model": model})).unwrap();
    file.check(&mut TokenizerSums::default()).unwrap();
}

fn scored(pieces: impl IntoIterator<Item = String>) -> Value {
    let pieces: Vec<_> = pieces.into_iter().map(|piece| (piece, 0.0)).collect();
    json!({"type": "Unigram", "unk_id": 0, "vocab": pieces})
}

#[test]
fn unigram_pieces_are_short_and_few_begin_one_another() {
    accept(scored([]));
    accept(scored(["<unk>".to_owned(), "a".repeat(256)]));
    accept(scored((1..=64).map(|length| "a".repeat(length))));
    // Equal pieces are one.
    accept(scored(vec!["ab".to_owned(); 100]));
    // Others between them do not count.
    accept(scored((1..=60).flat_map(|length| ["a".repeat(length), format!("{}b", "a".repeat(length))])));
    assert_eq!(
        refusal(scored(["<unk>".to_owned(), "a".repeat(257)])),
        "`model` has a token with the id 1 of 257 bytes, the limit is 256"
    );
    let nested = refusal(scored((1..=65).map(|length| "a".repeat(length))));
    assert_eq!(nested, "`model` has 65 pieces that are prefixes of one another, the limit is 64");
}

#[test]
fn the_trie_of_unigram_pieces_has_a_limit() {
    // Without a byte in common behind the number.
    let long = (0..2000).map(|number| format!("{number:05}{}", "x".repeat(245)));
    let refused = refusal(scored(long));
    assert!(
        refused.contains("2000 pieces whose trie takes 1") && refused.contains("the limit is 138313728"),
        "{refused}"
    );
    // The same bytes where pieces have most of theirs in common.
    accept(scored((0..2000).map(|number| format!("{}{number:05}", "x".repeat(245)))));
}

#[test]
fn a_trie_is_measured_by_its_tables() {
    let bytes = |pieces: &[&str]| {
        let mut sorted: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
        sorted.sort_unstable();
        Trie::of(&sorted).bytes
    };
    let table = |places: u64| places * 81 + 32;
    assert_eq!(bytes(&[]), 0);
    assert_eq!(bytes(&["", "a"]), table(4));
    assert_eq!(bytes(&["abc", "abd", "x"]), 3 * table(4));
    assert_eq!(bytes(&["a", "b", "c", "d", "e"]), table(8));
    let eight: Vec<String> = (0..8).map(|number| number.to_string()).collect();
    assert_eq!(bytes(&eight.iter().map(String::as_str).collect::<Vec<_>>()), table(16));
}

#[test]
fn pieces_have_limits_before_the_library_reads_them() {
    let pieces =
        |pieces: Vec<(String, u32)>| json!({"vocab": pieces.into_iter().collect::<std::collections::BTreeMap<_, _>>()});
    accept(pieces(vec![("x".repeat(2048), 1), ("y".to_owned(), 0)]));
    assert_eq!(
        refusal(pieces(vec![("x".repeat(2049), 7)])),
        "`model` has a token with the id 7 of 2049 bytes, the limit is 2048"
    );
    let many = (0..8193).map(|id| (format!("{id:05}{}", "x".repeat(2043)), id));
    assert_eq!(
        refusal(pieces(many.collect())),
        "`model` has pieces of more than 16777216 bytes together, which is the limit"
    );
}

#[test]
fn what_stands_for_a_shorter_text_is_short() {
    let long = "x".repeat(65);
    assert_eq!(
        refusal(json!({"unk_token": long, "vocab": {"a": 0}})),
        "`model` has an unknown token of 65 bytes, the limit is 64"
    );
    assert_eq!(
        refusal(json!({"vocab": {"a": 3, long: 3}})),
        "`model` has the id 3 for several tokens, one of 65 bytes; the limit of such tokens is 64"
    );
    accept(json!({"unk_token": "[UNK]", "vocab": {"a": 3, "b": 3, "[UNK]": 0}}));
}

#[test]
fn pieces_and_merges_are_counted_as_they_are_read() {
    let read = |json: String| serde_json::from_str::<TokenizerFile>(&json).map(drop).map_err(|error| error.to_string());
    let list = |item: &str, count: usize| vec![item; count].join(",");
    for field in ["vocab", "merges"] {
        let of = |count| format!(r#"{{"model": {{"{field}": [{}]}}}}"#, list(r#"["",0]"#, count));
        read(of(MAX_PIECES)).unwrap();
        let refused = read(of(MAX_PIECES + 1)).unwrap_err();
        assert!(refused.contains("more than 1048576"), "{refused}");
    }
    let ids = format!(r#"{{"model": {{"vocab": {{{}}}}}}}"#, list(r#""a":0"#, MAX_PIECES + 1));
    assert!(read(ids).unwrap_err().contains("more than 1048576 pieces"));
}

#[test]
fn pieces_and_merges_of_other_files_have_the_same_limits() {
    let check = |count: usize| check_pieces((0..).take(count).map(|id| ("a", id)), None);
    check(MAX_PIECES).unwrap();
    assert_eq!(check(MAX_PIECES + 1).unwrap_err(), "has more than 1048576 pieces, which is the limit");
    check_merges(MAX_PIECES).unwrap();
    assert_eq!(check_merges(MAX_PIECES + 1).unwrap_err(), "has 1048577 merges, the limit is 1048576");
}
