//! Sums over all items of a file or a model, where each item alone is within its limit.

use super::refusals::Change::{Delete, Set, Write};
use super::refusals::check;
use super::{Stored, copy_of, edit_tensors, fixture, open, options, read_json, write_json, write_tensors};
use crate::check::check_model;
use crate::config::derived::check_derived;
use crate::config::{PositionsConfig, TransformerConfig};
use crate::load;
use crate::memory_budget;
use crate::options::{DefaultPrompt, ModelSource};
use safetensors::Dtype;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

#[test]
fn files_of_tiny_values_are_refused_before_they_are_parsed() {
    let lists: &'static str = format!("[{}]", vec!["{}"; 200_000].join(",")).leak();
    let named = "lists, objects and values: they would take about";
    for file in ["config.json", "modules.json", "tokenizer_config.json", "sentence_bert_config.json"] {
        check(vec![("qwen3-tiny", Write(file, lists), &[file, named])]);
    }
    let dir = copy_of("qwen3-tiny");
    fs::write(dir.path().join("tokenizer.json"), format!("[{}]", vec!["{}"; 800_000].join(","))).unwrap();
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("tokenizer.json") && message.contains(named), "{message}");
}

#[test]
fn shards_are_counted() {
    let dir = copy_of("llama-tiny");
    Delete("model.safetensors").apply(dir.path());
    let shard = |index: usize| (format!("t{index}"), json!(format!("{index}.safetensors")));
    for (count, words) in [(1024, "has no 0.safetensors"), (1025, "names 1025 files of tensors, the limit is 1024")] {
        let map: Map<String, Value> = (0..count).map(shard).collect();
        write_json(&dir.path().join("model.safetensors.index.json"), &json!({"weight_map": map}));
        let message = open(dir.path()).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a_dense_folder_has_few_places_whatever_it_is_called() {
    let module =
        |class: &str, path: &str| json!({"type": format!("sentence_transformers.models.{class}"), "path": path});
    let dir = copy_of("qwen3-tiny");
    let mut modules = vec![module("Transformer", ""), module("Pooling", "1_Pooling")];
    modules.extend(["2_Dense", "./2_Dense", "2_Dense/", ".//2_Dense/.", "2_Dense"].map(|path| module("Dense", path)));
    write_json(&dir.path().join("modules.json"), &json!(modules));
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("the Dense module in the folder \"2_Dense\" in 5 places"), "{message}");
    // One of them on the way of all routes, four behind.
    let dir = copy_of("asym-tiny");
    let dense = "140266138126480_Dense";
    Set("2_Asym/config.json", "/structure", json!({"query": vec![dense; 5], "doc": [dense]})).apply(dir.path());
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains(&format!("\"2_Asym/{dense}\" in 5 places")), "{message}");
}

/// The config of a DeBERTa with this many rows of relative position embeddings.
fn with_distances(span: usize) -> TransformerConfig {
    let mut config = open(fixture("deberta-v2-tiny")).unwrap().config;
    match &mut config.positions {
        PositionsConfig::Disentangled(it) => it.span = span,
        other => panic!("{other:?}"),
    }
    config
}

#[test]
fn tables_that_no_file_has_are_counted_over_layers_and_models() {
    let config = with_distances(256);
    let (width, layers) = (config.attention.q_width() as u64, config.num_layers as u64);
    let PositionsConfig::Disentangled(distances) = config.positions else { unreachable!() };
    assert_eq!(config.derived_values(100), (distances.terms() as u64 - 1) * 512 * width * layers + 200);
    check_derived("x", [(&config, 100)].into_iter()).unwrap();
    let wide = with_distances(1 << 20);
    let refused = check_derived("x", [(&wide, 100)].into_iter()).unwrap_err().to_string();
    assert!(refused.starts_with("x: ") && refused.contains("the limit is 268435456"), "{refused}");
    wide.check_positions("x", 100).unwrap_err();

    let rotary = open(fixture("modernbert-tiny")).unwrap().config;
    let head_dim = rotary.attention.head_dim;
    let positions = (1 << 27) / head_dim;
    // Layers with a window and those without have tables of their own.
    assert_eq!(rotary.derived_values(positions), 1 << 28);
    rotary.check_positions("x", positions).unwrap();
    let two = [(&rotary, positions / 2), (&rotary, positions / 2)];
    check_derived("x", two.into_iter()).unwrap();
    check_derived("x", two.into_iter().chain([(&rotary, 1)])).unwrap_err();
    rotary.check_positions("x", positions + 1).unwrap_err();
    let alibi = open(fixture("jina-v2-tiny")).unwrap().config;
    assert_eq!(alibi.derived_values(100), 200 * alibi.attention.num_heads as u64);
    assert_eq!(alibi.derived_values(usize::MAX), u64::MAX);
    // Few distances, but an index of each position for each head.
    for config in [alibi, with_distances(1)] {
        let positions = (1 << 28) / config.attention.num_heads + 1;
        let refused = config.check_positions("x", positions).unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!("x: the longest input ({positions} tokens) times the heads")),
            "{refused}"
        );
    }
}

