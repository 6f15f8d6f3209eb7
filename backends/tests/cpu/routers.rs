//! Models whose texts go through the modules of their task, against the values of sentence-transformers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::encoders::*;
use crate::support::*;
use prefold_backends::{Dtype, LoadOptions, Verdict, check_model};
use prefold_core::{Adapter, Folding, LoadedModel, Pooling, Tokens};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The number of a case's task, 0 without one.
fn task(model: &LoadedModel, case: &Value) -> Adapter {
    let embed = model.backend.info().capabilities.embed.as_ref().unwrap();
    let number = |task| embed.adapter_names().position(|known| known == task).unwrap() as u8 + 1;
    Adapter(case["task"].as_str().map_or(0, number))
}

fn sequences(model: &LoadedModel, cases: &[Value]) -> Vec<Tokens> {
    cases.iter().map(|case| Tokens::new(ids(case)).with_adapter(task(model, case))).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    normalized(a).iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn vectors_by_task() {
    for name in ROUTED {
        let expected = expected(&fixture(name));
        let cases = cases(&expected, "cases");
        let mut model = load(&options(fixture(name)));
        let sequences = sequences(&model, cases);
        let together = values(&mut model, &sequences);
        for ((case, sequence), together) in cases.iter().zip(&sequences).zip(together) {
            let what = format!("{name}, {}", case["name"]);
            assert_close(&what, &normalized(&together), &floats(&case["normalized"]), 1e-4);
            assert_eq!(values(&mut model, std::slice::from_ref(sequence))[0], together, "{what}, alone");
        }
        for (dtype, least) in [(Dtype::Bfloat16, 0.999), (Dtype::Int8, 0.985)] {
            let mut model = load(&LoadOptions { dtype: Some(dtype), ..options(fixture(name)) });
            for (case, found) in cases.iter().zip(values(&mut model, &sequences)) {
                let cosine = cosine(&found, &floats(&case["normalized"]));
                assert!(cosine >= least, "{name}, {dtype}, {}: cosine {cosine}", case["name"]);
            }
        }
    }
}

/// Texts up to the limit of a part have the ids that sentence-transformers gives them.
#[test]
fn each_part_has_its_tokenizer_and_its_limits() {
    let limits =
        [("router-encoders-tiny", vec![48, 24]), ("router-static-tiny", vec![1 << 17, 48]), ("asym-tiny", vec![24])];
    for (name, limits) in limits {
        let expected = expected(&fixture(name));
        let model = load(&options(fixture(name)));
        let info = model.backend.info();
        let found: Vec<usize> = info.parts().map(|part| part.max_input_length).collect();
        assert_eq!((found, model.backend.folding()), (limits, Folding::Whole), "{name}");
        let embed = info.capabilities.embed.as_ref().unwrap();
        assert!(embed.adapter_names().eq(expected["tasks"].as_array().unwrap().iter().map(|it| it.as_str().unwrap())));
        let tokenizers: Vec<_> = [&model.tokenizer].into_iter().chain(&model.further_tokenizers).collect();
        for case in cases(&expected, "cases") {
            let task = embed.adapters.iter().find(|it| case["task"] == *it.task);
            let (part, prompt) = task.map_or((0, ""), |it| (it.part, &it.instruction));
            let text = [prompt, case["text"].as_str().unwrap()].concat();
            let encoding = tokenizers[part].encode(text, true).unwrap();
            if encoding.len() <= info.parts().nth(part).unwrap().max_input_length {
                assert_eq!(encoding.get_ids(), ids(case), "{name}, {}", case["name"]);
            }
        }
    }
}

#[test]
fn each_part_says_how_long_it_took() {
    for name in ["router-encoders-tiny", "router-static-tiny"] {
        let mut model = load(&options(fixture(name)));
        let parts = model.backend.info().part_map();
        let expected = expected(&fixture(name));
        let sequences = sequences(&model, cases(&expected, "cases"));
        let (first, second): (Vec<_>, Vec<_>) = sequences.iter().cloned().partition(|it| parts.part(it.adapter()) == 0);
        for (sequences, ran) in [(&sequences, [true, true]), (&first, [true, false]), (&second, [false, true])] {
            values(&mut model, sequences);
            assert_eq!(
                model.backend.part_times().iter().map(|time| !time.is_zero()).collect::<Vec<_>>(),
                ran,
                "{name}"
            );
        }
    }
    let mut model = load(&options(fixture("asym-tiny")));
    values(&mut model, &[Tokens::new(vec![1])]);
    assert!(model.backend.part_times().is_empty());
}

#[test]
fn replicas_and_int8_cover_all_parts() {
    let path = || options(fixture("router-encoders-tiny"));
    let expected = expected(&fixture("router-encoders-tiny"));
    let cases = cases(&expected, "cases");
    let mut one = load(&path());
    let sequences = sequences(&one, cases);
    let alone = values(&mut one, &sequences);
    let mut two = load(&LoadOptions { cpu_replicas: 2, ..path() });
    let mut other = LoadedModel { backend: two.replicas.remove(0), ..load(&path()) };
    for model in [&mut two, &mut other] {
        assert_eq!(values(model, &sequences), alone);
    }

    let int8 = |skip: &str| LoadOptions { dtype: Some(Dtype::Int8), int8_skip: vec![skip.to_owned()], ..path() };
    let model = load(&int8("query_0_Transformer/*attention"));
    let report = model.backend.info().int8.clone().unwrap();
    for part in ["query_0_Transformer/", "document_0_Transformer/"] {
        assert!(report.errors.iter().any(|(name, _)| name.starts_with(part)), "{part}: {:?}", report.errors);
    }
    let kept = &report.kept_in_bfloat16;
    assert!(kept.len() == 2 && kept.iter().all(|name| name.starts_with("query_0_Transformer/")), "{kept:?}");
    let refused = prefold_backends::load(&int8("other_0_Transformer/")).err().unwrap().to_string();
    assert!(refused.contains("one is document_0_Transformer/"), "{refused}");
}

#[test]
fn a_check_covers_all_parts() {
    let check = check_model(&options(fixture("router-static-tiny")));
    assert!(matches!(check.verdict, Verdict::Runs), "{:?}", check.verdict);
    let model = check.model.unwrap();
    assert_eq!(model.family, "static_embedding, xlm-roberta");
    let loaded = load(&options(fixture("router-static-tiny")));
    let info = loaded.backend.info();
    assert_eq!((&model.family, &model.capabilities), (&info.model_type, &*info.capabilities));
    let tensors = |folder: &str| {
        let file = fixture("router-static-tiny").join(folder).join("model.safetensors");
        let tensors = candle_core::safetensors::load(file, &candle_core::Device::Cpu).unwrap();
        tensors.values().map(|tensor| tensor.elem_count() as u64).sum::<u64>()
    };
    assert_eq!(model.parameters, Some(tensors("query_0_StaticEmbedding") + tensors("document_0_Transformer")));
}

/// A copy of `router-encoders-tiny` whose router has another structure.
fn with_structure(structure: Value, parameters: Value) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy_files(&fixture("router-encoders-tiny"), directory.path());
    let file = directory.path().join("router_config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    config["structure"] = structure;
    config["parameters"] = parameters;
    config["types"]["../x_Transformer"] = json!("sentence_transformers.models.Transformer");
    config["types"]["other_2_Dense"] = json!("sentence_transformers.models.Dense");
    fs::write(&file, config.to_string()).unwrap();
    copy_files(&directory.path().join("query_2_Dense"), &directory.path().join("other_2_Dense"));
    directory
}

#[test]
fn an_encoder_that_routes_share_is_loaded_once() {
    let structure = json!({
        "query": ["query_0_Transformer", "query_1_Pooling", "query_2_Dense"],
        "document": ["query_0_Transformer", "query_1_Pooling", "other_2_Dense"],
    });
    let directory = with_structure(structure, json!({"default_route": "document"}));
    let mut model = load(&options(directory.path().to_owned()));
    assert!(model.backend.info().further_parts.is_empty() && model.further_tokenizers.is_empty());
    let expected = expected(&fixture("router-encoders-tiny"));
    for case in cases(&expected, "cases").iter().filter(|case| case["task"] == "query") {
        for number in [0, 1, 2] {
            let found = values(&mut model, &[Tokens::new(ids(case)).with_adapter(Adapter(number))]);
            assert_close("the same dense module", &normalized(&found[0]), &floats(&case["normalized"]), 1e-4);
        }
    }
}

#[test]
fn mappings_and_the_first_route_decide_as_in_sentence_transformers() {
    let routes = || {
        json!({
            "a": ["document_0_Transformer", "document_1_Pooling"],
            "b": ["query_0_Transformer", "query_1_Pooling", "query_2_Dense"],
        })
    };
    let told = |parameters: Value| {
        let directory = with_structure(routes(), parameters);
        let model = load(&options(directory.path().to_owned()));
        let info = model.backend.info();
        let tasks = info.capabilities.embed.iter().flat_map(|embed| &embed.adapters);
        let tasks: Vec<(String, usize)> = tasks.map(|it| (it.task.clone(), it.part)).collect();
        (info.model_type.clone(), tasks)
    };
    let tasks = |tasks: &[(&str, usize)]| tasks.iter().map(|&(task, part)| (task.to_owned(), part)).collect::<Vec<_>>();
    let first = ("xlm-roberta, bert".to_owned(), tasks(&[("a", 0), ("b", 1)]));
    assert_eq!(told(json!({"default_route": null, "allow_empty_key": true})), first);
    assert_eq!(told(json!({})), first);
    let mapped = json!({"route_mappings": {"('query', 'text')": "b", "(None, 'image')": "b"}});
    assert_eq!(told(mapped), ("xlm-roberta, bert".to_owned(), tasks(&[("a", 0), ("b", 1), ("query", 1)])));
    // What no text reaches is not loaded.
    let caught = json!({"route_mappings": {"(None, 'text')": "b"}});
    assert_eq!(told(caught), ("bert".to_owned(), tasks(&[("a", 0), ("b", 0)])));
}

#[test]
fn what_a_router_cannot_do_is_refused_by_name() {
    let refusal = |directory: &Path, pooling| {
        let options = LoadOptions { pooling, ..options(directory.to_owned()) };
        let start = prefold_backends::load(&options).err().map(|error| error.to_string()).unwrap();
        match check_model(&options).verdict {
            Verdict::DoesNotRun(problem) => assert_eq!(problem, start),
            other => panic!("{other:?}"),
        }
        start
    };
    let query = ["query_0_Transformer", "query_1_Pooling", "query_2_Dense"];
    let document = ["document_0_Transformer", "document_1_Pooling"];
    let refused = [
        (json!({"a": query, "b": ["document_0_Transformer"]}), json!({}), "Normalize as module 1 of the task \"b\""),
        (json!({"a": &query[..2], "b": document}), json!({}), "different widths (16 and 24 values)"),
        (json!({"a": query, "b": document}), json!({"default_route": "c"}), "\"c\" is not among the routes"),
        (json!({"a": query, "b": document}), json!({"allow_empty_key": false}), "`default_route` null with"),
        (json!({"a": query, "b": document}), json!({"route_mappings": {"a": "b"}}), "with the key a"),
        (
            json!({"a": query, "b": document}),
            json!({"route_mappings": {"('a', 'text')": "c"}}),
            "`route_mappings` \"c\"",
        ),
        (json!({"a": query, "b": ["unknown"]}), json!({}), "unknown"),
        (json!({"a": [query[0], query[1], "document_1_Pooling"], "b": document}), json!({}), "Pooling as module 2"),
        (json!({}), json!({}), "default_route"),
        (json!({"a": query, "b": ["../x_Transformer", "document_1_Pooling"]}), json!({}), "leaves the model's folder"),
    ];
    for (structure, parameters, words) in refused {
        let directory = with_structure(structure, parameters);
        let problem = refusal(directory.path(), None);
        assert!(problem.contains(words), "{words}: {problem}");
    }
    for file in [
        "query_0_Transformer/config.json",
        "document_0_Transformer/model.safetensors",
        "query_2_Dense/model.safetensors",
    ] {
        let directory = with_structure(json!({"query": query, "document": document}), json!({}));
        fs::remove_file(directory.path().join(file)).unwrap();
        let problem = refusal(directory.path(), None);
        assert!(problem.contains(file), "{file}: {problem}");
    }
    let problem = refusal(&fixture("router-encoders-tiny"), Some(Pooling::Mean));
    assert!(problem.contains("--pooling is for one model"), "{problem}");
}
