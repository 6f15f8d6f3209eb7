//! Encoders against the values that Hugging Face transformers computed for them, and the same bits in any batch.
//!
//! Tolerances: `tests/fixtures/README.md`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::encoders::*;
use crate::support::*;
use candle_core::{DType, Device, Tensor};
use prefold_backends::{Dtype, LoadOptions};
use prefold_core::{Folding, OutputKind, Outputs, Pooling, Rerank, TaskId, Tokens, Values};
use prefold_kernels::ThreadPool;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;

#[test]
fn embeddings() {
    for name in EMBEDDERS.into_iter().chain(STATIC) {
        let expected = expected(&fixture(name));
        let cases: Vec<&Value> = cases(&expected, "cases").iter().collect();
        for (pool, key) in poolings(&expected) {
            let mut model = load(&LoadOptions { pooling: Some(pooling(pool)), ..options(fixture(name)) });
            assert_eq!(model.backend.folding(), Folding::Whole);
            check_cases(&mut model, &cases, |what, case, found| {
                let (raw, unit) = (floats(&case[key]), floats(&case[format!("{key}_normalized")]));
                assert_close(&format!("{name}, {pool}, {what}"), found, &raw, 1e-4 * norm(&raw).max(1.0));
                assert_close(&format!("{name}, {pool}, {what}, normalized"), &normalized(found), &unit, 1e-4);
            });
        }
        let model = load(&options(fixture(name)));
        let default = &model.backend.info().capabilities.embed.as_ref().unwrap().pooling;
        assert_eq!(*default, [pooling(expected["default"]["pooling"].as_str().unwrap())], "{name}");
    }
}

#[test]
fn token_states() {
    for name in EMBEDDERS.into_iter().chain(STATIC) {
        let expected = expected(&fixture(name));
        let mut model = load(&options(fixture(name)));
        let with_states = cases(&expected, "cases").iter().filter(|case| case["token_states"].is_array());
        for case in with_states {
            let outputs = forward(&mut model, &[tokens(case)], Outputs::TOKENS);
            let Values { data, dim } = outputs[0].get(OutputKind::Tokens).unwrap();
            let states = case["token_states"].as_array().unwrap();
            assert_eq!(data.len(), states.len() * dim);
            for (found, state) in data.chunks(*dim).zip(states) {
                let state = floats(state);
                assert_close(&format!("{name}, {}", case["name"]), found, &state, 1e-4 * norm(&state).max(1.0));
            }
        }
    }
}

#[test]
fn logits() {
    for name in CLASSIFIERS.into_iter() {
        let expected = expected(&fixture(name));
        let cases: Vec<&Value> = cases(&expected, "cases").iter().chain(cases(&expected, "pair_cases")).collect();
        let mut model = load(&options(fixture(name)));
        let is_reranker = expected["num_labels"] == 1;
        assert_eq!(model.backend.info().capabilities.rerank, is_reranker.then_some(Rerank::Pair), "{name}");
        check_cases(&mut model, &cases, |what, case, found| {
            for (&found, expected) in found.iter().zip(floats(&case["logits"])) {
                let tolerance = 1e-4 * expected.abs().max(1.0);
                assert_close(&format!("{name}, {what}"), &[found], &[expected], tolerance);
            }
        });
    }
}

#[test]
fn logits_of_tokens() {
    for name in TOKEN_CLASSIFIERS {
        let expected = expected(&fixture(name));
        let cases: Vec<&Value> = cases(&expected, "cases").iter().collect();
        let mut model = load(&options(fixture(name)));
        assert_eq!(model.backend.info().capabilities.classify_tokens.as_ref().unwrap().labels[1], "B-PER", "{name}");
        check_cases(&mut model, &cases, |what, case, found| {
            let logits: Vec<f32> = case["logits"].as_array().unwrap().iter().flat_map(floats).collect();
            assert_close(&format!("{name}, {what}"), found, &logits, 1e-4 * norm(&logits[..5]).max(1.0));
        });
    }
}

