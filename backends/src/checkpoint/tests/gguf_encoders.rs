//! Encoders in GGUF files, made from the reference checkpoints the way llama.cpp's converter makes them.

use super::gguf::{Gguf, quantized};
use super::{TEXTS, check_same_tokens, fixture, open, options, read_json, read_tensors};
use crate::checkpoint::HeadSource;
use crate::formats::Weights;
use crate::load;
use crate::options::{DeviceChoice, LoadOptions, ModelSource};
use candle_core::Device;
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use prefold_core::{Batch, LoadedModel, ModelInfo, Output, OutputKind, Outputs, Pooling, RaggedBatch, Tokens};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn number(json: &Json) -> Value {
    Value::U32(json.as_u64().unwrap() as u32)
}

/// A list of the tokenizer's metadata.
pub(super) fn list<'a>(gguf: &'a mut Gguf, key: &str) -> &'a mut Vec<Value> {
    match gguf.metadata.get_mut(&format!("tokenizer.ggml.{key}")) {
        Some(Value::Array(list)) => list,
        other => panic!("{key}: {other:?}"),
    }
}

/// Converts a reference checkpoint.
pub(super) fn converted(name: &str) -> Gguf {
    let mut gguf = Gguf { metadata: BTreeMap::new(), tensors: BTreeMap::new() };
    let config = read_json(&fixture(name).join("config.json"));
    // RoBERTa's table begins after the row of the padding token.
    let first_position = match config["model_type"].as_str().unwrap() {
        "roberta" | "xlm-roberta" => config["pad_token_id"].as_u64().unwrap() + 1,
        _ => 0,
    };
    let positions = config["max_position_embeddings"].as_u64().unwrap() - first_position;
    gguf.set("general.architecture", string("bert"));
    gguf.set("bert.context_length", Value::U32(positions as u32));
    for (key, fields) in [
        ("block_count", ["num_hidden_layers", "n_layers"]),
        ("embedding_length", ["hidden_size", "dim"]),
        ("feed_forward_length", ["intermediate_size", "hidden_dim"]),
        ("attention.head_count", ["num_attention_heads", "n_heads"]),
    ] {
        let value = fields.into_iter().find_map(|field| config.get(field)).unwrap();
        gguf.set(format!("bert.{key}"), number(value));
    }
    let eps = config["layer_norm_eps"].as_f64().unwrap_or(1e-12);
    gguf.set("bert.attention.layer_norm_epsilon", Value::F32(eps as f32));
    gguf.set("bert.attention.causal", Value::Bool(false));
    let pooling = read_json(&fixture(name).join("expected.json"))["default"]["pooling"].clone();
    let pooling = match pooling.as_str() {
        Some("mean") => 1,
        Some("cls") => 2,
        _ => 4,
    };
    gguf.set("bert.pooling_type", Value::U32(pooling));
    if let Some(labels) = config["id2label"].as_object() {
        let labels = labels.values().map(|label| string(label.as_str().unwrap()));
        gguf.set("bert.classifier.output_labels", Value::Array(labels.collect()));
    }
    add_tokenizer(&mut gguf, &read_json(&fixture(name).join("tokenizer.json")));
    add_tensors(&mut gguf, name, first_position as usize);
    gguf
}

