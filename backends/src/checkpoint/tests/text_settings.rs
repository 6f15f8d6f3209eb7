//! Settings of sentence-transformers for texts and vectors: lengths, special tokens, the end that is cut, dimensions.

use super::refusals::Change::{Delete, Set};
use super::{copy_of, fixture, open, options, read_json, write_json};
use crate::check::{Verdict, check_model};
use crate::options::ModelSource;
use prefold_core::{Capabilities, TaskProfile};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;
use tokenizers::TruncationDirection;

const SENTENCE: &str = "sentence_bert_config.json";

/// A BERT with 288 positions, a tokenizer for 288 tokens, and this config of its Transformer module.
fn with_config(file: &str, config: &Value) -> TempDir {
    let dir = copy_of("bert-mean-tiny");
    Delete(SENTENCE).apply(dir.path());
    write_json(&dir.path().join(file), config);
    dir
}

fn capabilities(dir: &Path) -> Capabilities {
    let found = Capabilities::clone(&open(dir).unwrap().capabilities);
    let checked = check_model(&options(ModelSource::Path(dir.to_owned())));
    assert_eq!(checked.model.unwrap().capabilities, found, "a check agrees");
    let notes = match checked.verdict {
        Verdict::RunsBut(notes) => notes,
        _ => vec![],
    };
    assert_eq!(notes, found.warnings);
    found
}

#[test]
fn the_length_of_sentence_transformers_comes_before_that_of_the_tokenizer() {
    let longest = |config: Value, tokenizer: Value| {
        let dir = with_config(SENTENCE, &config);
        Set("tokenizer_config.json", "/model_max_length", tokenizer).apply(dir.path());
        capabilities(dir.path()).max_input_length
    };
    let rows = capabilities(with_config(SENTENCE, &json!({"max_seq_length": 100_000})).path()).max_input_length;
    assert!(rows >= 288, "the positions of the fixture");
    let text =
        |key: &str, value: Value| json!({"max_seq_length": 30, "processing_kwargs": {key: {"max_length": value}}});
    for (config, tokenizer, expected) in [
        (json!({"max_seq_length": 20}), json!(8), 20),
        (json!({"max_seq_length": 8}), json!(20), 8),
        (json!({"max_seq_length": 5000}), json!(8), rows),
        (json!({"max_seq_length": null, "do_lower_case": false}), json!(8), 8),
        (json!({"do_lower_case": false}), json!(1e30), rows),
        (json!({"max_seq_length": 20, "tokenizer_args": {"model_max_length": 24}}), json!(8), 24),
        (text("text", json!(9)), json!(20), 9),
        (text("text", json!(40)), json!(20), 40),
        (json!({"processing_kwargs": {"text": {"max_length": 9}, "common": {"max_length": 7}}}), json!(20), 7),
    ] {
        assert_eq!(longest(config.clone(), tokenizer), expected, "{config}");
    }
}

#[test]
fn the_config_may_have_an_older_name() {
    for name in ["roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"] {
        let dir = with_config(&format!("sentence_{name}_config.json"), &json!({"max_seq_length": 20}));
        assert_eq!(capabilities(dir.path()).max_input_length, 20, "{name}");
        write_json(&dir.path().join(SENTENCE), &json!({}));
        assert_eq!(capabilities(dir.path()).max_input_length, 20, "{name} behind an empty one");
        write_json(&dir.path().join(SENTENCE), &json!({"max_seq_length": 10}));
        assert_eq!(capabilities(dir.path()).max_input_length, 10, "{name} behind another");
    }
    let dir = with_config("sentence_xlnet_config.json", &json!({"max_seq_length": 0}));
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(refused.starts_with("sentence_xlnet_config.json: `max_seq_length`"), "{refused}");
}

#[test]
fn texts_of_a_task_have_a_length() {
    let tasks = |config: Value| {
        let dir = with_config(SENTENCE, &config);
        write_json(
            &dir.path().join("config_sentence_transformers.json"),
            &json!({"prompts": {"query": "query: ", "passage": "passage: "}}),
        );
        let found = capabilities(dir.path());
        (found.embed.unwrap().tasks, found.warnings)
    };
    let task = |task: &str, instruction: &str, max_input_length| TaskProfile {
        task: task.to_owned(),
        instruction: instruction.to_owned(),
        max_input_length,
        normalizes: true,
        ..TaskProfile::default()
    };
    let both = json!({"query_length": 7, "document_length": 15});
    let expected = [task("query", "query: ", Some(7)), task("document", "passage: ", Some(15))];
    assert_eq!(tasks(both), (expected.into(), vec![]));
    let one = json!({"query_length": 7, "document_length": null});
    let expected = [task("query", "query: ", Some(7)), task("document", "passage: ", None)];
    assert_eq!(tasks(one), (expected.into(), vec![]));
    assert_eq!(tasks(json!({"max_seq_length": 7})), (vec![], vec![]));
    let (of_call, _) = tasks(json!({"query_length": 7, "processing_kwargs": {"text": {"max_length": 9}}}));
    assert_eq!(of_call, [], "the arguments of the call count before");
    let (_, warnings) = tasks(json!({"query_length": 90, "max_seq_length": 30}));
    assert!(warnings[0].contains("`query_length` is 90") && warnings[0].contains("30 tokens"), "{warnings:?}");
    let dir = with_config(SENTENCE, &json!({"document_length": 0}));
    assert!(open(dir.path()).unwrap_err().to_string().contains("`document_length` must be above 0"));
}