#[test]
fn tokenizers_and_their_templates() {
    for name in EMBEDDERS.into_iter().chain(STATIC).chain(CLASSIFIERS).chain(TOKEN_CLASSIFIERS) {
        let expected = expected(&fixture(name));
        let model = load(&options(fixture(name)));
        let cases = |key: &str| expected[key].as_array().cloned().unwrap_or_default();
        for case in cases("cases").iter().filter(|case| case["prompt_name"].is_null() && case["task"].is_null()) {
            let encoding = model.tokenizers.first().encode(case["text"].as_str().unwrap(), true).unwrap();
            assert_eq!(encoding.get_ids(), ids(case), "{name}, {}", case["name"]);
        }
        for case in cases("pair_ids").iter().chain(&cases("pair_cases")) {
            let [text, pair] = ["text", "text_pair"].map(|key| case[key].as_str().unwrap());
            let encoding = model.tokenizers.first().encode((text, pair), true).unwrap();
            assert_eq!(encoding.get_ids(), ids(case), "{name}, {}", case["name"]);
            if model.backend.info().limits().token_types > 1 {
                let found = Tokens::new(encoding.get_ids().to_vec());
                let found = found.with_token_types(encoding.get_type_ids().to_vec()).unwrap();
                assert_eq!(found, tokens(case), "{name}, {}", case["name"]);
            }
        }
    }
}

#[test]
fn bfloat16_and_int8_point_the_same_way() {
    // Rows of 32 random values lose more than published models, whose cosines are above 0.997.
    let types = [(Dtype::Bfloat16, 0.999), (Dtype::Int8, 0.985)];
    for (name, (dtype, least)) in EMBEDDERS.into_iter().chain(STATIC).flat_map(|name| types.map(|it| (name, it))) {
        let expected = expected(&fixture(name));
        let cases: Vec<&Value> = cases(&expected, "cases").iter().collect();
        let mut model = load(&LoadOptions { dtype: Some(dtype), ..options(fixture(name)) });
        let default = poolings(&expected).into_iter().find(|(pool, _)| expected["default"]["pooling"] == *pool);
        let key = default.map_or("last", |(_, key)| key);
        check_cases(&mut model, &cases, |what, case, found| {
            let unit = floats(&case[format!("{key}_normalized")]);
            let cosine: f32 = normalized(found).iter().zip(&unit).map(|(a, b)| a * b).sum();
            assert!(cosine >= least, "{name}, {dtype}, {what}: cosine {cosine}");
        });
    }
}

fn sequences() -> impl Strategy<Value = Vec<Tokens>> {
    let sequence = prop::collection::vec((0u32..400, 0u32..2), 1..200).prop_map(|tokens| {
        let (ids, types) = tokens.into_iter().unzip();
        Tokens::new(ids).with_token_types(types).unwrap()
    });
    prop::collection::vec(sequence, 1..8)
}

fn check_same_bits(name: &str, dtype: Dtype, pooling: Option<Pooling>) {
    let model = RefCell::new(load(&LoadOptions { dtype: Some(dtype), pooling, ..options(fixture(name)) }));
    let bits = |values: &[Vec<f32>]| -> Vec<Vec<u32>> {
        values.iter().map(|values| values.iter().map(|value| value.to_bits()).collect()).collect()
    };
    proptest!(ProptestConfig::with_cases(4), |(mut sequences in sequences(), rotation in 0usize..8)| {
        let model = &mut *model.borrow_mut();
        let info = model.backend.info();
        if info.limits().token_types < 2 {
            sequences.iter_mut().for_each(|tokens| *tokens = Tokens::new(tokens.input_ids().to_vec()));
        }
        let vocab_size = info.sub_models.iter().map(|part| part.vocab_size as u32).min().unwrap();
        let longest = info.sub_models.iter().map(|part| part.max_input_length).min().unwrap();
        if info.sub_models.len() > 1 {
            let ids = |tokens: &Tokens| tokens.input_ids().iter().take(longest).map(|id| id % vocab_size).collect();
            sequences.iter_mut().for_each(|tokens| *tokens = Tokens::new(ids(tokens)));
        }
        // Of different adapters and of none, in the same batch.
        let tasks = model.backend.info().capabilities.embed.as_ref().map_or(0, |embed| embed.tasks.len());
        for tokens in &mut sequences {
            let adapter = TaskId((tokens.len() % (tasks + 1)) as u8);
            *tokens = std::mem::take(tokens).with_task(adapter);
        }
        let mut alone: Vec<_> =
            sequences.iter().map(|one| bits(&values(model, std::slice::from_ref(one))).remove(0)).collect();
        for threads in [1, 3] {
            let len = sequences.len();
            sequences.rotate_left(rotation % len);
            alone.rotate_left(rotation % len);
            let found = ThreadPool::new(threads).enter(|| values(model, &sequences));
            prop_assert_eq!(&bits(&found), &alone, "{} {:?} {:?} {} threads", name, dtype, pooling, threads);
        }
    });
}