/// A tokenizer's metadata, by its kind.
pub(super) fn add_tokenizer(gguf: &mut Gguf, tokenizer: &Json) {
    let model = &tokenizer["model"];
    let text = |json: &Json| json.as_str().unwrap().to_owned();
    let mut tokens: BTreeMap<u64, (String, f64)> = match &model["vocab"] {
        Json::Array(list) => {
            let entries = list.iter().map(|entry| (text(&entry[0]), entry[1].as_f64().unwrap()));
            (0..).zip(entries).collect()
        }
        vocab => {
            let entries = vocab.as_object().unwrap().iter();
            entries.map(|(piece, id)| (id.as_u64().unwrap(), (piece.clone(), 0.0))).collect()
        }
    };
    let added: BTreeMap<u64, &str> = tokenizer["added_tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| (token["id"].as_u64().unwrap(), token["content"].as_str().unwrap()))
        .collect();
    for (&id, &content) in &added {
        tokens.insert(id, (content.to_owned(), 0.0));
    }
    let kind = match model["type"].as_str().unwrap() {
        "WordPiece" => {
            // The mark of a word's beginning instead of its continuation's.
            for (_, (piece, _)) in tokens.iter_mut().filter(|(id, _)| !added.contains_key(id)) {
                *piece = piece.strip_prefix("##").map_or_else(|| format!("\u{2581}{piece}"), str::to_owned);
            }
            "bert"
        }
        "Unigram" => {
            let scores = tokens.values().map(|(_, score)| Value::F32(*score as f32));
            gguf.set("tokenizer.ggml.scores", Value::Array(scores.collect()));
            gguf.set("tokenizer.ggml.add_space_prefix", Value::Bool(true));
            gguf.set("tokenizer.ggml.remove_extra_whitespaces", Value::Bool(true));
            "t5"
        }
        _ => {
            let merges = model["merges"].as_array().unwrap().iter().map(|pair| match pair {
                Json::String(pair) => string(pair),
                pair => string(&format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap())),
            });
            gguf.set("tokenizer.ggml.merges", Value::Array(merges.collect()));
            gguf.set("tokenizer.ggml.pre", string("roberta-bpe"));
            "gpt2"
        }
    };
    gguf.set("tokenizer.ggml.model", string(kind));
    for (key, names) in [
        ("bos", ["[CLS]", "<s>"]),
        ("eos", ["[SEP]", "</s>"]),
        ("seperator", ["[SEP]", "</s>"]),
        ("unknown", ["[UNK]", "<unk>"]),
        ("mask", ["[MASK]", "<mask>"]),
    ] {
        let id = added.iter().find(|(_, content)| names.contains(content)).map(|(&id, _)| id as u32);
        id.into_iter().for_each(|id| gguf.set(format!("tokenizer.ggml.{key}_token_id"), Value::U32(id)));
    }
    let kinds = tokens.keys().map(|id| Value::I32(if added.contains_key(id) { 3 } else { 1 }));
    gguf.set("tokenizer.ggml.token_type", Value::Array(kinds.collect()));
    let texts = tokens.into_values().map(|(text, _)| Value::String(text));
    gguf.set("tokenizer.ggml.tokens", Value::Array(texts.collect()));
}

/// Parts of names from the first to the last.
const PARTS: [(&str, &str); 33] = [
    ("roberta.", ""),
    ("distilbert.", ""),
    ("bert.", ""),
    ("embeddings.word_embeddings", "token_embd"),
    ("embeddings.position_embeddings", "position_embd"),
    ("embeddings.token_type_embeddings", "token_types"),
    ("embeddings.LayerNorm", "token_embd_norm"),
    ("encoder.layer.", "blk."),
    ("transformer.layer.", "blk."),
    ("attention.self.query", "attn_q"),
    ("attention.self.key", "attn_k"),
    ("attention.self.value", "attn_v"),
    ("attention.output.dense", "attn_output"),
    ("attention.output.LayerNorm", "attn_output_norm"),
    ("attention.q_lin", "attn_q"),
    ("attention.k_lin", "attn_k"),
    ("attention.v_lin", "attn_v"),
    ("attention.out_lin", "attn_output"),
    ("sa_layer_norm", "attn_output_norm"),
    ("intermediate.dense", "ffn_up"),
    (".output.dense", ".ffn_down"),
    (".output.LayerNorm", ".layer_output_norm"),
    ("ffn.lin1", "ffn_up"),
    ("ffn.lin2", "ffn_down"),
    (".output_layer_norm", ".layer_output_norm"),
    ("classifier.dense", "cls"),
    ("classifier.out_proj", "cls.output"),
    ("pre_classifier", "cls"),
    ("classifier.weight", "cls.output.weight"),
    ("classifier.bias", "cls.output.bias"),
    ("gamma", "weight"),
    ("beta", "bias"),
    ("LayerNorm", "norm"),
];

