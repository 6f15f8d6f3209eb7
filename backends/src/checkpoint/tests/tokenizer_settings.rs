//! Settings of a tokenizer in other files than `tokenizer.json`. The ids are what transformers 5.24 gives.

use super::{Tokenizer, copy_of, open, read_json, write_json};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = if path.exists() { read_json(path) } else { json!({}) };
    change(&mut value);
    write_json(path, &value);
}

/// The tokenizer of a copy of a model with these fields in `tokenizer_config.json`, whose files `change` edits; and the warnings.
fn with(model: &str, fields: Value, change: impl FnOnce(&Path)) -> (Tokenizer, Vec<String>) {
    let dir = copy_of(model);
    edit(&dir.path().join("tokenizer_config.json"), |config| {
        for (name, value) in fields.as_object().unwrap() {
            match value {
                Value::Null => drop(config.as_object_mut().unwrap().remove(name)),
                value => config[name] = value.clone(),
            }
        }
    });
    change(dir.path());
    let checkpoint = open(dir.path()).unwrap_or_else(|error| panic!("{fields}: {error}"));
    (checkpoint.tokenizer, checkpoint.capabilities.warnings.clone())
}

fn ids(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode(text, true).unwrap().get_ids().to_vec()
}

/// Removes a token from the added tokens of `tokenizer.json`.
fn without(token: &'static str) -> impl FnOnce(&Path) {
    move |dir| {
        edit(&dir.join("tokenizer.json"), |file| {
            file["added_tokens"].as_array_mut().unwrap().retain(|it| it["content"] != token);
        });
    }
}

#[test]
fn the_space_before_a_text_follows_the_class_and_its_field() {
    let found = |model: &str, fields: Value| ids(&with(model, fields, |_| ()).0, "hello world");
    let spaced = [0, 224, 261, 288, 82, 429, 396, 2];
    let plain = found("roberta-tiny", json!({}));
    assert_ne!(plain, spaced);
    assert_eq!(found("roberta-tiny", json!({"add_prefix_space": true})), spaced);
    assert_eq!(found("roberta-tiny", json!({"add_prefix_space": null})), plain, "the class's default");
    let file =
        |dir: &Path| edit(&dir.join("tokenizer.json"), |file| file["pre_tokenizer"]["add_prefix_space"] = json!(true));
    assert_eq!(ids(&with("roberta-tiny", json!({"add_prefix_space": null}), file).0, "hello world"), plain);
    // The generic class has only tokenizer.json.
    let generic = json!({"add_prefix_space": true, "tokenizer_class": "PreTrainedTokenizerFast"});
    assert_eq!(found("roberta-tiny", generic), plain);
    assert_eq!(found("llama-tiny", json!({"add_prefix_space": true})), found("llama-tiny", json!({})));
    let of_qwen = |adds: bool| found("qwen2-tiny", json!({"add_prefix_space": adds}));
    assert_ne!(of_qwen(true), of_qwen(false));
    // SentencePiece's space is there by default.
    let of_xlm = |fields: Value| ids(&with("xlm-roberta-tiny", fields, |_| ()).0, "hello world");
    let class = "XLMRobertaTokenizer";
    assert_eq!(of_xlm(json!({"tokenizer_class": class})), of_xlm(json!({})));
    assert_ne!(of_xlm(json!({"tokenizer_class": class, "add_prefix_space": false})), of_xlm(json!({})));
    // Null is not the default but false, except to Llama's class.
    let null = |model: &str, class: &str| {
        let change =
            |dir: &Path| edit(&dir.join("tokenizer_config.json"), |file| file["add_prefix_space"] = Value::Null);
        ids(&with(model, json!({"tokenizer_class": class}), change).0, "hello world")
    };
    assert_eq!(null("xlm-roberta-tiny", class), of_xlm(json!({"tokenizer_class": class, "add_prefix_space": false})));
    assert_eq!(null("llama-tiny", "LlamaTokenizer"), found("llama-tiny", json!({"tokenizer_class": "LlamaTokenizer"})));
}

