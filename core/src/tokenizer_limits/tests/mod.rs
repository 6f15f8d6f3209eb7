use super::*;
use serde_json::json;

fn refusal(file: Value) -> String {
    let file: TokenizerFile = serde_json::from_value(file).unwrap();
    file.check(&mut TokenizerSums::default()).unwrap_err()
}

fn accept(file: Value) {
    let file: TokenizerFile = serde_json::from_value(file).unwrap();
    file.check(&mut TokenizerSums::default()).unwrap();
}

fn replace(from: &str, to: &str) -> Value {
    json!({"type": "Replace", "pattern": {"String": from}, "content": to})
}

fn sequence(field: &str, steps: Vec<Value>) -> Value {
    json!({"type": "Sequence", field: steps})
}

fn charsmap(trie: u32, texts: &[u8]) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode([&trie.to_le_bytes()[..], &[0; 4], texts].concat())
}

#[test]
fn steps_of_real_models_are_accepted() {
    let prepend = json!({"type": "Prepend", "prepend": "\u{2581}"});
    let spaces = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u{2581}"});
    let precompiled = json!({"type": "Precompiled", "precompiled_charsmap": charsmap(4, b"abc\0")});
    accept(json!({"normalizer": sequence("normalizers", vec![prepend, replace(" ", "\u{2581}")])}));
    accept(json!({"normalizer": sequence("normalizers", vec![precompiled, spaces])}));
    let albert = ["NFKD", "StripAccents", "Lowercase"].map(|kind| json!({"type": kind}));
    accept(json!({"normalizer": sequence("normalizers", albert.to_vec())}));
    let decoder = vec![
        replace("\u{2581}", " "),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
        json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}),
    ];
    accept(json!({"decoder": sequence("decoders", decoder)}));
    let metaspace = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true});
    accept(json!({"pre_tokenizer": sequence("pretokenizers", vec![json!({"type": "WhitespaceSplit"}), metaspace])}));
    accept(json!({"normalizer": null, "model": null, "added_tokens": null}));
}

#[test]
fn normalisers_that_multiply_a_text_are_refused() {
    let same = vec![replace("a", "b"); 40];
    assert!(refusal(json!({"normalizer": sequence("normalizers", same)})).contains("more than 32 steps"));
    let twice = vec![replace("a", "aa"); 12];
    let nested = sequence("normalizers", vec![sequence("normalizers", twice)]);
    assert_eq!(
        refusal(json!({"normalizer": nested})),
        "`normalizer` may make more than 1024 bytes of one, which is the limit"
    );
    let bytes = vec![json!({"type": "ByteLevel"}); 12];
    assert!(refusal(json!({"normalizer": sequence("normalizers", bytes)})).contains("1024 bytes of one"));
    // Written without a type, as the library may read it too.
    let plain = json!({"pattern": {"Regex": "a"}, "content": "a".repeat(2000)});
    assert!(refusal(json!({"normalizer": plain})).contains("1024 bytes of one"));
    for (step, words) in [
        (replace("a", &"a".repeat(1 << 20)), "has a text of 1048576 bytes, the limit is 4096"),
        (json!({"type": "Prepend", "prepend": "x".repeat(30)}), "prepends 30 bytes, the limit is 16"),
        (
            json!({"type": "Replace", "pattern": {"Regex": "(a*)*b"}, "content": ""}),
            "`normalizer` has the pattern \"(a*)*b\"",
        ),
        (json!({"type": "Precompiled", "precompiled_charsmap": charsmap(1 << 31, b"")}), "that is cut"),
        (json!({"type": "Precompiled", "precompiled_charsmap": charsmap(4, &[b'a'; 5000])}), "1024 bytes of one"),
        (json!({"type": "Precompiled", "precompiled_charsmap": "?"}), "not base64"),
        (
            json!({"type": "Precompiled", "precompiled_charsmap": "A".repeat(charsmap::MAX_LEN + 4)}),
            "has a text of 2097156 bytes, the limit is 2097152",
        ),
        (json!({"type": "Fold"}), "`normalizer`: "),
        (json!([vec![0; 20_000]]), "more than 10000 values"),
    ] {
        let refused = refusal(json!({"normalizer": step}));
        assert!(refused.contains(words), "{refused}\nlacks {words}");
    }
}

