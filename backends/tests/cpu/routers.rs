//! Models whose texts go through the modules of their task, against the values of sentence-transformers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::encoders::*;
use crate::support::*;
use prefold_backends::{Dtype, LoadOptions, Verdict, check_model};
use prefold_core::{Folding, LoadedModel, ModelInfo, Pooling, TaskId, Tokens};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The number of a case's task, 0 without one.
fn number_of(model: &LoadedModel, case: &Value) -> TaskId {
    let embed = model.backend.info().capabilities.embed.as_ref().unwrap();
    let number = |task| embed.task_names().position(|known| known == task).unwrap() as u8 + 1;
    TaskId(case["task"].as_str().map_or(0, number))
}

fn sequences(model: &LoadedModel, cases: &[Value]) -> Vec<Tokens> {
    cases.iter().map(|case| Tokens::new(ids(case)).with_task(number_of(model, case))).collect()
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
        let found: Vec<usize> = info.sub_models.iter().map(|part| part.max_input_length).collect();
        assert_eq!((found, model.backend.folding()), (limits, Folding::Whole), "{name}");
        let embed = info.capabilities.embed.as_ref().unwrap();
        assert!(embed.task_names().eq(expected["tasks"].as_array().unwrap().iter().map(|it| it.as_str().unwrap())));
        let tokenizers: Vec<_> = model.tokenizers.iter().collect();
        for case in cases(&expected, "cases") {
            let task = embed.tasks.iter().find(|it| case["task"] == *it.task);
            let (part, prompt) = task.map_or((0, ""), |it| (it.sub_model, &it.instruction));
            let text = [prompt, case["text"].as_str().unwrap()].concat();
            let encoding = tokenizers[part].encode(text, true).unwrap();
            if encoding.len() <= info.sub_models.iter().nth(part).unwrap().max_input_length {
                assert_eq!(encoding.get_ids(), ids(case), "{name}, {}", case["name"]);
            }
        }
    }
}