#[test]
fn added_tokens_of_the_config_are_tokens() {
    let text = "a [MASK] b";
    let mask = [6, 130, 8, 131, 7];
    let (tokenizer, warnings) = with("bert-mean-tiny", json!({}), without("[MASK]"));
    assert_eq!((ids(&tokenizer, text), warnings.len()), (mask.to_vec(), 0));
    // Without the list, named in special_tokens_map.json, in tokenizer_config.json or only by the class.
    for fields in [json!({"added_tokens_decoder": null}), json!({"added_tokens_decoder": null, "mask_token": null})] {
        assert_eq!(ids(&with("bert-mean-tiny", fields, without("[MASK]")).0, text), mask);
    }
    let token = |content: &str, strips: bool| json!({"content": content, "lstrip": strips, "rstrip": strips, "normalized": false, "single_word": false, "special": true});
    // The flags of the list count.
    let dir = copy_of("bert-mean-tiny");
    let mut list = read_json(&dir.path().join("tokenizer_config.json"))["added_tokens_decoder"].clone();
    let place = list.as_object().unwrap().iter().find(|(_, it)| it["content"] == "[MASK]").unwrap().0.clone();
    list[place] = token("[MASK]", true);
    let (tokenizer, _) = with("bert-mean-tiny", json!({"added_tokens_decoder": list.clone()}), |_| ());
    let found = tokenizer.get_added_tokens_decoder().into_values().find(|it| it.content == "[MASK]").unwrap();
    assert!(found.lstrip && found.rstrip);
    // A token of tokenizer.json alone is none for a class that builds the tokenizer from the list.
    let only = |dir: &Path| {
        edit(&dir.join("tokenizer.json"), |file| {
            let mut extra = token("water", false);
            extra["id"] = file["model"]["vocab"]["water"].clone();
            file["added_tokens"].as_array_mut().unwrap().push(extra);
        });
    };
    let has = |fields: Value| {
        let (tokenizer, _) = with("bert-mean-tiny", fields, only);
        tokenizer.get_added_tokens_decoder().values().any(|it| it.content == "water")
    };
    assert!(!has(json!({})));
    assert!(has(json!({"added_tokens_decoder": null})) && has(json!({"tokenizer_class": "PreTrainedTokenizerFast"})));
}

#[test]
fn special_tokens_come_from_every_file_that_names_them() {
    let special = |fields: Value, change: fn(&Path)| {
        let (tokenizer, _) = with("bert-mean-tiny", fields, change);
        let mut found: Vec<String> =
            tokenizer.get_added_tokens_decoder().into_values().filter(|it| it.special).map(|it| it.content).collect();
        found.retain(|it| !it.starts_with('['));
        found.sort();
        found
    };
    let nothing: fn(&Path) = |_| ();
    assert!(special(json!({}), nothing).is_empty());
    assert_eq!(special(json!({"additional_special_tokens": ["a", "b"]}), nothing), ["a", "b"]);
    assert_eq!(special(json!({"extra_special_tokens": ["a"], "additional_special_tokens": ["b"]}), nothing), ["a"]);
    assert_eq!(special(json!({"extra_special_tokens": {"x_token": "a"}}), nothing), ["a"]);
    let both = json!({"extra_special_tokens": {"x_token": "a"}, "additional_special_tokens": ["b"]});
    assert_eq!(special(both, nothing), ["a", "b"]);
    assert_eq!(special(json!({"image_token": "a"}), nothing), ["a"]);
    let map: fn(&Path) =
        |dir| edit(&dir.join("special_tokens_map.json"), |map| map["additional_special_tokens"] = json!(["b"]));
    assert_eq!(special(json!({"added_tokens_decoder": null}), map), ["b"]);
    assert!(special(json!({}), map).is_empty(), "the list of added tokens replaces the file");
    let extra: fn(&Path) =
        |dir| edit(&dir.join("special_tokens_map.json"), |map| map["extra_special_tokens"] = json!(["a", "b"]));
    assert_eq!(special(json!({"added_tokens_decoder": null}), extra), ["a", "b"]);
    let mask: fn(&Path) = |dir| edit(&dir.join("special_tokens_map.json"), |map| map["mask_token"] = json!("a"));
    assert_eq!(special(json!({"added_tokens_decoder": null}), mask), ["a"], "it comes before tokenizer_config.json");
    let added: fn(&Path) = |dir| {
        edit(&dir.join("added_tokens.json"), |map| map["a"] = json!(130));
    };
    let (tokenizer, _) = with("bert-mean-tiny", json!({"added_tokens_decoder": null}), added);
    let found = tokenizer.get_added_tokens_decoder().into_values().find(|it| it.content == "a").unwrap();
    assert!(!found.special);
}

