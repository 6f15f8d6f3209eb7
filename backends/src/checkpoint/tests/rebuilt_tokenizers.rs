//! Tokenizers whose class builds them from the vocabulary. The ids are what transformers 5.24 gives for the same files.

use super::{Tokenizer, copy_of, open, read_json, write_json};
use serde_json::{Value, json};
use tokenizers::EncodeInput;

const TEXT: &str = "RED caf\u{e9} \u{fb01}x  a,b\n\u{1f98a} ok\u{ad} \u{bd} ";

/// Class, model, and ids of [`TEXT`] and of the pair "a" and "b".
const CLASSES: [(&str, &str, &[u32], &[u32]); 9] = [
    (
        "BertTokenizer",
        "bert-mean-tiny",
        &[6, 252, 37, 132, 34, 39, 38, 5, 130, 103, 131, 5, 144, 44, 5, 7],
        &[6, 130, 7, 131, 7],
    ),
    (
        "MPNetTokenizer",
        "mpnet-tiny",
        &[0, 248, 33, 128, 30, 35, 34, 4, 126, 99, 127, 4, 140, 40, 4, 2],
        &[0, 126, 2, 2, 127, 2],
    ),
    (
        "RobertaTokenizer",
        "roberta-tiny",
        &[
            0, 53, 40, 39, 277, 68, 73, 131, 106, 224, 175, 109, 227, 91, 224, 262, 15, 69, 202, 176, 257, 103, 236,
            269, 78, 130, 259, 224, 130, 125, 224, 2,
        ],
        &[0, 68, 2, 2, 69, 2],
    ),
    (
        "XLMRobertaTokenizer",
        "xlm-roberta-tiny",
        &[0, 4, 375, 383, 362, 135, 27, 389, 4, 3, 247, 20, 43, 36, 4, 3, 41, 51, 3, 4, 3, 2],
        &[0, 20, 2, 2, 42, 2],
    ),
    (
        "CamembertTokenizer",
        "xlm-roberta-tiny",
        &[0, 4, 375, 383, 362, 135, 27, 389, 4, 3, 247, 20, 43, 36, 4, 3, 41, 51, 3, 4, 3, 2],
        &[0, 20, 2, 2, 42, 2],
    ),
    (
        "DebertaV2Tokenizer",
        "deberta-v2-tiny",
        &[1, 4, 375, 383, 362, 135, 27, 389, 4, 3, 247, 20, 43, 36, 4, 3, 41, 51, 3, 4, 3, 2],
        &[1, 20, 2, 42, 2],
    ),
    (
        "Qwen2Tokenizer",
        "qwen3-tiny",
        &[
            49, 36, 35, 273, 64, 69, 127, 102, 220, 171, 105, 223, 87, 220, 258, 11, 65, 198, 172, 253, 99, 232, 265,
            74, 126, 255, 220, 126, 121, 220, 1000,
        ],
        &[64, 1000, 65, 1000],
    ),
    (
        "GemmaTokenizer",
        "embeddinggemma-tiny",
        &[
            2, 299, 288, 287, 388, 307, 312, 339, 344, 244, 177, 134, 330, 344, 373, 268, 308, 261, 245, 164, 171, 143,
            380, 317, 199, 178, 344, 199, 194, 344, 1,
        ],
        &[2, 307, 1, 2, 308, 1],
    ),
    (
        "LlamaTokenizer",
        "embeddinggemma-tiny",
        &[
            2, 344, 299, 288, 287, 388, 307, 312, 339, 344, 244, 177, 134, 330, 344, 373, 268, 308, 261, 245, 164, 171,
            143, 380, 317, 199, 178, 344, 199, 194, 344, 1,
        ],
        &[2, 373, 1, 2, 381, 1],
    ),
];

/// The tokenizer of a model with this class, whose files `change` edits: `tokenizer.json` and `tokenizer_config.json`.
fn with(model: &str, class: &str, change: impl FnOnce(&mut Value, &mut Value)) -> Tokenizer {
    let dir = copy_of(model);
    let [file, config] = ["tokenizer.json", "tokenizer_config.json"].map(|name| dir.path().join(name));
    let (mut of_file, mut of_config) = (read_json(&file), read_json(&config));
    of_config["tokenizer_class"] = json!(class);
    change(&mut of_file, &mut of_config);
    write_json(&file, &of_file);
    write_json(&config, &of_config);
    open(dir.path()).unwrap_or_else(|error| panic!("{class}: {error}")).tokenizer
}

