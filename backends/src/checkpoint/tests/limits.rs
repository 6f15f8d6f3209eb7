//! Limits on single values of a model's files, one beyond each.

use super::refusals::Change::{Delete, Remove, Set};
use super::refusals::{check, config};
use super::{Stored, copy_of, edit_tensors, open, read_json, write_json};
use crate::formats::safetensors::header_end;
use safetensors::Dtype;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn settings_of_families() {
    let names = |count: usize| (0..count).map(|index| format!("t{index}")).collect::<Vec<_>>();
    let dir = copy_of("jina-v3-tiny");
    let tasks = read_json(&dir.path().join("config.json"))["lora_adaptations"].clone();
    let task = tasks[0].as_str().unwrap();
    check(vec![
        ("jina-v3-tiny", config("/lora_adaptations", json!(names(65))), &["has 65 tasks, the limit is 64"]),
        (
            "jina-v3-tiny",
            config("/lora_adaptations", json!(["x".repeat(129)])),
            &["a task whose name has 129 bytes, the limit is 128"],
        ),
        (
            "jina-v3-tiny",
            config("/task_instructions", json!({(task): "x".repeat((16 << 10) + 1)})),
            &["a task whose instruction has 16385 bytes, the limit is 16384"],
        ),
        ("jina-v3-tiny", config("/lora_rank", json!(1025)), &["`lora_rank` must be from 1 to 1024, it is 1025"]),
        ("jina-v3-tiny", config("/lora_rank", json!(0)), &["`lora_rank` must be from 1 to 1024, it is 0"]),
        ("jina-v3-tiny", config("/lora_alpha", json!(65537)), &["`lora_alpha` must be from 0 to 65536, it is 65537"]),
        ("nomic-moe-tiny", config("/num_experts", json!(1025)), &["`num_experts` must be at most 1024, it is 1025"]),
        ("nomic-moe-tiny", config("/moe_top_k", json!(65)), &["`moe_top_k` must be at most 64, it is 65"]),
        (
            "nomic-moe-tiny",
            config("/moe_every_n_layers", json!(4097)),
            &["`moe_every_n_layers` must be at most 4096, it is 4097"],
        ),
        ("deberta-v2-tiny", config("/position_buckets", json!(65537)), &["must be from 2 to 65536, it is 65537"]),
        ("deberta-v2-tiny", config("/position_buckets", json!(1)), &["must be from 2 to 65536, it is 1"]),
        // Below half of the 16 buckets, and one bucket for many distances.
        ("deberta-v2-tiny", config("/max_relative_positions", json!(8)), &["(8) must be at least twice"]),
        ("deberta-v2-tiny", config("/max_relative_positions", json!(10)), &["(10) must be at least twice"]),
        (
            "mpnet-tiny",
            config("/relative_attention_num_buckets", json!(4097)),
            &["`relative_attention_num_buckets` must be from 32 to 4096, it is 4097"],
        ),
        ("bert-mean-tiny", config("/type_vocab_size", json!(1 << 16)), &["`type_vocab_size`", "65536"]),
        ("llama-tiny", config("/intermediate_size", json!((1 << 20) + 1)), &["`intermediate_size`", "1048576"]),
        ("qwen3-tiny", config("/num_attention_heads", json!(8192)), &["`num_attention_heads`", "4096"]),
        ("llama-tiny", config("/head_dim", json!(4098)), &["`head_dim` must be from 1 to 4096"]),
    ]);
}

#[test]
fn modules_and_routes() {
    let router = |pointer, value| Set("router_config.json", pointer, value);
    let routes: Map<String, Value> =
        (0..17).map(|index| (format!("r{index}"), json!(["document_0_Transformer", "document_1_Pooling"]))).collect();
    let few: Map<String, Value> = routes
        .clone()
        .into_iter()
        .take(1)
        .chain([(
            "document".to_owned(),
            json!([vec!["document_0_Transformer", "document_1_Pooling"], vec!["query_2_Dense"; 15]].concat()),
        )])
        .collect();
    let mapping = |index: usize| (format!("('t{index}', 'text')"), json!("query"));
    let mappings: Map<String, Value> = (0..65).map(mapping).collect();
    let long = json!({(format!("('{}', 'text')", "x".repeat(129))): "query"});
    let modes = ["cls", "max", "mean", "cls", "max", "mean", "cls"];
    let dense = "2_Asym/140266138126480_Dense/config.json";
    let named = "with more routes or modules";
    check(vec![
        (
            "router-encoders-tiny",
            router("/structure", json!(routes)),
            &["`structure`", named, "16 routes of 16 modules"],
        ),
        ("router-encoders-tiny", router("/structure", json!(few)), &["`structure`", named]),
        (
            "router-encoders-tiny",
            router("/parameters/route_mappings", json!(mappings)),
            &["`parameters.route_mappings` with more mappings", "at most 64"],
        ),
        (
            "router-encoders-tiny",
            router("/parameters/route_mappings", long),
            &["`parameters.route_mappings` has a name of 129 bytes, the limit is 128"],
        ),
        (
            "bert-mean-tiny",
            Set("1_Pooling/config.json", "/pooling_mode", json!(modes)),
            &["`pooling_mode` has 7 modes, the limit is 6"],
        ),
        (
            "asym-tiny",
            Set(dense, "/out_features", json!((1 << 20) + 1)),
            &["`out_features` must be from 1 to 1048576, it is 1048577"],
        ),
    ]);
}