#[test]
fn a_token_of_added_tokens_json_is_special_if_another_file_names_it() {
    let object = || json!({"content": "a", "lstrip": true, "normalized": true});
    let typed = || json!({"content": "a", "lstrip": true, "normalized": true, "__type": "AddedToken"});
    let nothing = || json!({});
    for (config, map, special, normalized) in [
        (nothing(), nothing(), false, true),
        (json!({"eos_token": "a"}), nothing(), true, false),
        (json!({"additional_special_tokens": ["a"]}), nothing(), true, false),
        (json!({"extra_special_tokens": ["a"]}), nothing(), true, false),
        (nothing(), json!({"eos_token": "a"}), true, false),
        (nothing(), json!({"eos_token": object()}), true, false),
        (nothing(), json!({"extra_special_tokens": ["a"]}), true, false),
        (nothing(), json!({"extra_special_tokens": [object()]}), true, false),
        // transformers looks at these only afterwards.
        (json!({"eos_token": typed()}), nothing(), true, true),
        (json!({"extra_special_tokens": {"x": "a"}}), nothing(), true, true),
        (json!({"image_token": "a"}), nothing(), true, true),
        (json!({"additional_special_tokens": [typed()]}), nothing(), false, true),
        (nothing(), json!({"additional_special_tokens": ["a"]}), false, true),
        (json!({"eos_token": "a"}), json!({"eos_token": null}), false, true),
        (json!({"extra_special_tokens": ["a"]}), json!({"extra_special_tokens": null}), false, true),
    ] {
        for class in ["BertTokenizer", "PreTrainedTokenizerFast"] {
            let mut fields = json!({"added_tokens_decoder": null, "tokenizer_class": class});
            fields.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
            let (tokenizer, _) = with("bert-mean-tiny", fields, |dir| {
                write_json(&dir.join("added_tokens.json"), &json!({"a": 130}));
                write_json(&dir.join("special_tokens_map.json"), &map);
            });
            let found = tokenizer.get_added_tokens_decoder().into_values().find(|it| it.content == "a").unwrap();
            let flags = (found.special, found.normalized, found.lstrip);
            assert_eq!(flags, (special, normalized, false), "{class} {config} {map}");
        }
    }
}