#[test]
fn each_part_says_how_long_it_took() {
    for name in ["router-encoders-tiny", "router-static-tiny"] {
        let mut model = load(&options(fixture(name)));
        let parts = model.backend.info().sub_model_map();
        let expected = expected(&fixture(name));
        let sequences = sequences(&model, cases(&expected, "cases"));
        let (first, second): (Vec<_>, Vec<_>) =
            sequences.iter().cloned().partition(|it| parts.sub_model(it.task()) == 0);
        for (sequences, ran) in [(&sequences, [true, true]), (&first, [true, false]), (&second, [false, true])] {
            values(&mut model, sequences);
            assert_eq!(
                model.backend.sub_model_times().iter().map(|time| !time.is_zero()).collect::<Vec<_>>(),
                ran,
                "{name}"
            );
        }
    }
    let mut model = load(&options(fixture("asym-tiny")));
    values(&mut model, &[Tokens::new(vec![1])]);
    assert!(model.backend.sub_model_times().is_empty());
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
    let mut other = LoadedModel { backend: two.replicas.remove(0).backend, ..load(&path()) };
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

/// A copy of `router-encoders-tiny` whose router has another structure. There are also Dense with the opposite of the vectors of
/// `query_2_Dense`, and another Pooling for its Transformer.
fn with_structure(structure: Value, parameters: Value) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy_files(&fixture("router-encoders-tiny"), directory.path());
    let file = directory.path().join("router_config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    config["structure"] = structure;
    config["parameters"] = parameters;
    config["types"]["../x_Transformer"] = json!("sentence_transformers.models.Transformer");
    config["types"]["other_2_Dense"] = json!("sentence_transformers.models.Dense");
    config["types"]["other_1_Pooling"] = json!("sentence_transformers.models.Pooling");
    fs::write(&file, config.to_string()).unwrap();
    let pooling = directory.path().join("other_1_Pooling");
    fs::create_dir(&pooling).unwrap();
    fs::write(pooling.join("config.json"), json!({"pooling_mode": "cls"}).to_string()).unwrap();
    let dense = directory.path().join("other_2_Dense");
    copy_files(&directory.path().join("query_2_Dense"), &dense);
    let weights = dense.join("model.safetensors");
    let tensors = candle_core::safetensors::load(&weights, &candle_core::Device::Cpu).unwrap().into_iter();
    let opposite: HashMap<String, _> = tensors.map(|(name, tensor)| (name, tensor.neg().unwrap())).collect();
    candle_core::safetensors::save(&opposite, weights).unwrap();
    directory
}

/// The vectors of ids without a task, then with each task.
fn of_all_tasks(model: &mut LoadedModel, ids: &[u32]) -> Vec<Vec<f32>> {
    let tasks = model.backend.info().capabilities.embed.as_ref().unwrap().tasks.len();
    let sequences: Vec<Tokens> =
        (0..=tasks).map(|number| Tokens::new(ids.to_vec()).with_task(TaskId(number as u8))).collect();
    values(model, &sequences)
}

#[test]
fn an_encoder_that_routes_share_is_loaded_once() {
    let structure = json!({
        "query": ["query_0_Transformer", "query_1_Pooling", "query_2_Dense"],
        "document": ["query_0_Transformer", "query_1_Pooling", "other_2_Dense"],
    });
    let directory = with_structure(structure, json!({"default_route": "document"}));
    let mut model = load(&options(directory.path().to_owned()));
    assert!(model.backend.info().sub_models.len() == 1 && model.tokenizers.len() == 1);
    let expected = expected(&fixture("router-encoders-tiny"));
    for case in cases(&expected, "cases").iter().filter(|case| case["task"] == "query") {
        let of_task = |model: &mut LoadedModel, task: &Value| {
            let tokens = Tokens::new(ids(case)).with_task(number_of(model, &json!({"task": task})));
            normalized(&values(model, &[tokens])[0])
        };
        let query = floats(&case["normalized"]);
        let opposite: Vec<f32> = query.iter().map(|value| -value).collect();
        assert_close("query", &of_task(&mut model, &json!("query")), &query, 1e-4);
        assert_close("document", &of_task(&mut model, &json!("document")), &opposite, 1e-4);
        assert_close("the default route", &of_task(&mut model, &Value::Null), &opposite, 1e-4);
    }
}

/// Only Dense modules differ, also where the Transformer's own pooler replaces Pooling.
#[test]
fn routes_behind_a_pooler_are_of_one_part() {
    let file = |directory: &Path, name: &str, content: Value| {
        fs::write(directory.join(name), content.to_string()).unwrap();
    };
    let module = |path: &str, kind: &str| json!({"path": path, "type": format!("sentence_transformers.models.{kind}")});
    let with_modules = |behind: &[Value]| {
        let directory = tempfile::tempdir().unwrap();
        copy_files(&fixture("asym-tiny"), directory.path());
        let output = json!({"text": {"method": "forward", "method_output_name": "pooler_output"}});
        let sentence = json!({"modality_config": output, "module_output_name": "sentence_embedding"});
        file(directory.path(), "sentence_bert_config.json", sentence);
        let modules: Vec<Value> = [module("", "Transformer")].into_iter().chain(behind.iter().cloned()).collect();
        file(directory.path(), "modules.json", json!(modules));
        directory
    };
    let routed = with_modules(&[module("2_Asym", "Asym")]);
    let mut model = load(&options(routed.path().to_owned()));
    assert!(model.backend.info().sub_models.len() == 1 && model.tokenizers.len() == 1);
    let ids = ids(&cases(&expected(&fixture("asym-tiny")), "cases")[0]);
    let of_route = |id: &str| {
        let directory = with_modules(&[module(&format!("2_Asym/{id}_Dense"), "Dense")]);
        of_all_tasks(&mut load(&options(directory.path().to_owned())), &ids).remove(0)
    };
    let [query, doc] = ["140266138126480", "140266138126672"].map(of_route);
    assert_ne!(query, doc);
    assert_eq!(of_all_tasks(&mut model, &ids), [query.clone(), query, doc]);
    // One part may be pooled otherwise.
    let mean = LoadOptions { pooling: Some(Pooling::Mean), ..options(routed.path().to_owned()) };
    assert!(load(&mean).backend.info().sub_models.len() == 1);
}

#[test]
fn an_encoder_that_is_pooled_differently_has_its_weights_once() {
    let routes = [
        ("a", ["query_0_Transformer", "query_1_Pooling", "query_2_Dense"]),
        ("b", ["query_0_Transformer", "other_1_Pooling", "query_2_Dense"]),
    ];
    let both = with_structure(routes.map(|(name, modules)| (name, json!(modules))).into_iter().collect(), json!({}));
    let alone = routes.map(|(name, modules)| with_structure(json!({name: modules}), json!({})));
    let ids = ids(&cases(&expected(&fixture("router-encoders-tiny")), "cases")[0]);
    for dtype in [Dtype::Float32, Dtype::Int8] {
        let of =
            |directory: &TempDir| load(&LoadOptions { dtype: Some(dtype), ..options(directory.path().to_owned()) });
        let [a, b] = [&alone[0], &alone[1]].map(|directory| of_all_tasks(&mut of(directory), &ids).remove(0));
        assert_ne!(a, b);
        let mut model = of(&both);
        assert_eq!(of_all_tasks(&mut model, &ids), [a.clone(), a, b], "{dtype}");
        let info = model.backend.info();
        assert_eq!(info.sub_models.iter().count(), 2);
        let names = |info: &ModelInfo| -> Vec<String> {
            info.int8.iter().flat_map(|report| &report.errors).map(|(name, _)| name.clone()).collect()
        };
        let one = of(&alone[0]);
        assert_eq!(names(info).len(), names(one.backend.info()).len(), "{:?}", names(info));
    }
    let told = |directory: &TempDir| {
        let check = check_model(&options(directory.path().to_owned()));
        assert_eq!(check.verdict, Verdict::Runs);
        let model = check.model.unwrap();
        let (weights, batches): (Vec<_>, Vec<_>) =
            model.memory.iter().map(|it| ((it.dtype, it.weights_bytes), it.default_batch_bytes)).unzip();
        (model.parameters, weights, batches)
    };
    let ((parameters, weights, batches), of_one) = (told(&both), told(&alone[0]));
    assert_eq!((parameters, weights), (of_one.0, of_one.1));
    // Each sub-model has buffers of its own.
    assert!(batches.iter().zip(of_one.2).all(|(both, one)| *both == 2 * one));
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
        let tasks = info.capabilities.embed.iter().flat_map(|embed| &embed.tasks);
        let tasks: Vec<(String, usize)> = tasks.map(|it| (it.task.clone(), it.sub_model)).collect();
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
        (
            json!({"a": query, "b": ["document_0_Transformer"]}),
            json!({}),
            "modules.json: sentence_transformers.base.modules.normalize.Normalize as module 1 with the route \"b\"",
        ),
        (
            json!({"a": [query[0], query[1], "document_1_Pooling"], "b": document}),
            json!({}),
            "router_config.json: sentence_transformers.sentence_transformer.modules.pooling.Pooling as \
             `document_1_Pooling` of the route \"a\"",
        ),
        (
            json!({"a": &query[..2], "b": document}),
            json!({}),
            "router_config.json: routes whose vectors have different widths (\"a\" 16 values, \"b\" 24)",
        ),
        (
            json!({"a": query, "b": &query[..2]}),
            json!({}),
            "router_config.json: routes whose vectors have different widths (\"a\" 24 values, \"b\" 16)",
        ),
        (json!({"a": query, "b": document}), json!({"default_route": "c"}), "\"c\" is not among the routes"),
        (json!({"a": query, "b": document}), json!({"allow_empty_key": false}), "`default_route` null with"),
        (json!({"a": query, "b": document}), json!({"route_mappings": {"a": "b"}}), "with the key a"),
        (
            json!({"a": query, "b": document}),
            json!({"route_mappings": {"('a', 'text')": "c"}}),
            "`route_mappings` \"c\"",
        ),
        (json!({"a": query, "b": ["unknown"]}), json!({}), "router_config.json: `types.unknown` is missing"),
        (json!({}), json!({}), "router_config.json: `structure` has no routes"),
        (json!({"a": query, "b": ["../x_Transformer", "document_1_Pooling"]}), json!({}), "leaves the model's folder"),
    ];
    for (structure, parameters, words) in refused {
        let directory = with_structure(structure, parameters);
        let problem = refusal(directory.path(), None);
        assert!(problem.contains(words), "{words}: {problem}");
    }
    // Without modules behind the Router.
    let directory = with_structure(json!({"a": query, "b": ["document_0_Transformer"]}), json!({}));
    let module = json!([{"path": "", "type": "sentence_transformers.models.Router"}]);
    fs::write(directory.path().join("modules.json"), module.to_string()).unwrap();
    let problem = refusal(directory.path(), None);
    assert!(problem.contains("router_config.json: the route \"b\" has no Pooling"), "{problem}");
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