#[test]
fn tasks_of_a_router_have_the_lengths_of_their_part() {
    let dir = copy_of("router-encoders-tiny");
    for (folder, config) in [
        ("query_0_Transformer", json!({"query_length": 7, "document_length": 9})),
        ("document_0_Transformer", json!({"query_length": 6, "document_length": 20})),
    ] {
        write_json(&dir.path().join(folder).join(SENTENCE), &config);
    }
    let model = crate::load(&options(ModelSource::Path(dir.path().to_owned()))).unwrap();
    let embed = model.backend.info().capabilities.embed.as_ref().unwrap();
    let lengths: Vec<_> = embed.tasks.iter().map(|task| (task.task.as_str(), task.max_input_length)).collect();
    assert_eq!(lengths, [("query", Some(7)), ("document", Some(20))]);
}

#[test]
fn texts_may_have_no_special_tokens() {
    let ids = |calls: Value| {
        let dir = with_config(SENTENCE, &json!({"processing_kwargs": calls}));
        open(dir.path()).unwrap().tokenizer.encode("the river", true).unwrap().get_ids().to_vec()
    };
    let plain = ids(json!({"text": {"add_special_tokens": true}}));
    let bare = ids(json!({"text": {"add_special_tokens": false}}));
    assert_eq!(bare, plain[1..plain.len() - 1]);
    assert_eq!(ids(json!({"text": {"add_special_tokens": true}, "common": {"add_special_tokens": false}})), bare);
}

#[test]
fn texts_of_a_pair_without_special_tokens_keep_their_token_types() {
    let types = |model: &str, processor: Option<Value>| {
        let dir = copy_of(model);
        write_json(&dir.path().join(SENTENCE), &json!({"processing_kwargs": {"text": {"add_special_tokens": false}}}));
        if let Some(processor) = processor {
            Set("tokenizer_config.json", "/tokenizer_class", json!("PreTrainedTokenizerFast")).apply(dir.path());
            Set("tokenizer.json", "/post_processor", processor).apply(dir.path());
        }
        let tokenizer = open(dir.path()).unwrap().tokenizer;
        let pair = tokenizer.encode(("the", "the the"), true).unwrap();
        let single = tokenizer.encode("the", true).unwrap();
        (single.get_type_ids()[0], pair.get_type_ids().to_vec())
    };
    let bert = "bert-reranker-tiny";
    assert_eq!(types(bert, None), (0, vec![0, 1, 1]));
    assert!(types("roberta-tiny", None).1.iter().all(|kind| *kind == 0), "RoBERTa has one type");
    let text = |name: &str, kind: usize| json!({"Sequence": {"id": name, "type_id": kind}});
    let template = |pair: Value| json!({"type": "TemplateProcessing", "single": [text("A", 1)], "pair": pair, "special_tokens": {}});
    assert_eq!(types(bert, Some(template(json!([text("A", 1), text("B", 0)])))), (1, vec![1, 0, 0]));
    assert_eq!(
        types(bert, Some(template(json!([text("B", 0), text("A", 1)])))),
        (1, vec![0, 0, 1]),
        "the order is the template's"
    );
    assert_eq!(types(bert, Some(Value::Null)), (0, vec![0, 1, 1]));
}

#[test]
fn fields_that_are_not_followed_are_named() {
    let warnings = |config: Value| capabilities(with_config(SENTENCE, &config).path()).warnings;
    let harmless = json!({"processing_kwargs": {"text": {"padding": "max_length", "truncation": "longest_first",
        "max_length": 9}, "image": {"size": 3}, "common": {"return_tensors": "pt"}}, "query_expansion": null,
        "tokenizer_args": {"padding_side": "left"}, "unpad_inputs": true});
    assert_eq!(warnings(harmless), [""; 0]);
    let config = json!({"processing_kwargs": {"text": {"truncation": false, "stride": 4}, "words": {"a": 1}},
        "query_expansion": {"length": 32}, "processor_kwargs": {"do_lower_case": false}});
    let found = warnings(config);
    for field in [
        "`processor_kwargs.do_lower_case: false`",
        "`processing_kwargs.text.stride: 4`",
        "`processing_kwargs.text.truncation: false`",
        "`processing_kwargs.words: {\"a\":1}`",
        "`query_expansion`",
    ] {
        assert!(found.len() == 1 && found[0].starts_with("sentence_bert_config.json: "), "{found:?}");
        assert!(found[0].contains(field), "{field}: {found:?}");
    }
}