#[test]
fn warnings_and_messages_have_a_length_of_their_own() {
    let dir = copy_of("bert-mean-tiny");
    let fields: Map<String, Value> = (0..5000).map(|index| (format!("{index}{}", "x".repeat(500)), json!(1))).collect();
    write_json(&dir.path().join("sentence_bert_config.json"), &json!({"tokenizer_args": fields}));
    let capabilities = open(dir.path()).unwrap().capabilities.clone();
    let [warning] = capabilities.warnings.as_slice() else { panic!("{} warnings", capabilities.warnings.len()) };
    assert!(warning.len() < 4000 && warning.contains(", 4992 more is ignored"), "{warning}");

    let long = "x".repeat(1 << 20);
    let index = json!({"weight_map": {long.clone(): "a.safetensors"}});
    let dir = copy_of("llama-tiny");
    Set("config.json", "/architectures", json!([long])).apply(dir.path());
    Delete("model.safetensors").apply(dir.path());
    write_json(&dir.path().join("model.safetensors.index.json"), &index);
    fs::copy(fixture("llama-tiny").join("model.safetensors"), dir.path().join("a.safetensors")).unwrap();
    let verdict = check_model(&options(ModelSource::Path(dir.path().to_owned()))).verdict;
    assert!(format!("{verdict:?}").len() < 5000);
}

#[test]
fn what_a_model_card_and_prompts_say_stays_on_its_line() {
    let dir = copy_of("qwen3-tiny");
    let licence = format!("---\nlicense: \u{1b}[31m\u{202e}{}\n---\n", "x".repeat(1 << 20));
    fs::write(dir.path().join("README.md"), licence).unwrap();
    let mut named = options(ModelSource::Path(dir.path().to_owned()));
    let found = check_model(&named).licence;
    let licence = found.name().unwrap();
    assert!(licence.starts_with(r"\u{1b}[31m\u{202e}xx") && licence.len() < 250, "{licence}");

    let prompts: Map<String, Value> =
        (0..256).map(|it| (format!("\nERROR {it}{}", "x".repeat(100)), json!(""))).collect();
    write_json(&dir.path().join("config_sentence_transformers.json"), &json!({"prompts": prompts}));
    named.default_prompt = Some(DefaultPrompt::Named("nix".to_owned()));
    let message = crate::load(&named).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(
        message.starts_with(r"`--default-prompt-name nix`") && message.contains(r"it has: \nERROR 0x"),
        "{message}"
    );
    assert!(message.len() < 1100 && !message.contains('\n'), "{message}");
}