fn ids(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode(text, true).unwrap().get_ids().to_vec()
}

#[test]
fn each_class_has_its_own_steps_whatever_the_file_says() {
    for (class, model, text, pair) in CLASSES {
        let around = !matches!(class, "Qwen2Tokenizer" | "GemmaTokenizer" | "LlamaTokenizer");
        let odd = with(model, class, |file, _| {
            file["normalizer"] = json!({"type": "Replace", "pattern": {"String": "e"}, "content": "a"});
            file["pre_tokenizer"] =
                json!({"type": "Split", "pattern": {"String": "o"}, "behavior": "Isolated", "invert": false});
            if around {
                file["post_processor"] = Value::Null;
            }
            let of_model = file["model"].as_object_mut().unwrap();
            for (name, value) in of_model.iter_mut() {
                match name.as_str() {
                    "fuse_unk" | "byte_fallback" | "ignore_merges" => *value = json!(!value.as_bool().unwrap()),
                    "max_input_chars_per_word" => *value = json!(2),
                    "unk_id" => *value = json!(0),
                    _ => {}
                }
            }
        });
        for (tokenizer, files) in [(with(model, class, |_, _| ()), "the fixture's"), (odd, "odd")] {
            assert_eq!(ids(&tokenizer, TEXT), text, "{class}, {files}");
            assert_eq!(tokenizer.encode(("a", "b"), true).unwrap().get_ids(), pair, "{class}, {files}");
        }
    }
    let generic = with("bert-mean-tiny", "PreTrainedTokenizerFast", |file, _| file["post_processor"] = Value::Null);
    assert_eq!(ids(&generic, "a"), [130]);
}

#[test]
fn a_vocabulary_of_another_kind_stays_as_it_is() {
    let plain = with("xlm-roberta-tiny", "PreTrainedTokenizerFast", |_, _| ());
    for class in ["BertTokenizer", "GemmaTokenizer", "RobertaTokenizer"] {
        assert_eq!(ids(&with("xlm-roberta-tiny", class, |_, _| ()), TEXT), ids(&plain, TEXT), "{class}");
    }
}

#[test]
fn named_special_tokens_are_put_around_a_text() {
    let names = |_: &mut Value, config: &mut Value| {
        (config["cls_token"], config["sep_token"]) = (json!("[MASK]"), json!({"content": "[PAD]", "special": true}));
    };
    let plain = with("bert-mean-tiny", "BertTokenizer", |_, _| ());
    let id = |token: &str| plain.token_to_id(token).unwrap();
    assert_eq!(ids(&with("bert-mean-tiny", "BertTokenizer", names), "a"), [id("[MASK]"), 130, id("[PAD]")]);
    // Null is a token of id 2 or 3; two of them have the id of the second.
    for (model, class) in [("bert-mean-tiny", "BertTokenizer"), ("distilbert-tiny", "DistilBertTokenizer")] {
        let without = |fields: &'static [&str]| {
            let tokenizer =
                with(model, class, |_, config| fields.iter().for_each(|field| config[*field] = Value::Null));
            tokenizer.encode(("a", "b"), true).unwrap().get_ids().to_vec()
        };
        assert_eq!(without(&["cls_token"]), [2, 130, 7, 131, 7], "{class}");
        assert_eq!(without(&["sep_token"]), [6, 130, 3, 131, 3], "{class}");
        assert_eq!(without(&["cls_token", "sep_token"]), [3, 130, 3, 131, 3], "{class}");
    }
    // Without a row the file's stay.
    let missing = with("bert-mean-tiny", "BertTokenizer", |_, config| config["sep_token"] = json!("[NONE]"));
    assert_eq!(ids(&missing, "a"), ids(&plain, "a"));
}