fn add_tensors(gguf: &mut Gguf, name: &str, first_position: usize) {
    for (tensor, stored) in read_tensors(&fixture(name).join("model.safetensors")) {
        let left_out = ["pooler", "lm_head", "cls.", "vocab_", "position_ids"];
        if left_out.iter().any(|part| tensor.contains(part)) {
            continue;
        }
        let (mut values, mut shape) = (stored.values(), stored.shape);
        let new = PARTS.iter().fold(tensor, |name, (from, to)| name.replace(from, to));
        if new == "position_embd.weight" {
            values.drain(..first_position * shape[1]);
            shape[0] -= first_position;
        }
        gguf.tensors.insert(new, quantized(&values, &shape, GgmlDType::F32));
    }
}

pub(super) fn loaded(path: &Path) -> LoadedModel {
    let source = ModelSource::Path(path.to_owned());
    load(&LoadOptions { device: Some(DeviceChoice::Cpu), ..options(source) }).unwrap()
}

/// Answers to all texts, and to all as the second text of a pair.
pub(super) fn answers(model: &mut LoadedModel) -> Vec<Output> {
    let mut ragged = RaggedBatch::default();
    let info = model.backend.info().clone();
    let mut push = |encoding: tokenizers::Encoding| {
        let types =
            if info.limits().token_types > 1 { encoding.get_type_ids().to_vec() } else { vec![0; encoding.len()] };
        let tokens = Tokens::new(encoding.get_ids().to_vec()).with_token_types(types).unwrap();
        ragged.push(tokens.as_slice()).unwrap();
    };
    for text in TEXTS {
        push(model.tokenizers.first().encode(text, true).unwrap());
        push(model.tokenizers.first().encode(("the river", text), true).unwrap());
    }
    let wanted = vec![Outputs::of_head(&info.capabilities); ragged.num_sequences()];
    model.backend.forward(&Batch { ragged, wanted }, None).unwrap()
}

#[test]
fn a_converted_encoder_is_the_same_model_bit_for_bit() {
    for name in [
        "bert-mean-tiny",
        "bert-legacy-tiny",
        "roberta-tiny",
        "xlm-roberta-tiny",
        "distilbert-tiny",
        "xlm-roberta-reranker-tiny",
        "distilbert-nli-tiny",
    ] {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("model.gguf");
        converted(name).write(&path);
        let (mut found, mut original) = (loaded(&path), loaded(&fixture(name)));
        // NFKC of the fixtures has no map of characters in the file.
        if !name.starts_with("xlm") {
            check_same_tokens(found.tokenizers.first(), original.tokenizers.first(), name);
        }
        let [found_info, info] = [&found, &original].map(|model| model.backend.info().clone());
        assert_eq!(found_info.limits().token_types, info.limits().token_types, "{name}");
        assert_eq!(found_info.capabilities.max_input_length, info.capabilities.max_input_length, "{name}");
        assert_eq!(found_info.capabilities.rerank, info.capabilities.rerank, "{name}");
        // The file does not say that labels do not exclude each other.
        let labels = |info: &ModelInfo| info.capabilities.classify.clone().map(|classify| classify.labels);
        assert_eq!(labels(&found_info), labels(&info), "{name}");
        original.tokenizers = found.tokenizers.clone();
        assert_eq!(answers(&mut found), answers(&mut original), "{name}");
    }
}

/// The file of [`tests/fixtures/encoders/make_gguf.py`], by the library of llama.cpp, in Q8_0.
#[test]
fn the_library_of_llama_cpp_writes_the_same_model() {
    let path = fixture("bert-gguf-tiny").join("model.gguf");
    let (mut found, mut original) = (loaded(&path), loaded(&fixture("bert-mean-tiny")));
    check_same_tokens(found.tokenizers.first(), original.tokenizers.first(), "bert-gguf-tiny");
    let embed = found.backend.info().capabilities.embed.clone().unwrap();
    assert_eq!((embed.pooling, embed.dim), (vec![Pooling::Mean], 32));
    for (found, original) in answers(&mut found).iter().zip(answers(&mut original)) {
        let [found, original] = [found, &original].map(|output| &output.get(OutputKind::Embedding).unwrap().data);
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let cosine = dot(found, original) / (dot(found, found) * dot(original, original)).sqrt();
        assert!(cosine > 0.999, "cosine {cosine}");
        assert_ne!(found, original, "the file has rounded weights");
    }
}