#[test]
fn the_files_say_which_end_is_cut() {
    let direction = |dir: &Path| open(dir).unwrap().tokenizer.get_truncation().map(|truncation| truncation.direction);
    let is_left = |dir: &Path| matches!(direction(dir), Some(TruncationDirection::Left));
    let dir = copy_of("bert-mean-tiny");
    assert!(!is_left(dir.path()));
    let saved = json!({"direction": "Left", "max_length": 5, "strategy": "LongestFirst", "stride": 0});
    Set("tokenizer.json", "/truncation", saved.clone()).apply(dir.path());
    assert!(is_left(dir.path()), "as tokenizer.json has it");
    let tokenizer = open(dir.path()).unwrap().tokenizer;
    assert!(tokenizer.encode("the river the river the river", true).unwrap().len() > 5, "the engine truncates");
    Set("tokenizer_config.json", "/truncation_side", json!("right")).apply(dir.path());
    assert!(!is_left(dir.path()), "tokenizer_config.json comes first");
    let dir = copy_of("qwen3-tiny");
    Set("tokenizer_config.json", "/truncation_side", json!("left")).apply(dir.path());
    assert!(is_left(dir.path()));
    Set("tokenizer_config.json", "/truncation_side", json!("up")).apply(dir.path());
    assert!(open(dir.path()).unwrap_err().to_string().contains("`truncation_side` must be \"left\" or \"right\""));
}

#[test]
fn a_table_of_vectors_truncates_as_its_tokenizer_does() {
    let table = |name: &str, path: &'static str, length: usize| {
        let dir = copy_of(name);
        let truncation = json!({"direction": "Left", "max_length": length, "strategy": "LongestFirst", "stride": 0});
        Set(path, "/truncation", truncation).apply(dir.path());
        open(dir.path()).map(|it| (it.capabilities.max_input_length, it.tokenizer.get_truncation().is_some()))
    };
    let path = "0_StaticEmbedding/tokenizer.json";
    assert_eq!(table("static-embedding-tiny", path, 6).unwrap(), (6, true));
    assert_eq!(table("model2vec-tiny", "tokenizer.json", 6).unwrap(), (512, false), "Model2Vec sets its own");
    let refused = table("static-embedding-tiny", path, 0).unwrap_err().to_string();
    assert!(refused.contains("`truncation.max_length` must be above 0"), "{refused}");
}

#[test]
fn vectors_are_truncated_where_the_files_say_so() {
    let embed = |name: &str, kept: Value| {
        let dir = copy_of(name);
        let path = dir.path().join("config_sentence_transformers.json");
        let mut config = if path.exists() { read_json(&path) } else { json!({}) };
        config["truncate_dim"] = kept;
        write_json(&path, &config);
        open(dir.path()).map(|it| it.capabilities.embed.clone().unwrap())
    };
    for name in ["bert-mean-tiny", "static-embedding-tiny"] {
        let whole = open(fixture(name)).unwrap().capabilities.embed.clone().unwrap();
        let cut = embed(name, json!(12)).unwrap();
        assert_eq!((cut.dim, cut.default_dim()), (whole.dim, 12), "{name}");
        assert_eq!(embed(name, json!(null)).unwrap(), whole);
        assert_eq!(embed(name, json!(whole.dim)).unwrap(), whole);
        for kept in [0, whole.dim + 1] {
            let refused = embed(name, json!(kept)).unwrap_err().to_string();
            let problem =
                format!("`truncate_dim` must be from 1 to {}, the width of the vectors, it is {kept}", whole.dim);
            assert!(refused.contains(&problem), "{refused}");
        }
    }
}

#[test]
fn a_length_above_the_positions_is_named_where_positions_are_rotary() {
    let warned = |model: &str, length: usize| {
        let dir = copy_of(model);
        write_json(&dir.path().join("sentence_bert_config.json"), &json!({ "max_seq_length": length }));
        let warnings = open(dir.path()).unwrap().capabilities.warnings.clone();
        warnings.iter().any(|warning| warning.contains("`max_seq_length` is"))
    };
    let positions = open(fixture("qwen3-tiny")).unwrap().config.max_position_embeddings;
    assert!(warned("qwen3-tiny", positions + 1) && !warned("qwen3-tiny", positions));
    assert!(!warned("bert-mean-tiny", 10_000), "the libraries fail there");
}