#[test]
fn the_unknown_token_of_deberta_has_the_id_of_the_config_unless_its_score_is_zero() {
    let unknown = |score: f64, id: Value| {
        let tokenizer = with("deberta-v2-tiny", "DebertaV2Tokenizer", |file, config| {
            let pieces = file["model"]["vocab"].as_array_mut().unwrap();
            pieces.iter_mut().find(|piece| piece[0] == "[UNK]").unwrap()[1] = json!(score);
            config["unk_id"] = id;
        });
        ids(&tokenizer, "\u{1f98a}")[2]
    };
    for id in [json!(null), json!(0), json!(1), json!(5), json!(9)] {
        assert_eq!(unknown(0.0, id), 3);
    }
    assert_eq!(unknown(-1.0, json!(null)), 1);
    for id in [0, 1, 3, 5, 9] {
        assert_eq!(unknown(-1.0, json!(id)), id);
    }
}

#[test]
fn llamas_class_puts_a_space_before_the_text_or_all_of_its_parts() {
    let found = |adds: Value, legacy: Value| {
        let tokenizer = with("embeddinggemma-tiny", "LlamaTokenizer", |_, config| {
            (config["add_prefix_space"], config["legacy"]) = (adds, legacy);
        });
        ids(&tokenizer, "a<eos>b")
    };
    let [null, yes, no] = [json!(null), json!(true), json!(false)];
    for adds in [&null, &yes] {
        for legacy in [&null, &no] {
            assert_eq!(found(adds.clone(), legacy.clone()), [2, 373, 1, 308, 1]);
        }
        assert_eq!(found(adds.clone(), yes.clone()), [2, 373, 1, 381, 1]);
    }
    for legacy in [&null, &yes, &no] {
        assert_eq!(found(no.clone(), legacy.clone()), [2, 307, 1, 308, 1]);
    }
}

#[test]
fn llamas_class_keeps_a_file_that_has_bytes_anywhere() {
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let found = with("embeddinggemma-tiny", "LlamaTokenizer", |file, _| file["decoder"] = bytes);
    assert_eq!(ids(&found, "a b"), [2, 307, 381, 1]);
    assert_eq!(ids(&with("embeddinggemma-tiny", "LlamaTokenizer", |_, _| ()), "a b"), [2, 373, 381, 1]);
}

#[test]
fn robertas_class_trims_the_space_of_a_word_from_its_place_in_the_text() {
    let second_word = |trims: Value| {
        let tokenizer = with("roberta-tiny", "RobertaTokenizer", |file, config| {
            file["post_processor"]["trim_offsets"] = json!(trims == json!(false));
            config["trim_offsets"] = trims;
        });
        let encoding = tokenizer.encode("a b", true).unwrap();
        encoding.get_offsets().iter().rfind(|(start, end)| end > start).unwrap().0
    };
    assert_eq!([second_word(json!(null)), second_word(json!(true)), second_word(json!(false))], [2, 2, 1]);
}

#[test]
fn classes_that_are_not_followed_are_named() {
    let warning = |class: &str| {
        let dir = copy_of("roberta-tiny");
        let path = dir.path().join("tokenizer_config.json");
        let mut config = read_json(&path);
        config["tokenizer_class"] = json!(class);
        write_json(&path, &config);
        let warnings = open(dir.path()).unwrap().capabilities.warnings.clone();
        warnings.into_iter().any(|it| it.contains(class) && it.contains("is not followed"))
    };
    for (class, is_named) in [
        ("LukeTokenizer", true),
        ("WhisperTokenizerFast", true),
        ("ByT5Tokenizer", true),
        ("RagTokenizer", true),
        ("ConvBertTokenizerFast", true),
        ("DPRReaderTokenizerFast", true),
        ("DPRReaderTokenizer", false),
        ("MvpTokenizerFast", false),
        ("RobertaTokenizer", false),
        ("PreTrainedTokenizerFast", false),
        ("TokenizersBackend", false),
        ("SomebodysTokenizer", false),
    ] {
        assert_eq!(warning(class), is_named, "{class}");
    }
}