#[test]
fn unigram_pieces_and_the_map_of_characters() {
    let mut gguf = converted("xlm-roberta-tiny");
    let original = open(fixture("xlm-roberta-tiny")).unwrap().tokenizer;
    let cases = read_json(&fixture("xlm-roberta-tiny").join("expected.json"))["cases"].clone();
    let texts: Vec<&str> = cases.as_array().unwrap().iter().map(|case| case["text"].as_str().unwrap()).collect();
    let plain: Vec<&str> = texts.iter().copied().filter(|text| text.is_ascii()).collect();
    assert!(plain.len() > 4, "{texts:?}");
    let ids = |tokenizer: &tokenizers::Tokenizer, text: &str| tokenizer.encode(text, true).unwrap().get_ids().to_vec();
    let found = gguf.open().unwrap().tokenizer;
    for text in plain.iter().chain(&["  two  spaces ", "<mask> a <mask>", "a\tb", ""]) {
        assert_eq!(ids(&found, text), ids(&original, text), "{text:?}");
        let pair = |tokenizer: &tokenizers::Tokenizer| tokenizer.encode((*text, "b"), true).unwrap().get_ids().to_vec();
        assert_eq!(pair(&found), pair(&original), "{text:?}");
    }
    // An unknown letter costs 10 more than the worst piece: less than the three pieces that would avoid it.
    let pieces = [("\u{3b1}", -12.0), ("\u{3b2}\u{1f98a}\u{3b3}", -12.0), ("\u{3b4}", -12.0), ("\u{3b1}\u{3b2}", -1.0)];
    for (index, (piece, score)) in (300..).zip(pieces.into_iter().chain([("\u{3b3}\u{3b4}", -1.0)])) {
        list(&mut gguf, "tokens")[index] = string(piece);
        list(&mut gguf, "scores")[index] = Value::F32(score);
    }
    let letters = "\u{3b1}\u{3b2}\u{1f98a}\u{3b3}\u{3b4}";
    let expected = ids(&gguf.open().unwrap().tokenizer, letters);
    assert!(expected.contains(&3), "{expected:?}");
    // A number without a token, with the score that converters give it, changes nothing.
    list(&mut gguf, "scores").push(Value::F32(-10_000.0));
    list(&mut gguf, "tokens").push(string("[PAD445]"));
    list(&mut gguf, "token_type").push(Value::I32(5));
    let rows = quantized(&vec![0.0; 446 * 32], &[446, 32], GgmlDType::F32);
    gguf.tensors.insert("token_embd.weight".to_owned(), rows);
    let map = charsmap().into_iter().map(Value::U8).collect();
    gguf.set("tokenizer.ggml.precompiled_charsmap", Value::Array(map));
    let found = gguf.open().unwrap().tokenizer;
    assert_eq!(ids(&found, letters), expected);
    assert_eq!(ids(&found, "the \u{ff54}rain \u{1f98a}x"), ids(&original, "the train \u{1f98a}x"));
}

/// SentencePiece's map of characters with one rule: U+FF54 becomes "t". Of the 256 units of its trie, five are in use.
fn charsmap() -> Vec<u8> {
    const USED: [u32; 5] = [0x3b800, 0x2f8ef, 0x254bd, 0x1d94, 0x8000_0000];
    let units = USED.into_iter().chain((5..256).map(|unit| unit ^ 1));
    let trie = [1024].into_iter().chain(units).flat_map(u32::to_le_bytes);
    trie.chain(*b"t\0").collect()
}