#[test]
fn tokens_of_added_tokens_json_are_sorted_by_the_ids_in_both_files() {
    let found = |class: &str, added: &'static str, own: Option<u32>| {
        let (tokenizer, _) =
            with("qwen3-tiny", json!({"added_tokens_decoder": null, "tokenizer_class": class}), |dir| {
                fs::write(dir.join("added_tokens.json"), added).unwrap();
                let Some(id) = own else { return };
                edit(&dir.join("tokenizer.json"), |file| {
                    let token = json!({"id": id, "content": "<new>", "lstrip": false, "rstrip": false,
                    "normalized": false, "single_word": false, "special": false});
                    file["added_tokens"].as_array_mut().unwrap().push(token);
                });
            });
        ["<aa>", "<zz>", "<new>"].map(|token| tokenizer.token_to_id(token).unwrap_or_default())
    };
    let added = r#"{"<aa>": 1005, "<zz>": 1006}"#;
    for class in ["Qwen2Tokenizer", "PreTrainedTokenizerFast"] {
        assert_eq!(found(class, added, Some(1005)), [0, 1006, 1005], "the file's own token counts");
        // The last of two with an id counts.
        assert_eq!(found(class, r#"{"<aa>": 1005, "<zz>": 1005}"#, None), [0, 1005, 0]);
        assert_eq!(found(class, r#"{"<zz>": 1005, "<aa>": 1005}"#, None), [1005, 0, 0]);
    }
    for gap in [2, 5] {
        assert_eq!(found("Qwen2Tokenizer", added, Some(1005 + gap)), [1005, 1006, 1007]);
        assert_eq!(found("PreTrainedTokenizerFast", added, Some(1005 + gap)), [1006, 1007, 1005]);
    }
}

/// The new tokens of t5-tiny, which has rows for three, in the order of their ids, and the refusal or the warnings. `config` is the beginning of
/// `tokenizer_config.json`; without `map` the file keeps its list of added tokens.
fn new_tokens(config: &str, map: Option<&str>) -> (Vec<String>, Vec<String>) {
    let dir = copy_of("t5-tiny");
    let path = dir.path().join("tokenizer_config.json");
    edit(&path, |old| {
        let old = old.as_object_mut().unwrap();
        old.retain(|name, _| name != "additional_special_tokens" && !config.contains(&format!("{name:?}:")));
        if let Some(map) = map {
            old.remove("added_tokens_decoder");
            fs::write(dir.path().join("special_tokens_map.json"), map).unwrap();
        }
    });
    let rest = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{{{config}, {}", rest.trim_start().trim_start_matches('{'))).unwrap();
    let checkpoint = match open(dir.path()) {
        Ok(checkpoint) => checkpoint,
        Err(refusal) => return (vec![], vec![refusal.to_string()]),
    };
    let added = checkpoint.tokenizer.get_added_tokens_decoder();
    let mut found: Vec<_> = added.into_iter().filter(|(id, _)| *id > 444).collect();
    found.sort_by_key(|(id, _)| *id);
    (found.into_iter().map(|(_, token)| token.content).collect(), checkpoint.capabilities.warnings.clone())
}

#[test]
fn tokens_of_other_names_have_ids_in_the_order_of_the_file() {
    for (config, map, expected) in [
        (r#""zz_token": "<z>", "mm_token": "<m>", "aa_token": "<a>""#, None, "<z><m><a>"),
        (
            r#""zz_token": "<z>", "yy_token": {"content": "<y>", "__type": "AddedToken"}, "aa_token": "<a>""#,
            None,
            "<y><z><a>",
        ),
        (r#""zz_token": "<z>", "yy_token": {"content": "<y>"}, "aa_token": "<a>""#, None, "<z><a>"),
        (r#""extra_special_tokens": {"b": "<b>", "a": "<a>"}, "zz_token": "<z>""#, None, "<z><b><a>"),
        (r#""extra_special_tokens": {"b": "<b>", "zz_token": "<zz>"}, "zz_token": "<z>""#, None, "<zz><b>"),
        (
            r#""zz_token": "<z>""#,
            Some(r#"{"mm_token": "<m>", "bb_token": {"content": "<b>"}, "additional_special_tokens": []}"#),
            "<m><b><z>",
        ),
        (
            r#""extra_special_tokens": {"b": "<b>"}"#,
            Some(r#"{"extra_special_tokens": {"c": "<c>", "a": "<a>"}}"#),
            "<b><c><a>",
        ),
        (r#""x_token": true"#, None, ""),
    ] {
        let (found, warnings) = new_tokens(config, map);
        assert_eq!((found.concat(), warnings), (expected.to_owned(), vec![]), "{config}");
    }
}

#[test]
fn unnamed_tokens_come_from_the_field_that_counts() {
    let older = Some(r#"{"additional_special_tokens": ["<new>"]}"#);
    let newer = Some(r#"{"extra_special_tokens": ["<new>"]}"#);
    let null = Some(r#"{"extra_special_tokens": null, "additional_special_tokens": ["<new>"]}"#);
    for (config, map, expected) in [
        (r#""additional_special_tokens": ["<old>"]"#, older, "<old>"),
        (r#""extra_special_tokens": ["<old>"]"#, older, "<old>"),
        (r#""extra_special_tokens": ["<old>"]"#, newer, "<old><new>"),
        (r#""extra_special_tokens": [], "additional_special_tokens": ["<old>"]"#, None, "<old>"),
        (r#""x": null"#, older, "<new>"),
        // An object of names does not replace the older spelling.
        (r#""extra_special_tokens": {"x": "<x>"}, "additional_special_tokens": ["<old>"]"#, None, "<x><old>"),
        (r#""extra_special_tokens": {"x": "<x>"}, "additional_special_tokens": ["<old>"]"#, Some("{}"), "<x><old>"),
        (r#""extra_special_tokens": {"x": "<x>"}, "additional_special_tokens": ["<old>"]"#, older, "<x><new>"),
        (r#""extra_special_tokens": {"x": "<x>"}, "additional_special_tokens": ["<old>"]"#, newer, "<x><new>"),
        // A null leaves the names of an object alone.
        (r#""extra_special_tokens": ["<old>"]"#, null, ""),
        (r#""additional_special_tokens": ["<old>"]"#, null, ""),
        (r#""extra_special_tokens": {"x": "<x>"}"#, null, "<x>"),
        (r#""tokenizer_class": "T5Tokenizer""#, null, ""),
    ] {
        assert_eq!(new_tokens(config, map).0.concat(), expected, "{config} {map:?}");
    }
}

#[test]
fn t5_has_tokens_for_masked_spans_unless_the_config_lists_others() {
    let t5 = |config: &str, map: Option<&str>| {
        let (found, warnings) = new_tokens(&format!(r#""tokenizer_class": "T5Tokenizer"{config}"#), map);
        (found.concat(), warnings.concat())
    };
    let older = Some(r#"{"additional_special_tokens": ["<new>"]}"#);
    let (found, warnings) = t5("", older);
    assert_eq!(found, "<new><extra_id_2><extra_id_3>", "before the class's own");
    assert!(warnings.contains("\"<extra_id_4>\"") && warnings.contains("no rows"), "{warnings}");
    assert_eq!(t5("", None).0, "<extra_id_2><extra_id_3><extra_id_4>");
    assert_eq!(t5(r#", "extra_ids": 4"#, None), ("<extra_id_2><extra_id_3>".to_owned(), String::new()));
    for (config, map) in
        [(r#", "additional_special_tokens": ["<old>"]"#, older), (r#", "extra_special_tokens": ["<old>"]"#, None)]
    {
        assert_eq!(t5(config, map), ("<old>".to_owned(), String::new()), "{config}");
    }
    // transformers refuses another number of them.
    let two = Some(r#"{"additional_special_tokens": ["<extra_id_0>", "<extra_id_1>"]}"#);
    assert!(t5("", two).1.contains("`extra_ids` is 100, but special_tokens_map.json lists 2 tokens"));
    assert_eq!(t5(r#", "extra_ids": 2"#, two), (String::new(), String::new()));
    assert!(t5(r#", "extra_ids": 1001"#, None).1.contains("`extra_ids` is 1001, the limit is 1000"));
}

#[test]
fn the_last_of_tokens_with_one_text_counts_with_its_flags() {
    let token = |text: &str, normalized| json!({"content": text, "normalized": normalized, "__type": "AddedToken"});
    for (tokens, expected) in [
        (json!([token("a", false), token("a", true)]), true),
        (json!([token("a", true), token("a", false)]), false),
        (json!(["a", token("a", true), "b"]), true),
    ] {
        let (tokenizer, _) = with("bert-mean-tiny", json!({"additional_special_tokens": tokens}), |_| ());
        let found = tokenizer.get_added_tokens_decoder().into_values().find(|it| it.content == "a").unwrap();
        assert_eq!(found.normalized, expected, "{tokens}");
    }
    // They need one row.
    let tokens = json!([token("<x>", false), token("<x>", true), "<b>", "<c>"]);
    let found = new_tokens(&format!(r#""additional_special_tokens": {tokens}"#), None);
    assert_eq!((found.0.concat(), found.1), ("<x><b><c>".to_owned(), vec![]));
}

#[test]
fn a_limit_on_added_tokens_names_the_fields_and_the_token() {
    let token = json!([{"content": " spaced ", "lstrip": true, "__type": "AddedToken"}]);
    let (_, refused) = new_tokens(&format!(r#""additional_special_tokens": {token}"#), None);
    let words = ["`additional_special_tokens`: item ", ", \" spaced \", has white space at its edge"];
    assert!(words.iter().all(|words| refused.concat().contains(words)), "{refused:?}");
}

#[test]
fn tokens_without_a_row_are_named_and_left_out() {
    let (tokenizer, warnings) = with("bert-mean-tiny", json!({"additional_special_tokens": ["<new>"]}), |_| ());
    let size = tokenizer.get_vocab_size(true) as u32;
    let rows = read_json(&super::fixture("bert-mean-tiny").join("config.json"))["vocab_size"].as_u64().unwrap() as u32;
    if size <= rows && tokenizer.token_to_id("<new>").is_some() {
        assert!(warnings.is_empty());
    } else {
        assert!(warnings[0].contains("\"<new>\"") && warnings[0].contains("no rows"), "{warnings:?}");
    }
    let many: Vec<String> = (0..2000).map(|i| format!("<new{i}>")).collect();
    let (tokenizer, warnings) = with("bert-mean-tiny", json!({"additional_special_tokens": many}), |_| ());
    assert!(tokenizer.get_vocab_size(true) as u32 <= rows);
    assert!(warnings[0].contains("more are ignored"), "{warnings:?}");
}

#[test]
fn special_tokens_in_a_text_may_be_split() {
    let mask = json!({"8": {"content": "[MASK]", "lstrip": true, "special": true}});
    for list in [Value::Null, mask] {
        let (tokenizer, _) =
            with("bert-mean-tiny", json!({"split_special_tokens": true, "added_tokens_decoder": list}), |_| ());
        assert!(!ids(&tokenizer, "a [MASK] b").contains(&8), "{list}");
    }
}

#[test]
fn debertas_class_has_settings_of_its_own() {
    let found = |fields: Value, text: &str| ids(&with("deberta-v2-tiny", fields, |_| ()).0, text);
    let class = "DebertaV2TokenizerFast";
    let plain = |text: &str| found(json!({"tokenizer_class": class}), text);
    assert_ne!(plain("RED"), plain("red"));
    assert_eq!(found(json!({"tokenizer_class": class, "do_lower_case": true}), "RED"), plain("red"));
    let split = |text: &str| found(json!({"tokenizer_class": class, "split_by_punct": true}), text);
    assert_eq!(split("red"), plain("red"));
    assert_ne!(split("a,b"), plain("a,b"));
}

#[test]
fn the_flags_of_special_tokens_are_those_of_the_class() {
    let strips = |model: &str, special: &'static str| {
        let change = |dir: &Path| {
            edit(&dir.join("tokenizer_config.json"), |config| {
                let tokens = config["added_tokens_decoder"].as_object_mut().unwrap();
                tokens.values_mut().for_each(|token| token["lstrip"] = json!(true));
            });
        };
        let (tokenizer, _) = with(model, json!({}), change);
        tokenizer.get_added_tokens_decoder().into_values().find(|it| it.content == special).unwrap().lstrip
    };
    assert!(strips("bert-mean-tiny", "[MASK]") && strips("roberta-tiny", "<mask>"));
    assert!(!strips("qwen3-tiny", "<|endoftext|>"), "Qwen2's class adds plain tokens");
    // Also those that only a name has.
    let named = json!({"bos_token": {"content": "the", "rstrip": true, "normalized": true}});
    let (tokenizer, _) = with("qwen2-tiny", named, |_| ());
    assert_eq!(ids(&tokenizer, "the "), [1005, 220, 1000]);
}

#[test]
fn the_class_of_gpt_2_has_steps_of_its_own() {
    let found = |fields: Value| {
        let other = |dir: &Path| {
            edit(&dir.join("tokenizer.json"), |file| {
                (file["normalizer"], file["pre_tokenizer"]) =
                    (json!({"type": "Lowercase"}), json!({"type": "Whitespace"}));
            });
        };
        ids(&with("roberta-tiny", fields, other).0, "The  Water<mask>")
    };
    assert_eq!(found(json!({"tokenizer_class": "GPT2Tokenizer"})), [0, 55, 261, 224, 224, 58, 360, 440, 2]);
    let spaced = json!({"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": true});
    assert_eq!(found(spaced), [0, 324, 224, 224, 58, 360, 440, 2]);
}

#[test]
fn a_space_that_the_class_adds_is_in_no_offset() {
    let offsets = |text: &str| {
        let (tokenizer, _) = with("roberta-tiny", json!({"add_prefix_space": true}), |_| ());
        tokenizer.encode_char_offsets(text, false).unwrap().get_offsets().to_vec()
    };
    assert_eq!(offsets(" "), [(0, 0)]);
    assert_eq!(offsets("  a"), [(0, 0), (2, 3)]);
    assert_eq!(offsets("a b"), [(0, 1), (2, 3)]);
}

#[test]
fn a_class_without_suffixes_of_words_has_none() {
    let suffix = |dir: &Path| {
        edit(&dir.join("tokenizer.json"), |file| file["model"]["end_of_word_suffix"] = json!("</w>"));
    };
    let plain = ids(&with("roberta-tiny", json!({}), |_| ()).0, "the water");
    assert_eq!(ids(&with("roberta-tiny", json!({}), suffix).0, "the water"), plain);
    let generic = json!({"tokenizer_class": "PreTrainedTokenizerFast"});
    assert_ne!(ids(&with("roberta-tiny", generic, suffix).0, "the water"), plain);
}

#[test]
fn a_class_for_another_kind_of_vocabulary_is_named_and_ignored() {
    let plain = ids(&with("bert-mean-tiny", json!({"tokenizer_class": "TokenizersBackend"}), |_| ()).0, "the water");
    for class in ["XLMRobertaTokenizer", "Qwen2TokenizerFast", "LlamaTokenizer"] {
        let (tokenizer, warnings) = with("bert-mean-tiny", json!({"tokenizer_class": class}), |_| ());
        assert_eq!(ids(&tokenizer, "the water"), plain);
        assert!(warnings[0].contains("`tokenizer_class`") && warnings[0].contains(class), "{warnings:?}");
    }
    let (_, warnings) = with("gte-reranker-tiny", json!({"tokenizer_class": "GPT2Tokenizer"}), |_| ());
    assert!(warnings[0].contains("GPT2Tokenizer"), "{warnings:?}");
    let unnamed = |dir: &Path| {
        std::fs::remove_file(dir.join("tokenizer_config.json")).unwrap();
        edit(&dir.join("config.json"), |config| config["model_type"] = json!("bert"));
    };
    let (_, warnings) = with("bert-mean-tiny", json!({}), unnamed);
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn a_malformed_list_of_special_tokens_is_refused_only_where_it_is_read() {
    let refused = |has_list: bool| {
        let dir = copy_of("bert-mean-tiny");
        if !has_list {
            edit(&dir.path().join("tokenizer_config.json"), |file| {
                file.as_object_mut().unwrap().remove("added_tokens_decoder");
            });
        }
        fs::write(dir.path().join("special_tokens_map.json"), "{").unwrap();
        open(dir.path()).err().map(|error| error.to_string())
    };
    assert_eq!(refused(true), None, "the list of added tokens replaces the file");
    let error = refused(false).unwrap();
    assert!(error.contains("special_tokens_map.json"), "{error}");
}

#[test]
fn camembert_has_unused_tokens_unless_the_files_list_others() {
    let names_unused = |map: Value| {
        let fields = json!({"tokenizer_class": "CamembertTokenizer", "added_tokens_decoder": null});
        let change = |dir: &Path| write_json(&dir.join("special_tokens_map.json"), &map);
        let (tokenizer, warnings) = with("xlm-roberta-tiny", fields, change);
        // Without a row they are left out by name.
        let is_known = |token: &&str| {
            tokenizer.token_to_id(token).is_some() || warnings.iter().any(|warning| warning.contains(*token))
        };
        ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"].iter().filter(|&token| is_known(token)).count()
    };
    assert_eq!(names_unused(json!({})), 3);
    assert_eq!(names_unused(json!({"additional_special_tokens": []})), 0);
}