#[test]
fn numbers_of_labels() {
    let labels: Map<String, Value> = (0..=1 << 16).map(|index| (index.to_string(), json!("x"))).collect();
    check(vec![("qwen3-seqcls-tiny", config("/id2label", json!(labels)), &["`id2label`", "has 65537 labels"])]);
    let dir = copy_of("qwen3-seqcls-tiny");
    Remove("config.json", "id2label").apply(dir.path());
    config("/num_labels", json!((1 << 16) + 1)).apply(dir.path());
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("`num_labels` must be from 1 to 65536, it is 65537"), "{message}");
}

#[test]
fn sizes_of_a_table_of_vectors() {
    let refused = |shape: [usize; 2]| {
        let dir = copy_of("static-embedding-tiny");
        let bytes = vec![0; shape[0] * shape[1] * 4];
        let table = Stored { dtype: Dtype::F32, shape: shape.to_vec(), bytes };
        edit_tensors(&dir.path().join("0_StaticEmbedding"), |tensors| {
            *tensors = BTreeMap::from([("embedding.weight".to_owned(), table)]);
        });
        open(dir.path()).unwrap_err().to_string()
    };
    let message = refused([(1 << 24) + 1, 0]);
    assert!(message.contains("must have from 1 to 16777216 rows, it has 16777217"), "{message}");
    assert!(refused([1, 0]).contains("must have from 1 to 262144 columns, it has 0"));
    assert!(refused([1, 4]).contains("but the model's `vocab_size` is 1"));
    let message = refused([1, (1 << 18) + 1]);
    assert!(message.contains("must have from 1 to 262144 columns, it has 262145"), "{message}");
    let dir = copy_of("model2vec-tiny");
    let longest = |length: usize| {
        config("/max_length", json!(length)).apply(dir.path());
        open(dir.path()).unwrap().capabilities.max_input_length
    };
    assert_eq!([longest(100), longest(1 << 17), longest((1 << 17) + 1)], [100, 1 << 17, 1 << 17]);
}

#[test]
fn a_header_of_safetensors_that_is_read_by_range() {
    assert_eq!(header_end("x", (8_u64 << 20).to_le_bytes()).unwrap(), (8 << 20) + 8);
    let refused = header_end("x", ((8_u64 << 20) + 1).to_le_bytes()).unwrap_err().to_string();
    assert!(refused.starts_with("x: ") && refused.contains("8388609 bytes, at most 8388608 are read"), "{refused}");
}

#[test]
fn shards_are_files_beside_the_index() {
    let dir = copy_of("llama-tiny");
    Delete("model.safetensors").apply(dir.path());
    for name in
        ["../a.safetensors", "a/b.safetensors", ".a.safetensors", "C:a.safetensors", "a.bin", "a\\b.safetensors"]
    {
        write_json(&dir.path().join("model.safetensors.index.json"), &json!({"weight_map": {"a": name}}));
        let message = open(dir.path()).unwrap_err().to_string();
        assert!(message.contains("must name a .safetensors file in the index's folder"), "{name}: {message}");
    }
}

#[test]
fn tensors_of_all_shards() {
    let dir = copy_of("llama-tiny");
    Delete("model.safetensors").apply(dir.path());
    let tensor = |index: usize| format!(r#""{index}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#);
    let header = format!("{{{}}}", (0..132_000).map(tensor).collect::<Vec<_>>().join(","));
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    fs::write(dir.path().join("a.safetensors"), file).unwrap();
    let mut map = Map::new();
    // Each file counts whatever the index names of it.
    for index in 0..8 {
        let name = format!("b{index}.safetensors");
        symlink("a.safetensors", dir.path().join(&name)).unwrap();
        map.insert(index.to_string(), json!(name));
    }
    write_json(&dir.path().join("model.safetensors.index.json"), &json!({"weight_map": map}));
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("names files with more than 1048576 tensors, which is the limit"), "{message}");
}

#[test]
fn a_padding_token_around_texts_is_warned_of_where_the_libraries_take_longer_inputs() {
    let read = |padding: u32, has_modules: bool| {
        let dir = copy_of("roberta-tiny");
        config("/pad_token_id", json!(padding)).apply(dir.path());
        if !has_modules {
            fs::remove_file(dir.path().join("sentence_bert_config.json")).unwrap();
        }
        let capabilities = open(dir.path()).unwrap().capabilities;
        let warning = capabilities.warnings.iter().find(|warning| warning.contains("`pad_token_id`")).cloned();
        (capabilities.max_input_length, warning.unwrap_or_default())
    };
    for has_modules in [false, true] {
        assert_eq!(read(1, has_modules), (368, String::new()));
        let (longest, warning) = read(2, has_modules);
        assert_eq!(longest, 367);
        assert!(warning.contains("at most 367 tokens, where sentence-transformers takes 368"), "{warning}");
        // No token around a text.
        assert_eq!(read(3, has_modules), (366, String::new()));
    }
}