#[test]
fn same_bits_in_any_batch() {
    for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Int8] {
        for pooling in [Pooling::Cls, Pooling::Mean, Pooling::LastToken, Pooling::Max, Pooling::WeightedMean] {
            ["bert-mean-tiny", "roberta-tiny", "mpnet-tiny", "distilbert-tiny", "electra-tiny"]
                .into_iter()
                .for_each(|name| check_same_bits(name, dtype, Some(pooling)));
        }
        EMBEDDERS[8..]
            .iter()
            .chain(&STATIC)
            .chain(&CLASSIFIERS)
            .chain(&TOKEN_CLASSIFIERS)
            .chain(&ROUTED[..2])
            .for_each(|name| check_same_bits(name, dtype, None));
    }
}

#[test]
fn tensors_that_do_not_fit_the_config_are_named() {
    let cases = [
        ("bert-mean-tiny", "intermediate_size", 63, "intermediate.dense.weight"),
        ("bert-mean-tiny", "max_position_embeddings", 289, "position_embeddings.weight"),
        ("mpnet-tiny", "max_position_embeddings", 1 << 30, "position_embeddings.weight"),
        ("bert-mean-tiny", "type_vocab_size", 3, "token_type_embeddings.weight"),
        ("mpnet-tiny", "relative_attention_num_buckets", 48, "relative_attention_bias.weight"),
    ];
    for (name, field, value, tensor) in cases {
        let config = std::fs::read(fixture(name).join("config.json")).unwrap();
        let mut config: Value = serde_json::from_slice(&config).unwrap();
        config[field] = value.into();
        let directory = with_file(name, "config.json", &config);
        let error = prefold_backends::load(&options(directory.path().to_owned())).err().unwrap().to_string();
        assert!(error.contains(tensor), "{error}");
    }
}

#[test]
fn nomic_from_gguf_is_the_same_model() {
    let sequences: Vec<Tokens> =
        [3, 40, 150].map(|len| Tokens::from((0..len).map(|i| 10 + i * 7 % 400).collect::<Vec<u32>>())).into();
    let mut converted = load(&options(fixture("nomic-gguf-tiny/model.gguf")));
    let mut published = load(&options(fixture("nomic-tiny")));
    assert_eq!(values(&mut converted, &sequences), values(&mut published, &sequences));
    let text = "How do I lock a file?";
    let ids =
        |model: &prefold_core::LoadedModel| model.tokenizers.first().encode(text, true).unwrap().get_ids().to_vec();
    assert_eq!(ids(&converted), ids(&published));
    assert_eq!(converted.backend.info().capabilities.max_input_length, 2048);
}

#[test]
fn a_batch_of_several_parts_is_answered_in_its_order() {
    let mut model = load(&options(fixture("bert-mean-tiny")));
    // Several times the 512 rows of a part, and lengths that no part ends at.
    let sequences: Vec<Tokens> =
        (0..120).map(|i| Tokens::from((0..20 + i % 30).map(|j| 5 + (i * j) % 50).collect::<Vec<u32>>())).collect();
    let together = values(&mut model, &sequences);
    for (index, sequence) in sequences.iter().enumerate().step_by(7) {
        assert_eq!(together[index], values(&mut model, std::slice::from_ref(sequence))[0], "sequence {index}");
    }
}