#[test]
fn classes_that_are_robertas_are_built_like_it() {
    let found = |class: &str| {
        let tokenizer = with("roberta-tiny", class, |file, _| {
            (file["normalizer"], file["pre_tokenizer"]) = (json!({"type": "Lowercase"}), json!({"type": "Whitespace"}));
        });
        ids(&tokenizer, TEXT)
    };
    for class in ["BartTokenizer", "BartTokenizerFast", "LEDTokenizer", "LEDTokenizerFast", "MvpTokenizer"] {
        assert_eq!(found(class), CLASSES[2].2, "{class}");
    }
}

#[test]
fn the_words_of_qwen_3_5_contain_marks() {
    let found = |class: &str, text: &str| {
        let tokenizer = with("qwen3-tiny", class, |file, _| {
            (file["normalizer"], file["pre_tokenizer"]) = (json!({"type": "Lowercase"}), json!({"type": "Whitespace"}));
        });
        let encoding = tokenizer.encode(text, false).unwrap();
        (encoding.get_ids().to_vec(), encoding.get_word_ids().last().copied().flatten())
    };
    let class = "Qwen3_5Tokenizer";
    let thai = [156, 116, 103, 156, 116, 100, 156, 116, 109, 156, 116, 103].to_vec();
    assert_eq!(found(class, "\u{e2a}\u{e27}\u{e31}\u{e2a}"), (thai.clone(), Some(0)));
    assert_eq!(found("Qwen2Tokenizer", "\u{e2a}\u{e27}\u{e31}\u{e2a}"), (thai, Some(1)));
    assert_eq!(found(class, TEXT).0, CLASSES[6].2[..30]);
    // Unlike Qwen2's class it keeps the flags of special tokens.
    let strips = |class: &str| {
        let tokenizer = with("qwen3-tiny", class, |_, config| {
            let tokens = config["added_tokens_decoder"].as_object_mut().unwrap();
            tokens.values_mut().for_each(|token| token["lstrip"] = json!(true));
        });
        tokenizer.get_added_tokens_decoder().into_values().find(|it| it.content == "<|endoftext|>").unwrap().lstrip
    };
    assert!(strips(class) && !strips("Qwen2Tokenizer"));
}

#[test]
fn t5_splits_words_itself() {
    let open_with = |pre_tokenizer: serde_json::Value, class: Option<&str>| {
        let dir = copy_of("t5-tiny");
        let path = dir.path().join("tokenizer.json");
        let mut file = read_json(&path);
        file["pre_tokenizer"] = pre_tokenizer;
        file["normalizer"]["normalizers"].as_array_mut().unwrap().push(json!({"type": "Lowercase"}));
        file["post_processor"] = serde_json::Value::Null;
        write_json(&path, &file);
        let path = dir.path().join("tokenizer_config.json");
        let mut config = read_json(&path);
        match class {
            Some(class) => config["tokenizer_class"] = json!(class),
            None => drop(config.as_object_mut().unwrap().remove("tokenizer_class")),
        }
        write_json(&path, &config);
        open(dir.path()).unwrap().tokenizer
    };
    let ids = |tokenizer: &Tokenizer, text: EncodeInput<'_>| tokenizer.encode(text, true).unwrap().get_ids().to_vec();
    let digits = || json!({"type": "Digits", "individual_digits": true});
    for class in [None, Some("T5Tokenizer"), Some("T5TokenizerFast")] {
        let found = open_with(digits(), class);
        let expected = [3, 374, 382, 361, 134, 26, 388, 3, 2, 246, 19, 42, 35, 3, 2, 40, 50, 2, 3, 2, 1];
        assert_eq!(ids(&found, TEXT.into()), expected, "{class:?}");
        assert_eq!(ids(&found, "Hello 123".into()), [3, 403, 4, 81, 10, 3, 254, 292, 391, 1], "{class:?}");
        assert_eq!(ids(&found, ("a", "b").into()), [19, 1, 41, 1], "{class:?}");
    }
    let kept = open_with(digits(), Some("PreTrainedTokenizerFast"));
    assert_ne!(ids(&kept, "Hello 123".into()), [3, 403, 4, 81, 10, 3, 254, 292, 391, 1]);
}