#[test]
fn single_rows_may_be_vectors_and_the_shorter_limit_holds() {
    let mut gguf = converted("xlm-roberta-reranker-tiny");
    gguf.set("bert.context_length", Value::U32(100));
    let whole = gguf.open().unwrap();
    assert_eq!(whole.capabilities.max_input_length, 100);
    for name in ["token_types.weight", "cls.output.weight"] {
        let values = gguf.tensors[name].dequantize(&Device::Cpu).unwrap().flatten_all().unwrap();
        let values: Vec<f32> = values.to_vec1().unwrap();
        assert_eq!(values.len(), 32, "{name}");
        gguf.tensors.insert(name.to_owned(), quantized(&values, &[32], GgmlDType::F32));
    }
    let found = gguf.open().unwrap();
    assert_eq!(found.head, HeadSource::Classifier { num_labels: 1 });
    for name in ["roberta.embeddings.token_type_embeddings.weight", "classifier.out_proj.weight"] {
        let read = |weights: &Weights| weights.read::<f32>(name, &[1, 32]).unwrap();
        assert_eq!(read(&found.weights), read(&whole.weights));
    }
}

#[test]
fn labels_without_names_have_a_limit() {
    let mut gguf = converted("xlm-roberta-reranker-tiny");
    gguf.metadata.retain(|key, _| !key.contains("label"));
    let rows = |count: usize| quantized(&vec![0.0; 32 * count], &[count, 32], GgmlDType::F32);
    gguf.tensors.insert("cls.output.weight".to_owned(), rows((1 << 16) + 1));
    let message = gguf.open().unwrap_err();
    assert!(message.contains("`cls.output.weight` has 65537 rows, the limit is 65536"), "{message}");
    let key = "bert.classifier.output_labels";
    gguf.set(key, Value::Array(vec![string("x"); (1 << 16) + 1]));
    let message = gguf.open().unwrap_err();
    assert!(message.contains("has a classifier with 65537 labels, it must have from 1 to 65536"), "{message}");
    gguf.tensors.insert("cls.output.weight".to_owned(), rows(1));
    gguf.set(key, Value::Array(vec![string(&"x".repeat(257))]));
    let message = gguf.open().unwrap_err();
    assert!(message.contains("has a label of 257 bytes, the limit is 256"), "{message}");
}