#[test]
fn a_router_has_few_models_and_short_names() {
    let refused = |routes: Vec<String>, modules: &dyn Fn(usize) -> Vec<String>| {
        let dir = copy_of("qwen3-tiny");
        let types = (0..routes.len()).flat_map(|index| {
            let [transformer, pooling] = [format!("{index}_T"), format!("{index}_P")];
            [
                (transformer, json!("sentence_transformers.models.Transformer")),
                (pooling, json!("sentence_transformers.models.Pooling")),
            ]
        });
        let types: Map<String, Value> = types.collect();
        let structure: Map<String, Value> =
            routes.into_iter().enumerate().map(|(index, name)| (name, json!(modules(index)))).collect();
        let router = json!({"types": types, "structure": structure, "parameters": {}});
        write_json(&dir.path().join("router_config.json"), &router);
        let module = json!([{"path": "", "type": "sentence_transformers.models.Router"}]);
        write_json(&dir.path().join("modules.json"), &module);
        open(dir.path()).unwrap_err().to_string()
    };
    let own = |index: usize| vec![format!("{index}_T"), format!("{index}_P")];
    let names = |count: usize| (0..count).map(|index| format!("r{index}")).collect::<Vec<_>>();
    assert!(refused(names(9), &own).contains("9 models behind one Router"));
    let message = refused(names(8), &own);
    assert!(!message.contains("behind one Router"), "{message}");
    let message = refused(vec!["x".repeat(129), "b".to_owned()], &own);
    assert!(message.contains("`structure` has a name of 129 bytes, the limit is 128"), "{message}");
}

/// The message of a start, which is also the message of check-model.
fn refused(folder: &Path) -> String {
    let message = open(folder).unwrap_err().to_string();
    let verdict = format!("{:?}", check_model(&options(ModelSource::Path(folder.to_owned()))).verdict);
    let begin = message.split(['`', '"']).next().unwrap();
    assert!(verdict.contains(begin), "{verdict}\nlacks {begin}");
    message
}