/// A copy of a checkpoint, one of whose files is another.
fn with_file(name: &str, file: &str, content: &Value) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy_files(&fixture(name), directory.path());
    std::fs::write(directory.path().join(file), content.to_string()).unwrap();
    directory
}

#[test]
fn several_poolings_are_joined_in_the_order_of_sentence_transformers() {
    let modes = json!({"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true,
        "pooling_mode_cls_token": true});
    let listed = json!({"pooling_mode": ["lasttoken", "mean_sqrt_len_tokens", "cls"]});
    let ordered = [Pooling::Cls, Pooling::Max, Pooling::Mean, Pooling::LastToken];
    // A list keeps its order, flags have none.
    let as_listed = [Pooling::LastToken, Pooling::MeanSqrtLen, Pooling::Cls];
    let unset = json!({"pooling_mode_cls_token": false});
    for (config, expected) in [(modes, &ordered[..]), (listed, &as_listed), (unset, &[Pooling::Mean])] {
        let directory = with_file("bert-mean-tiny", "1_Pooling/config.json", &config);
        let mut joined = load(&options(directory.path().to_owned()));
        let embed = joined.backend.info().capabilities.embed.clone().unwrap();
        assert_eq!((embed.pooling.as_slice(), embed.dim), (expected, 32 * expected.len()));
        let sequences: Vec<Tokens> = [vec![5], vec![7, 8, 9], vec![7, 8, 10, 11]].map(Tokens::from).into();
        let mut parts = vec![Vec::new(); sequences.len()];
        for &pooling in expected {
            let options = LoadOptions { pooling: Some(pooling), ..options(fixture("bert-mean-tiny")) };
            let states = values(&mut load(&options), &sequences);
            parts.iter_mut().zip(states).for_each(|(part, state)| part.extend(state));
        }
        assert_eq!(values(&mut joined, &sequences), parts, "{config}");
    }
}