#[test]
fn vocabularies_and_added_tokens_have_limits() {
    let refused = |name: &str, fill: &dyn Fn(&mut Gguf)| {
        let mut gguf = converted(name);
        fill(&mut gguf);
        gguf.open().unwrap_err()
    };
    let message = refused("xlm-roberta-tiny", &|gguf| list(gguf, "tokens")[20] = string(&"x".repeat(257)));
    assert!(message.contains("the vocabulary has a token with the id 20 of 257 bytes, the limit is 256"), "{message}");
    let message = refused("bert-mean-tiny", &|gguf| list(gguf, "tokens")[20] = string(&"x".repeat(2049)));
    assert!(message.contains("the vocabulary has a token with the id 20 of"), "{message}");
    let message = refused("xlm-roberta-tiny", &|gguf| {
        gguf.set("tokenizer.ggml.precompiled_charsmap", Value::Array(vec![Value::U8(9); 8]));
    });
    assert!(message.contains("`tokenizer.ggml.precompiled_charsmap` is cut"), "{message}");
    // Control tokens are added.
    for name in ["bert-mean-tiny", "xlm-roberta-tiny"] {
        let message = refused(name, &|gguf| {
            let count = list(gguf, "tokens").len();
            for id in count..count + 100_001 {
                list(gguf, "tokens").push(string(&format!("<{id}>")));
                list(gguf, "token_type").push(Value::I32(3));
                if let Some(Value::Array(scores)) = gguf.metadata.get_mut("tokenizer.ggml.scores") {
                    scores.push(Value::F32(0.0));
                }
            }
        });
        assert!(message.contains("the added tokens: has 1") && message.contains("limit is 100000"), "{message}");
    }
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let tensor = |shape: &[usize]| quantized(&vec![0.0; shape.iter().product()], shape, GgmlDType::F32);
    let missing = |name: &str, key: &str, words: &[&str]| {
        let mut gguf = converted(name);
        assert!(gguf.metadata.remove(key).is_some() || gguf.tensors.remove(key).is_some(), "{key}");
        let message = gguf.open().unwrap_err();
        assert!(words.iter().all(|word| message.contains(word)), "{key}: {message}");
    };
    missing("bert-mean-tiny", "bert.block_count", &["bert.block_count", "missing"]);
    missing("bert-mean-tiny", "bert.attention.layer_norm_epsilon", &["layer_norm_epsilon", "missing"]);
    missing("bert-mean-tiny", "position_embd.weight", &["position_embd.weight"]);
    missing("bert-mean-tiny", "tokenizer.ggml.token_type", &["token_type", "missing"]);
    missing("bert-mean-tiny", "bert.pooling_type", &["--pooling"]);
    missing("xlm-roberta-tiny", "tokenizer.ggml.scores", &["scores", "missing"]);
    missing("xlm-roberta-tiny", "tokenizer.ggml.eos_token_id", &["eos_token_id", "missing"]);
    missing("xlm-roberta-reranker-tiny", "cls.weight", &["cls.output.weight", "without `cls.weight`", "RoBERTa"]);
    missing("xlm-roberta-reranker-tiny", "cls.output.weight", &["without `cls.output.weight`"]);

    let sets: Vec<(&str, &str, Value, &[&str])> = vec![
        ("bert-mean-tiny", "bert.attention.causal", Value::Bool(true), &["attention.causal", "true"]),
        ("bert-mean-tiny", "bert.attention.head_count", Value::U32(5), &["embedding_length", "multiple"]),
        (
            "bert-mean-tiny",
            "bert.attention.key_length",
            Value::U32(16),
            &["attention.key_length", "16", "8, the width"],
        ),
        ("bert-mean-tiny", "bert.attention.value_length", Value::U32(4), &["value_length", "4", "8, the width"]),
        ("xlm-roberta-reranker-tiny", "bert.classifier.pooling_type", Value::U32(1), &["pooling_type` 1", "2 cls"]),
        (
            "bert-mean-tiny",
            "general.architecture",
            string("neo-bert"),
            &["neo-bert", "llama, llama-embed, modern-bert, nomic-bert, nomic-bert-moe"],
        ),
        (
            "bert-mean-tiny",
            "tokenizer.ggml.model",
            string("rwkv"),
            &["rwkv", "WordPiece", "put it into the same folder"],
        ),
        ("bert-mean-tiny", "tokenizer.ggml.seperator_token_id", Value::U32(9999), &["seperator", "9999"]),
        (
            "xlm-roberta-tiny",
            "tokenizer.ggml.add_space_prefix",
            Value::Bool(false),
            &["add_space_prefix", "same folder"],
        ),
        ("xlm-roberta-tiny", "tokenizer.ggml.scores", Value::Array(vec![Value::F32(0.0)]), &["scores", "each token"]),
        (
            "xlm-roberta-tiny",
            "tokenizer.ggml.precompiled_charsmap",
            Value::Array(vec![Value::U8(255); 4]),
            &["precompiled_charsmap", "is cut"],
        ),
        (
            "xlm-roberta-reranker-tiny",
            "bert.classifier.output_labels",
            Value::Array(vec![string("a"), string("b")]),
            &["1 rows for 2 labels"],
        ),
    ];
    for (name, key, value, words) in sets {
        let mut gguf = converted(name);
        gguf.set(key, value);
        let message = gguf.open().unwrap_err();
        assert!(words.iter().all(|word| message.contains(word)), "{key}: {message}");
    }
    let mut twice = converted("bert-mean-tiny");
    let tokens = list(&mut twice, "tokens");
    tokens[20] = tokens[21].clone();
    let message = twice.open().unwrap_err();
    assert!(message.contains("459 tokens, only 458 different ones"), "{message}");
    let mut infinite = converted("xlm-roberta-tiny");
    list(&mut infinite, "scores")[20] = Value::F32(f32::INFINITY);
    assert!(infinite.open().unwrap_err().contains("scores` must be a list of finite numbers"));
    let mut fused = converted("bert-mean-tiny");
    fused.tensors.insert("blk.0.attn_qkv.weight".to_owned(), tensor(&[96, 32]));
    let message = fused.open().unwrap_err();
    assert!(message.contains("attn_qkv.weight") && message.contains("the tensors of `bert`"), "{message}");
}