/// Gives a model this many added tokens of 2,000 bytes with a common beginning, and rows for them.
fn add_long_tokens(folder: &Path, begin: &str, count: usize) {
    let token = |number: usize| {
        let content = format!("{begin}{number:04}");
        json!({"id": 1000 + number, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": true, "special": false})
    };
    let file = folder.join("tokenizer.json");
    let mut tokenizer = read_json(&file);
    tokenizer["added_tokens"].as_array_mut().unwrap().extend((0..count).map(token));
    write_json(&file, &tokenizer);
    let mut rows = 0;
    edit_tensors(folder, |tensors| {
        let (_, table) = tensors.iter_mut().find(|(name, _)| name.ends_with("word_embeddings.weight")).unwrap();
        rows = table.shape[0] + count;
        table.shape[0] = rows;
        table.bytes.resize(rows * table.shape[1] * 4, 0);
    });
    Set("config.json", "/vocab_size", json!(rows)).apply(folder);
}

#[test]
fn added_tokens_of_all_models_behind_a_router_are_counted_together() {
    let dir = copy_of("router-encoders-tiny");
    let [first, second] = ["document_0_Transformer", "query_0_Transformer"].map(|folder| dir.path().join(folder));
    add_long_tokens(&first, &"x".repeat(1996), 1100);
    open(dir.path()).unwrap();
    add_long_tokens(&second, &"x".repeat(1996), 1100);
    let message = refused(dir.path());
    assert!(
        message.starts_with("query_0_Transformer: tokenizer.json: `added_tokens` have more than 4194304 bytes"),
        "{message}"
    );
}

#[test]
fn added_tokens_of_the_config_are_counted_too() {
    let dir = copy_of("bert-mean-tiny");
    add_long_tokens(dir.path(), &"x".repeat(1996), 2200);
    let path = dir.path().join("tokenizer.json");
    let mut file = read_json(&path);
    let tokens = file["added_tokens"].as_array_mut().unwrap();
    let listed: Map<String, Value> = tokens
        .extract_if(.., |token| token["id"].as_u64() >= Some(1000))
        .map(|it| (it["id"].to_string(), it))
        .collect();
    write_json(&path, &file);
    Set("tokenizer_config.json", "/added_tokens_decoder", json!(listed)).apply(dir.path());
    let message = refused(dir.path());
    let words = "`additional_special_tokens`: have more than 4194304 bytes";
    let start = "tokenizer_config.json: the tokens of `added_tokens_decoder`";
    assert!(message.starts_with(start) && message.contains(words), "{message}");
}

#[test]
fn weights_for_which_there_is_no_memory_are_refused() {
    let dir = copy_of("static-embedding-tiny");
    // Each tensor is small, the table that tokens see is not.
    let (width, tokens) = (1 << 16, 445);
    let table = Stored { dtype: Dtype::F32, shape: vec![1, width], bytes: vec![0; 4 * width] };
    let mapping = Stored { dtype: Dtype::I32, shape: vec![tokens], bytes: vec![0; 4 * tokens] };
    let tensors = BTreeMap::from([("embedding.weight".to_owned(), table), ("mapping".to_owned(), mapping)]);
    write_tensors(&dir.path().join("0_StaticEmbedding/model.safetensors"), &tensors);
    memory_budget::LEFT.set(Some(20_000_000));
    let refused = load(&options(ModelSource::Path(dir.path().to_owned()))).err().map(|error| error.to_string());
    memory_budget::LEFT.set(None);
    let message = refused.unwrap();
    assert!(message.contains("they would take") && message.contains("may have 20000000 more"), "{message}");
}

#[test]
fn a_tokenizer_for_which_there_is_no_memory_is_refused() {
    let dir = copy_of("bert-mean-tiny");
    // The automaton of 2.2 MB of added tokens takes 80 times as much.
    add_long_tokens(dir.path(), &"x".repeat(1996), 1100);
    memory_budget::LEFT.set(Some(100_000_000));
    let message = refused(dir.path());
    assert!(message.starts_with("tokenizer.json: would take 1") && message.contains("may have 100000000"), "{message}");
    memory_budget::LEFT.set(Some(200_000_000));
    open(dir.path()).unwrap();

    Delete("tokenizer.json").apply(dir.path());
    fs::write(dir.path().join("vocab.txt"), "a\n".repeat(1_000_000)).unwrap();
    let message = refused(dir.path());
    memory_budget::LEFT.set(None);
    assert!(message.starts_with("vocab.txt: would take 304000000 bytes of memory"), "{message}");
}

#[test]
fn a_normalizer_in_the_place_of_the_file_s_does_not_make_added_tokens_longer_than_allowed() {
    let dir = copy_of("bert-mean-tiny");
    Set("tokenizer.json", "/normalizer", Value::Null).apply(dir.path());
    // It puts spaces around each letter.
    add_long_tokens(dir.path(), &"\u{4e2d}".repeat(665), 1400);
    let message = refused(dir.path());
    assert!(message.starts_with("tokenizer.json: `added_tokens` have more than 4194304 bytes"), "{message}");
}

#[test]
fn tables_of_positions_are_counted_over_all_models() {
    let dir = copy_of("router-encoders-tiny");
    let folders = ["a_0_Transformer", "b_0_Transformer"];
    let mut types = Map::new();
    for folder in folders {
        let [pooling, path] = [folder.replace("0_Transformer", "1_Pooling"), folder.to_owned()];
        let model = copy_of("modernbert-tiny");
        let config = read_json(&model.path().join("config.json"));
        let head_dim = config["hidden_size"].as_u64().unwrap() / config["num_attention_heads"].as_u64().unwrap();
        Set("config.json", "/max_position_embeddings", json!((1 << 27) / head_dim)).apply(model.path());
        for other in ["sentence_bert_config.json", "tokenizer_config.json"] {
            fs::remove_file(model.path().join(other)).ok();
        }
        fs::rename(model.path(), dir.path().join(folder)).unwrap();
        write_json(&dir.path().join(&pooling).join("config.json"), &json!({"pooling_mode": "mean"}));
        types.insert(path, json!("sentence_transformers.models.Transformer"));
        types.insert(pooling, json!("sentence_transformers.models.Pooling"));
    }
    let config = dir.path().join("router_config.json");
    let route = |folder: &str| json!([folder, folder.replace("0_Transformer", "1_Pooling")]);
    write_json(&config, &json!({"types": types, "structure": {"a": route(folders[0])}}));
    open(dir.path()).unwrap();
    let structure = json!({"a": route(folders[0]), "b": route(folders[1])});
    write_json(&config, &json!({"types": types, "structure": structure}));
    let message = refused(dir.path());
    assert!(message.contains("tables of positions and distances of 536870912 values"), "{message}");
}

#[test]
fn tables_that_tokens_share_are_counted_over_all_models() {
    let dir = copy_of("router-static-tiny");
    let class = "sentence_transformers.models.StaticEmbedding";
    let mut types = Map::new();
    let (width, tokens) = (1 << 18, 600);
    for folder in ["query_0_StaticEmbedding", "document_0_StaticEmbedding"] {
        types.insert(folder.to_owned(), json!(class));
        fs::create_dir_all(dir.path().join(folder)).unwrap();
        let tokenizer = fixture("router-static-tiny").join("query_0_StaticEmbedding/tokenizer.json");
        fs::copy(tokenizer, dir.path().join(folder).join("tokenizer.json")).unwrap();
        let table = Stored { dtype: Dtype::F32, shape: vec![1, width], bytes: vec![0; 4 * width] };
        let mapping = Stored { dtype: Dtype::I64, shape: vec![tokens], bytes: vec![0; 8 * tokens] };
        let tensors = BTreeMap::from([("embedding.weight".to_owned(), table), ("mapping".to_owned(), mapping)]);
        write_tensors(&dir.path().join(folder).join("model.safetensors"), &tensors);
    }
    let route =
        |folders: &[&str]| json!({"types": types, "structure": {"query": [folders[0]], "document": [folders[1]]}});
    let config = dir.path().join("router_config.json");
    write_json(&config, &route(&["query_0_StaticEmbedding"; 2]));
    open(dir.path()).unwrap();
    write_json(&config, &route(&["query_0_StaticEmbedding", "document_0_StaticEmbedding"]));
    let message = refused(dir.path());
    assert!(message.contains("`mapping` expands the stored tables to 1258291200 bytes"), "{message}");
}

#[test]
fn places_of_a_dense_layer_are_counted_over_all_models_and_links() {
    let dir = copy_of("router-encoders-tiny");
    let config = dir.path().join("router_config.json");
    let whole = read_json(&config);
    let message = |query: &[&str], document: &[&str]| {
        let mut router = whole.clone();
        for (route, folders) in [("query", query), ("document", document)] {
            let own = [format!("{route}_0_Transformer"), format!("{route}_1_Pooling")];
            let modules = own.iter().map(String::as_str).chain(folders.iter().copied());
            router["structure"][route] = modules.collect();
            for folder in folders {
                router["types"][*folder] = whole["types"]["query_2_Dense"].clone();
            }
        }
        write_json(&config, &router);
        open(dir.path()).map_or_else(|error| error.to_string(), |_| String::new())
    };
    let dense = "query_2_Dense";
    let five = "in 5 places is not supported (4 at most)";
    assert!(!message(&[dense; 2], &[dense; 2]).contains("places"));
    assert!(message(&[dense; 3], &[dense; 2]).contains(five));
    for link in ["a_Dense", "b_Dense"] {
        symlink(dense, dir.path().join(link)).unwrap();
    }
    // Another folder with the same file.
    fs::create_dir(dir.path().join("c_Dense")).unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::hard_link(dir.path().join(dense).join(file), dir.path().join("c_Dense").join(file)).unwrap();
    }
    assert!(!message(&[dense, "a_Dense"], &["b_Dense", "c_Dense"]).contains("places"));
    assert!(message(&[dense, "a_Dense"], &["b_Dense", "c_Dense", "a_Dense"]).contains(five));
}

#[test]
fn names_of_modules_are_short() {
    // Each of 16 routes would have 16 copies of it.
    let dir = copy_of("router-encoders-tiny");
    let class = |length: usize| format!("sentence_transformers.{}", "x".repeat(length - 22));
    let mut router = read_json(&dir.path().join("router_config.json"));
    router["types"]["query_2_Dense"] = json!(class(257));
    write_json(&dir.path().join("router_config.json"), &router);
    let message = refused(dir.path());
    assert!(
        message.contains("router_config.json: `query_2_Dense` has a class of 257 bytes, the limit is 256"),
        "{message}"
    );
    let module = |class: String, path: String| json!([{"type": class, "path": path}]);
    for (module, words) in [
        (module(class(257), String::new()), "module 0 has a class of 257 bytes, the limit is 256"),
        (module(class(256), "a".repeat(257)), "module 0 has a path of 257 bytes, the limit is 256"),
        (module(class(256), "a".repeat(256)), "is not supported"),
    ] {
        let dir = copy_of("bert-mean-tiny");
        write_json(&dir.path().join("modules.json"), &module);
        let message = open(dir.path()).unwrap_err().to_string();
        assert!(message.contains("modules.json") && message.contains(words), "{message}\nlacks {words}");
    }
}