#[test]
fn the_pooler_is_the_embedding_where_sentence_transformers_takes_it() {
    let with_pooler = |name: &str, module_output: &str| {
        let output = json!({"text": {"method": "forward", "method_output_name": "pooler_output"}});
        let sentence = json!({"modality_config": output, "module_output_name": module_output});
        let directory = with_file(name, "sentence_bert_config.json", &sentence);
        let module =
            |path: &str, kind: &str| json!({"path": path, "type": format!("sentence_transformers.base.{kind}")});
        let modules = json!([module("", "Transformer"), module("1_Normalize", "Normalize")]);
        std::fs::write(directory.path().join("modules.json"), modules.to_string()).unwrap();
        directory
    };
    let directory = with_pooler("bert-mean-tiny", "sentence_embedding");
    let mut model = load(&options(directory.path().to_owned()));
    let tokens = |text: &str| Tokens::new(model.tokenizers.first().encode(text, true).unwrap().get_ids().to_vec());
    // By sentence-transformers 6.2.0 from these files.
    let expected = [
        ("How do I lock a file?", [-0.1662336, 0.1013091, 0.00881746, -0.17913558, -0.08236413, 0.01324681]),
        ("x", [-0.03511684, -0.0853671, -0.03418885, -0.06745456, -0.08392954, 0.24698403]),
    ];
    let sequences = expected.map(|(text, _)| tokens(text));
    for (found, (text, unit)) in values(&mut model, &sequences).iter().zip(expected) {
        assert_close(text, &normalized(found)[..unit.len()], &unit, 1e-4);
    }
    let overruled = LoadOptions { pooling: Some(Pooling::Mean), ..options(directory.path().to_owned()) };
    let mean = LoadOptions { pooling: Some(Pooling::Mean), ..options(fixture("bert-mean-tiny")) };
    assert_eq!(values(&mut load(&overruled), &sequences), values(&mut load(&mean), &sequences));
    for (name, output, problem) in [
        ("distilbert-tiny", "sentence_embedding", "of distilbert, which has no pooler"),
        ("bert-mean-tiny", "token_embeddings", "`module_output_name`"),
        // A file without the pooler's tensors.
        ("roberta-tiny", "sentence_embedding", "pooler.dense.weight"),
    ] {
        let directory = with_pooler(name, output);
        let error = prefold_backends::load(&options(directory.path().to_owned())).err().unwrap().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn a_router_sends_texts_through_the_modules_of_their_task() {
    let module = |path: &str, kind: &str| json!({"path": path, "type": format!("sentence_transformers.models.{kind}")});
    let with_router = |document: &str| {
        let modules = json!([
            module("", "Transformer"),
            module("1_Pooling", "Pooling"),
            module("2_Router", "Router"),
            module("3_Normalize", "Normalize")
        ]);
        let directory = with_file("embeddinggemma-tiny", "modules.json", &modules);
        let types = json!({
            "query_0_Dense": "sentence_transformers.models.Dense.Dense",
            "query_1_Dense": "sentence_transformers.models.Dense.Dense",
            "document_0": document,
        });
        let structure = json!({"query": ["query_0_Dense", "query_1_Dense"], "document": ["document_0"]});
        let router = json!({"types": types, "structure": structure,
            "parameters": {"default_route": "document", "allow_empty_key": true}});
        for (from, to) in [("2_Dense", "query_0_Dense"), ("3_Dense", "query_1_Dense")] {
            copy_files(&directory.path().join(from), &directory.path().join("2_Router").join(to));
        }
        std::fs::write(directory.path().join("2_Router/router_config.json"), router.to_string()).unwrap();
        directory
    };
    let directory = with_router("sentence_transformers.models.Normalize.Normalize");
    let mut model = load(&options(directory.path().to_owned()));
    let embed = model.backend.info().capabilities.embed.clone().unwrap();
    let tasks: Vec<(&str, &str)> = embed.tasks.iter().map(|it| (it.task.as_str(), it.instruction.as_str())).collect();
    let prompts = &embed.prompts.by_name;
    assert_eq!(tasks, [("document", prompts["document"].as_str()), ("query", prompts["query"].as_str())]);
    assert_eq!(embed.dim, 32);

    let plain = |ids: &[u32]| Tokens::new(ids.to_vec());
    let texts = [plain(&[2, 7, 9]), plain(&[2, 11]), plain(&[2, 7, 9]), plain(&[2, 5, 5, 8])];
    let asked = [0, 2, 1, 2].map(TaskId);
    let sequences: Vec<Tokens> = texts.clone().into_iter().zip(asked).map(|(it, task)| it.with_task(task)).collect();
    let found = values(&mut model, &sequences);
    let query = values(&mut load(&options(fixture("embeddinggemma-tiny"))), &texts);
    let without =
        json!([module("", "Transformer"), module("1_Pooling", "Pooling"), module("2_Normalize", "Normalize")]);
    let without = with_file("embeddinggemma-tiny", "modules.json", &without);
    let document = values(&mut load(&options(without.path().to_owned())), &texts);
    for (index, expected) in [&document, &query, &document, &query].into_iter().enumerate() {
        assert_eq!(found[index], expected[index], "text {index}");
        assert_eq!(
            values(&mut model, std::slice::from_ref(&sequences[index]))[0],
            expected[index],
            "text {index} alone"
        );
    }
    let directory = with_router("sentence_transformers.models.StaticEmbedding.StaticEmbedding");
    let error = prefold_backends::load(&options(directory.path().to_owned())).err().unwrap().to_string();
    assert!(error.contains("StaticEmbedding as `document_0` of the route \"document\""), "{error}");
}

/// ModernBERT's head computed plainly, with activations that its config may name, and with a bias in its norm.
#[test]
fn a_head_has_the_activation_and_the_bias_that_its_config_names() {
    const NAME: &str = "modernbert-reranker-tiny";
    let silu: fn(f64) -> f64 = |x| x / (1.0 + (-x).exp());
    let relu: fn(f64) -> f64 = |x| x.max(0.0);
    let text = Tokens::new(vec![2, 7, 31, 5, 9, 3]);
    for (name, activation, has_bias) in [("silu", silu, false), ("relu", relu, true)] {
        let mut weights =
            candle_core::safetensors::load(fixture(NAME).join("model.safetensors"), &Device::Cpu).unwrap();
        let config = std::fs::read(fixture(NAME).join("config.json")).unwrap();
        let mut config: Value = serde_json::from_slice(&config).unwrap();
        assert_eq!(config["classifier_pooling"], "mean");
        config["classifier_activation"] = name.into();
        config["norm_bias"] = has_bias.into();
        let directory = with_file(NAME, "config.json", &config);
        if has_bias {
            let norms: Vec<String> = weights.keys().filter(|name| name.ends_with("norm.weight")).cloned().collect();
            for norm in norms {
                let bias = weights[&norm].affine(0.5, 0.1).unwrap();
                weights.insert(norm.replace(".weight", ".bias"), bias);
            }
            candle_core::safetensors::save(&weights, directory.path().join("model.safetensors")).unwrap();
        }
        let mut model = load(&options(directory.path().to_owned()));
        let states = forward(&mut model, std::slice::from_ref(&text), Outputs::TOKENS);
        let Values { data, dim } = states[0].get(OutputKind::Tokens).unwrap();
        let mean = |column| data.iter().skip(column).step_by(*dim).map(|&x| f64::from(x)).sum::<f64>();
        let pooled: Vec<f64> = (0..*dim).map(|column| mean(column) / text.len() as f64).collect();
        let expected = modernbert_head(&weights, &pooled, activation);
        assert_close(name, &values(&mut model, std::slice::from_ref(&text))[0], &[expected as f32], 1e-4);
    }
}

/// The logit of a pooled state.
fn modernbert_head(weights: &HashMap<String, Tensor>, pooled: &[f64], activation: fn(f64) -> f64) -> f64 {
    let weight = |name: &str| weights[name].to_dtype(DType::F64).unwrap();
    let vector = |name: &str| weight(name).to_vec1::<f64>().unwrap();
    let product = |name: &str, x: &[f64]| -> Vec<f64> {
        let rows = weight(name).to_vec2::<f64>().unwrap();
        rows.iter().map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
    };
    let x: Vec<f64> = product("head.dense.weight", pooled).into_iter().map(activation).collect();
    let middle = x.iter().sum::<f64>() / x.len() as f64;
    let deviation = (x.iter().map(|x| (x - middle).powi(2)).sum::<f64>() / x.len() as f64 + 1e-5).sqrt();
    let scaled = x.iter().zip(vector("head.norm.weight")).map(|(x, weight)| weight * (x - middle) / deviation);
    let bias = if weights.contains_key("head.norm.bias") { vector("head.norm.bias") } else { vec![0.0; x.len()] };
    let normed: Vec<f64> = scaled.zip(bias).map(|(x, bias)| x + bias).collect();
    product("classifier.weight", &normed)[0] + vector("classifier.bias")[0]
}

/// all-MiniLM-L6-v2. `PREFOLD_MINILM` names its directory (scripts/fetch-minilm.sh); without it, the test is skipped.
#[test]
fn minilm() {
    let Some(path) = std::env::var_os("PREFOLD_MINILM") else {
        eprintln!("skipped: PREFOLD_MINILM is not set");
        return;
    };
    let expected = expected(&fixture("all-minilm-l6-v2"));
    let cases: Vec<&Value> = cases(&expected, "cases").iter().collect();
    for (dtype, least) in [(Dtype::Float32, 0.9999), (Dtype::Bfloat16, 0.9999), (Dtype::Int8, 0.995)] {
        let mut model = load(&LoadOptions { dtype: Some(dtype), ..options(path.clone().into()) });
        check_cases(&mut model, &cases, |what, case, found| {
            let unit = floats(&case["mean_normalized"]);
            let cosine: f32 = normalized(found).iter().zip(&unit).map(|(a, b)| a * b).sum();
            assert!(cosine >= least, "{what}, {dtype}: cosine {cosine}");
            if dtype == Dtype::Float32 {
                let l2 = case["mean_l2"].as_f64().unwrap() as f32;
                assert_close(what, &[norm(found)], &[l2], 1e-4 * l2);
                assert_close(what, &normalized(found), &unit, 1e-4);
            }
        });
    }
}