#[test]
fn other_steps_have_limits_too() {
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": false});
    let metaspace = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true});
    let split = json!({"type": "Split", "pattern": {"Regex": "a*b"}, "behavior": "Isolated", "invert": false});
    let replaced = replace("a", &"b".repeat(100));
    let template = |single: Value, ids: usize| {
        let token = json!({"id": "x", "ids": vec![1; ids], "tokens": vec!["x"; ids]});
        json!({"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": {"x": token}})
    };
    // The library copies the spellings too, and does not compare their number.
    let without_ids = json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}], "pair": [],
        "special_tokens": {"x": {"id": "x", "ids": [], "tokens": vec!["x"; 300]}}});
    let mut without_spellings = without_ids.clone();
    without_spellings["special_tokens"]["x"] = json!({"id": "x", "ids": vec![1; 301], "tokens": []});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let special = json!({"SpecialToken": {"id": "x", "type_id": 0}});
    for (file, words) in [
        (json!({"pre_tokenizer": sequence("pretokenizers", vec![bytes; 4])}), "`pre_tokenizer` may make more than 64"),
        (
            json!({"pre_tokenizer": sequence("pretokenizers", vec![metaspace; 3])}),
            "`pre_tokenizer` may make more than 64",
        ),
        (json!({"pre_tokenizer": split}), "`pre_tokenizer` has the pattern \"a*b\""),
        (json!({"decoder": replaced}), "`decoder` may make more than 64"),
        (json!({"post_processor": template(json!([text, text]), 1)}), "the text A more than once"),
        (json!({"post_processor": template(json!([text, special]), 1000)}), "puts 1000 tokens around a text"),
        (
            json!({"model": {"continuing_subword_prefix": "x".repeat(100)}}),
            "a `continuing_subword_prefix` of 100 bytes",
        ),
        (json!({"model": {"end_of_word_suffix": "x".repeat(100)}}), "a `end_of_word_suffix` of 100 bytes"),
        (json!({"model": {"max_input_chars_per_word": 1u64 << 40}}), "a `max_input_chars_per_word` of 1099511627776"),
        (json!({"added_tokens": [{"content": "x".repeat(3000)}]}), "item 0 has 3000 bytes, the limit is 2048"),
        (json!({"added_tokens": [{"content": " ", "lstrip": true}]}), "white space at its edge"),
        (
            json!({"added_tokens": vec![json!({"content": "x".repeat(2000)}); 2100]}),
            "have more than 4194304 bytes together",
        ),
        (json!({"added_tokens": vec![json!({"content": "x"}); 100_001]}), "has 100001 items, the limit is 100000"),
        (json!({"post_processor": without_ids}), "puts 300 tokens around a text"),
        (json!({"post_processor": without_spellings}), "puts 301 tokens around a text"),
        (
            json!({"post_processor": sequence("processors", vec![template(json!([text, special]), 200); 2])}),
            "puts 400 tokens around a text",
        ),
    ] {
        let refused = refusal(file);
        assert!(refused.contains(words), "{refused}\nlacks {words}");
    }
    accept(
        json!({"post_processor": template(json!([text, special]), 1), "added_tokens": [{"content": "<mask>", "lstrip": true}]}),
    );
}

#[test]
fn added_tokens_are_measured_before_and_after_normalisation() {
    let long = |letter: &str, count: usize| vec![json!({"content": letter.repeat(2000), "normalized": true}); count];
    for (normalizer, tokens, words) in [
        (replace("a", "aaa"), long("a", 700), "more than 4194304 bytes together"),
        (replace("a", ""), long("a", 2100), "more than 4194304 bytes together"),
        (
            replace("a", &"a".repeat(1000)),
            long("b", 135),
            "may take more than 268435456 bytes while they are normalized",
        ),
        (
            replace("a", " b"),
            vec![json!({"content": "a", "normalized": true, "rstrip": true})],
            "item 0, \"a\", has white space at its edge",
        ),
        (
            replace(" ", ""),
            vec![json!({"content": "a ", "normalized": true, "rstrip": true})],
            "item 0, \"a \", has white space at its edge",
        ),
    ] {
        let refused = refusal(json!({"normalizer": normalizer, "added_tokens": tokens}));
        assert!(refused.contains(words), "{refused}\nlacks {words}");
    }
    accept(json!({"normalizer": replace("a", "aaa"), "added_tokens": vec![json!({"content": "a".repeat(2000)}); 700]}));
}

#[test]
fn a_charsmap_of_another_file_has_the_same_limits() {
    let charsmap = |trie: u32, length: usize| [&trie.to_le_bytes()[..], &vec![0; length - 4][..]].concat();
    check_charsmap(&charsmap(1000, charsmap::MAX_LEN)).unwrap();
    let refused = check_charsmap(&charsmap(1000, charsmap::MAX_LEN + 1)).unwrap_err();
    assert_eq!(refused, "has 2097153 bytes, the limit is 2097152");
    assert_eq!(check_charsmap(&charsmap(1000, 1003)).unwrap_err(), "is cut");
    assert_eq!(check_charsmap(&[0; 3]).unwrap_err(), "is cut");
}
