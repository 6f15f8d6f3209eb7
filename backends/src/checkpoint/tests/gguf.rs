//! GGUF files, made from the reference checkpoints the way llama.cpp's converter makes them, and the real one.

use super::{fixture, open, read_json, read_tensors, rope, tensors_of};
use crate::checkpoint::capabilities::head::Routes;
use crate::checkpoint::{Checkpoint, HeadSource};
use crate::config::{RopeConfig, RopeScaling, TransformerConfig, names};
use crate::formats::Weights;
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use half::bf16;
use prefold_core::Pooling;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Content of a GGUF file, before it is written.
pub(super) struct Gguf {
    pub(super) metadata: BTreeMap<String, Value>,
    pub(super) tensors: BTreeMap<String, QTensor>,
}

pub(super) fn quantized(values: &[f32], shape: &[usize], dtype: GgmlDType) -> QTensor {
    let tensor = Tensor::from_slice(values, shape, &Device::Cpu).unwrap();
    QTensor::quantize(&tensor, dtype).unwrap()
}

/// Rows of each head from halves to neighbours, as the converter's `permute` does.
pub(super) fn neighbours_from_halves(values: &[f32], head_dim: usize, row_len: usize) -> Vec<f32> {
    let rows: Vec<&[f32]> = values.chunks(row_len).collect();
    let heads = rows.chunks(head_dim);
    heads.flat_map(|head| (0..head_dim).flat_map(|i| head[(i % 2) * head_dim / 2 + i / 2].to_vec())).collect()
}

impl Gguf {
    /// Converts a reference checkpoint; `pre` is the name of its pre-tokenizer.
    pub(super) fn from_fixture(name: &str, pre: &str) -> Self {
        let mut gguf = Self { metadata: BTreeMap::new(), tensors: BTreeMap::new() };
        gguf.add_config(name);
        gguf.add_tokenizer(name, pre);
        gguf.add_tensors(name);
        gguf
    }

    pub(super) fn set(&mut self, key: impl Into<String>, value: Value) {
        self.metadata.insert(key.into(), value);
    }

    fn add_config(&mut self, name: &str) {
        let config = read_json(&fixture(name).join("config.json"));
        let architecture = config["model_type"].as_str().unwrap();
        self.set("general.architecture", Value::String(architecture.to_owned()));
        for (key, from) in [
            ("block_count", "num_hidden_layers"),
            ("embedding_length", "hidden_size"),
            ("feed_forward_length", "intermediate_size"),
            ("attention.head_count", "num_attention_heads"),
            ("attention.head_count_kv", "num_key_value_heads"),
            ("context_length", "max_position_embeddings"),
        ] {
            self.set(format!("{architecture}.{key}"), Value::U32(config[from].as_u64().unwrap() as u32));
        }
        let head_dim = config["head_dim"].as_u64().unwrap_or(16) as u32;
        self.set(format!("{architecture}.attention.key_length"), Value::U32(head_dim));
        self.set(format!("{architecture}.rope.dimension_count"), Value::U32(head_dim));
        let float = |key: &str| Value::F32(config[key].as_f64().unwrap() as f32);
        self.set(format!("{architecture}.attention.layer_norm_rms_epsilon"), float("rms_norm_eps"));
        self.set(format!("{architecture}.rope.freq_base"), float("rope_theta"));
    }

    fn add_tokenizer(&mut self, name: &str, pre: &str) {
        let tokenizer = read_json(&fixture(name).join("tokenizer.json"));
        let vocab = tokenizer["model"]["vocab"].as_object().unwrap();
        let mut tokens: BTreeMap<u64, (&str, i32)> =
            vocab.iter().map(|(token, id)| (id.as_u64().unwrap(), (token.as_str(), 1))).collect();
        for added in tokenizer["added_tokens"].as_array().unwrap() {
            let kind = if added["special"] == json!(true) { 3 } else { 4 };
            tokens.insert(added["id"].as_u64().unwrap(), (added["content"].as_str().unwrap(), kind));
        }
        let merges = tokenizer["model"]["merges"].as_array().unwrap().iter().map(|pair| {
            let pair: Vec<&str> = pair.as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
            Value::String(pair.join(" "))
        });
        self.set("tokenizer.ggml.model", Value::String("gpt2".to_owned()));
        self.set("tokenizer.ggml.pre", Value::String(pre.to_owned()));
        let strings = tokens.values().map(|(token, _)| Value::String((*token).to_owned()));
        self.set("tokenizer.ggml.tokens", Value::Array(strings.collect()));
        let kinds = tokens.values().map(|(_, kind)| Value::I32(*kind));
        self.set("tokenizer.ggml.token_type", Value::Array(kinds.collect()));
        self.set("tokenizer.ggml.merges", Value::Array(merges.collect()));
        self.set("tokenizer.ggml.bos_token_id", Value::U32(1000));
        self.set("tokenizer.ggml.eos_token_id", Value::U32(1000));
    }

    fn add_tensors(&mut self, name: &str) {
        const PARTS: [(&str, &str); 14] = [
            ("model.", ""),
            ("layers.", "blk."),
            ("embed_tokens", "token_embd"),
            ("lm_head", "output"),
            ("input_layernorm", "attn_norm"),
            ("post_attention_layernorm", "ffn_norm"),
            ("self_attn.q_norm", "attn_q_norm"),
            ("self_attn.k_norm", "attn_k_norm"),
            ("self_attn.o_proj", "attn_output"),
            ("self_attn.", "attn_"),
            ("mlp.", "ffn_"),
            ("_proj", ""),
            ("attn_norm.weight.", ""),
            ("_layernorm", "_norm"),
        ];
        for (tensor, stored) in read_tensors(&fixture(name).join("model.safetensors")) {
            let mut values = stored.values();
            let rotated = tensor.contains("q_proj") || tensor.contains("k_proj");
            if name.starts_with("llama") && rotated {
                values = neighbours_from_halves(&values, 16, stored.shape[1]);
            }
            let mut gguf = tensor.clone();
            for (from, to) in PARTS {
                gguf = gguf.replace(from, to);
            }
            if gguf == "norm.weight" {
                gguf = "output_norm.weight".to_owned();
            }
            self.tensors.insert(gguf, quantized(&values, &stored.shape, GgmlDType::F32));
        }
    }

    pub(super) fn write(&self, path: &Path) {
        let metadata: Vec<_> = self.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let tensors: Vec<_> = self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        gguf_file::write(&mut File::create(path).unwrap(), &metadata, &tensors).unwrap();
    }

    /// Writes the file alone into a directory, and opens that.
    pub(super) fn open(&self) -> Result<Checkpoint, String> {
        let dir = TempDir::new().unwrap();
        self.write(&dir.path().join("model.gguf"));
        open(dir.path()).map_err(|error| error.to_string())
    }

    /// The tensors of the file alone.
    fn tensors(&self) -> Weights {
        let dir = TempDir::new().unwrap();
        self.write(&dir.path().join("model.gguf"));
        tensors_of(dir.path())
    }
}

/// Llama, with what its converter does about RoPE and special tokens.
pub(super) fn llama() -> Gguf {
    let mut gguf = Gguf::from_fixture("llama-tiny", "llama-bpe");
    let scaled = rope(&open(fixture("llama-tiny")).unwrap().config).inverse_frequencies(16);
    let plain = RopeConfig { theta: 5e5, scaling: RopeScaling::None }.inverse_frequencies(16);
    let divisors: Vec<f32> = plain.iter().zip(&scaled).map(|(plain, scaled)| (plain / scaled) as f32).collect();
    gguf.tensors.insert("rope_freqs.weight".to_owned(), quantized(&divisors, &[8], GgmlDType::F32));
    gguf.set("llama.pooling_type", Value::U32(1));
    gguf
}

pub(super) fn qwen3() -> Gguf {
    let mut gguf = Gguf::from_fixture("qwen3-tiny", "qwen2");
    gguf.set("tokenizer.ggml.add_eos_token", Value::Bool(true));
    gguf.set("qwen3.pooling_type", Value::U32(3));
    gguf
}

fn qwen2() -> Gguf {
    let mut gguf = Gguf::from_fixture("qwen2-tiny", "qwen2");
    gguf.set("tokenizer.ggml.add_eos_token", Value::Bool(true));
    gguf.set("qwen2.pooling_type", Value::U32(3));
    gguf
}

#[test]
fn a_converted_checkpoint_is_the_same_model() {
    for (name, gguf) in [("llama-tiny", llama()), ("qwen3-tiny", qwen3()), ("qwen2-tiny", qwen2())] {
        let (converted, original) = (gguf.open().unwrap(), open(fixture(name)).unwrap());
        assert_eq!(converted.head, original.head, "{name}");
        let frequencies = |config| rope(config).inverse_frequencies(original.config.attention.head_dim);
        for (found, expected) in frequencies(&converted.config).iter().zip(frequencies(&original.config)) {
            assert!((found - expected).abs() <= 1e-6 * expected, "{name}: {found} is not {expected}");
        }
        let config = TransformerConfig { positions: original.config.positions.clone(), ..converted.config };
        assert_eq!(config, original.config, "{name}");

        for (tensor, stored) in read_tensors(&fixture(name).join("model.safetensors")) {
            let tensor = match tensor.starts_with("model.") || tensor.starts_with("lm_head") {
                true => tensor,
                false => format!("model.{tensor}"),
            };
            let values = stored.values();
            assert_eq!(converted.weights.read::<f32>(&tensor, &stored.shape).unwrap(), values, "{name}: {tensor}");
            let rounded: Vec<bf16> = values.iter().map(|&v| bf16::from_f32(v)).collect();
            assert_eq!(converted.weights.read::<bf16>(&tensor, &stored.shape).unwrap(), rounded, "{name}: {tensor}");
        }
        for case in read_json(&fixture(name).join("expected.json"))["cases"].as_array().unwrap() {
            let Some(text) = case["text"].as_str() else { continue };
            let ids = converted.tokenizer.encode(text, true).unwrap();
            assert_eq!(json!(ids.get_ids()), case["input_ids"], "{name}: {text}");
        }
    }
}

#[test]
fn every_block_type_is_read_as_the_library_reads_it() {
    let names = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"];
    let types = [
        GgmlDType::F32,
        GgmlDType::F16,
        GgmlDType::BF16,
        GgmlDType::Q8_0,
        GgmlDType::Q4_0,
        GgmlDType::Q4_1,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
        GgmlDType::Q2K,
        GgmlDType::Q3K,
        GgmlDType::Q4K,
        GgmlDType::Q5K,
        GgmlDType::Q6K,
    ];
    // Not a whole number of chunks of blocks; v_proj's rows stay in order.
    let shape = [300, 256];
    let values: Vec<f32> = (0..shape[0] * shape[1]).map(|i| (i as f32 * 0.37).sin()).collect();
    for (dtype, name) in types.into_iter().zip(names) {
        let mut gguf = llama();
        let tensor = quantized(&values, &shape, dtype);
        let expected: Vec<f32> = tensor.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        gguf.tensors.insert("blk.0.attn_v.weight".to_owned(), tensor);
        gguf.tensors.insert("blk.0.attn_q.weight".to_owned(), quantized(&values, &shape, dtype));
        let weights = gguf.tensors();
        assert_eq!(weights.read::<f32>("model.layers.0.self_attn.v_proj.weight", &shape).unwrap(), expected, "{name}");
        assert_eq!(weights.stored_dtype(&names::DECODER.first_projection()), format!("gguf {name}"));
    }
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let string = |text: &str| Value::String(text.to_owned());
    let sets: Vec<(&str, Value, &[&str])> = vec![
        ("general.architecture", string("gemma3"), &["gemma3", "qwen2, qwen3"]),
        ("general.type", string("adapter"), &["`general.type` \"adapter\"", "\"model\""]),
        ("llama.rope.scaling.type", string("yarn"), &["llama.rope.scaling.type", "yarn"]),
        ("llama.rope.scaling.factor", Value::F32(-4.0), &["llama.rope.scaling.factor", "from 0 up, it is -4"]),
        ("llama.rope.scale_linear", Value::F32(4.0), &["rope_freqs.weight", "with scaling"]),
        ("llama.rope.scaling.attn_factor", Value::F32(1.5), &["`llama.rope.scaling.attn_factor` 1.5"]),
        ("llama.rope.dimension_count", Value::U32(8), &["rope.dimension_count", "8 of 16"]),
        ("llama.attention.sliding_window", Value::U32(128), &["sliding_window", "128"]),
        ("llama.attention.scale", Value::F32(0.5), &["attention.scale", "0.5"]),
        ("llama.attention.value_length", Value::U32(8), &["value_length"]),
        ("llama.expert_count", Value::U32(8), &["expert_count"]),
        ("split.count", Value::U16(3), &["3 files"]),
        ("llama.pooling_type", Value::U32(9), &["pooling_type", "9"]),
        ("llama.block_count", string("3"), &["llama.block_count", "whole number"]),
        ("llama.block_count", Value::I32(-3), &["llama.block_count", "from 0"]),
        ("llama.attention.head_count", Value::U32(0), &["num_attention_heads"]),
        ("general.alignment", Value::U32(0), &["general.alignment", "power of two", "it is 0"]),
        ("general.alignment", Value::U64(32), &["general.alignment", "32 bits"]),
        ("llama.context_length", Value::U32(u32::MAX), &["max_position_embeddings"]),
        ("tokenizer.ggml.model", string("llama"), &["tokenizer.ggml.scores", "missing"]),
        ("tokenizer.ggml.pre", string("tekken"), &["tekken", "smollm, starcoder", "qwen2, deepseek-r1-qwen"]),
        ("tokenizer.ggml.pre", string("default"), &["default", "put it into the same folder"]),
        ("tokenizer.ggml.merges", Value::Array(vec![string("ab")]), &["tokenizer.ggml.merges", "\"ab\""]),
        ("tokenizer.ggml.merges", Value::Array(vec![Value::U32(1)]), &["tokenizer.ggml.merges", "strings"]),
        (
            "tokenizer.ggml.merges",
            Value::Array(vec![string("a b"); (1 << 20) + 1]),
            &["has 1048577 merges, the limit is 1048576"],
        ),
        (
            "tokenizer.ggml.tokens",
            Value::Array(vec![string(&"x".repeat(2049))]),
            &["the vocabulary has a token with the id 0 of 2049 bytes"],
        ),
        ("tokenizer.ggml.tokens", Value::Array(vec![string("a"), string("a")]), &["entries for 2 tokens"]),
        ("tokenizer.ggml.token_type", Value::Array(vec![Value::I32(1)]), &["1 entries for"]),
        ("tokenizer.ggml.bos_token_id", Value::U32(5000), &["bos_token_id", "5000"]),
    ];
    for (key, value, words) in sets {
        let mut gguf = llama();
        gguf.set(key, value);
        let message = gguf.open().unwrap_err();
        assert!(words.iter().all(|word| message.contains(word)), "{key}: {message}");
    }
    for key in [
        "general.architecture",
        "llama.block_count",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.context_length",
        "llama.attention.layer_norm_rms_epsilon",
        "tokenizer.ggml.model",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.merges",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.bos_token_id",
    ] {
        let mut gguf = llama();
        gguf.metadata.remove(key);
        let message = gguf.open().unwrap_err();
        assert!(message.contains(key) && message.contains("is missing"), "{key}: {message}");
    }
    for name in ["blk.0.attn_sub_norm.weight", "blk.1.attn_q.bias"] {
        let mut gguf = llama();
        gguf.tensors.insert(name.to_owned(), quantized(&[0.0; 64], &[64], GgmlDType::F32));
        let message = gguf.open().unwrap_err();
        assert!(message.contains(name), "{message}");
    }
}

#[test]
fn pieces_and_merges_have_limits() {
    let mut gguf = qwen2();
    let merges = vec![Value::String("a b".to_owned()); (1 << 20) + 1];
    gguf.set("tokenizer.ggml.merges", Value::Array(merges));
    let message = gguf.open().unwrap_err();
    assert!(message.contains("`tokenizer.ggml.merges` has 1048577 merges, the limit is 1048576"), "{message}");
    let Some(Value::Array(tokens)) = gguf.metadata.get_mut("tokenizer.ggml.tokens") else { panic!() };
    tokens[20] = Value::String("x".repeat(2049));
    let message = gguf.open().unwrap_err();
    assert!(message.contains("the vocabulary has a token with the id 20 of 2049 bytes"), "{message}");
}

#[test]
fn rope_scaling_without_a_type_is_linear() {
    let (factor, older) = ("scaling.factor", "scale_linear");
    /// Numbers of the file, its type of scaling, and what follows.
    type Case<'a> = (&'a [(&'a str, f32)], Option<&'a str>, RopeScaling);
    let cases: [Case<'_>; 9] = [
        (&[], None, RopeScaling::None),
        (&[], Some("linear"), RopeScaling::None),
        (&[(factor, 4.0)], None, RopeScaling::Linear { factor: 4.0 }),
        (&[(factor, 4.0)], Some("linear"), RopeScaling::Linear { factor: 4.0 }),
        (&[(factor, 4.0)], Some("none"), RopeScaling::None),
        (&[(older, 2.0)], None, RopeScaling::Linear { factor: 2.0 }),
        (&[(factor, 4.0), (older, 2.0)], None, RopeScaling::Linear { factor: 4.0 }),
        (&[(factor, 0.0), (older, 2.0)], None, RopeScaling::None),
        (&[(factor, 1.0), ("scaling.attn_factor", 1.0)], None, RopeScaling::None),
    ];
    for (values, kind, expected) in cases {
        let mut gguf = qwen3();
        for (key, value) in values {
            gguf.set(format!("qwen3.rope.{key}"), Value::F32(*value));
        }
        if let Some(kind) = kind {
            gguf.set("qwen3.rope.scaling.type", Value::String(kind.to_owned()));
        }
        assert_eq!(rope(&gguf.open().unwrap().config).scaling, expected, "{values:?} {kind:?}");
    }
}

#[test]
fn tensors_that_are_missing_or_misshaped_and_files_cut_off_are_named() {
    let mut gguf = llama();
    gguf.tensors.remove("blk.2.ffn_up.weight");
    assert!(gguf.open().unwrap_err().contains("tensor `blk.2.ffn_up.weight` is missing"));
    let weights = gguf.tensors();
    let name = "blk.1.ffn_up.weight";
    let message = weights.read::<f32>("model.layers.1.mlp.up_proj.weight", &[64, 128]).unwrap_err().to_string();
    assert!(message.contains(name) && message.contains("[128, 64]") && message.contains("[64, 128]"), "{message}");

    let dir = TempDir::new().unwrap();
    let path = dir.path().join("model.gguf");
    gguf.write(&path);
    let whole = fs::read(&path).unwrap();
    for length in [whole.len() - 64, whole.len() / 2] {
        fs::write(&path, &whole[..length]).unwrap();
        let message = open(&path).unwrap_err().to_string();
        assert!(message.contains("outside the file"), "{message}");
    }
    for length in [0, 3, 20, 200] {
        fs::write(&path, &whole[..length]).unwrap();
        let message = open(&path).unwrap_err().to_string();
        assert!(message.starts_with("model.gguf: not a readable GGUF file"), "{message}");
    }
}

#[test]
fn files_are_found_and_a_tokenizer_beside_wins() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("one.gguf");
    let mut gguf = llama();
    gguf.set("tokenizer.ggml.model", Value::String("llama".to_owned()));
    gguf.write(&path);
    assert!(open(&path).is_err(), "a tokenizer that is not supported, and none beside");
    fs::copy(fixture("llama-tiny").join("tokenizer.json"), dir.path().join("tokenizer.json")).unwrap();
    assert_eq!(
        open(&path).unwrap().head,
        HeadSource::Dense { pooling: vec![Pooling::Mean], modules: vec![], routes: Routes::default() }
    );
    assert!(matches!(open(dir.path()).unwrap().weights, Weights::Gguf(_)));
    fs::copy(&path, dir.path().join("two.gguf")).unwrap();
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("2 .gguf files"), "{message}");
    fs::write(dir.path().join("notes.txt"), "").unwrap();
    let message = open(dir.path().join("notes.txt")).unwrap_err().to_string();
    assert!(message.contains("notes.txt") && message.contains("neither"), "{message}");
}

/// The real file, if the environment names it.
fn smollm2() -> Option<PathBuf> {
    let Some(path) = std::env::var_os("PREFOLD_SMOLLM2_GGUF") else {
        eprintln!("skipped: PREFOLD_SMOLLM2_GGUF is not set");
        return None;
    };
    let path = PathBuf::from(path);
    assert!(path.is_file(), "PREFOLD_SMOLLM2_GGUF names {}, which is not a file", path.display());
    Some(path)
}

#[test]
fn smollm2_has_the_reference_token_ids() {
    let Some(path) = smollm2() else { return };
    let mut options = super::options(crate::ModelSource::Path(path));
    assert!(Checkpoint::open(&options).unwrap_err().to_string().contains("--pooling"));
    options.pooling = Some(Pooling::LastToken);
    let checkpoint = Checkpoint::open(&options).unwrap();

    let config = &checkpoint.config;
    assert_eq!(
        (config.hidden_size, config.num_layers, config.attention.num_heads, config.attention.num_kv_heads),
        (576, 30, 9, 3)
    );
    assert_eq!(
        (config.attention.head_dim, config.feed_forward.intermediate_size, config.vocab_size),
        (64, 1536, 49152)
    );
    assert_eq!(rope(config), &RopeConfig { theta: 1e5, scaling: RopeScaling::None });
    assert_eq!((config.norm.eps, config.tie_word_embeddings), (1e-5, true));
    assert_eq!(checkpoint.weights.stored_dtype(&names::DECODER.first_projection()), "gguf Q4_1");

    let expected = read_json(&fixture("smollm2-135m").join("expected.json"));
    let cases = ["cases", "tokenizer_only"].map(|key| expected[key].as_array().unwrap());
    let mut compared = 0;
    for case in cases.into_iter().flatten() {
        let text = case["text"].as_str().unwrap();
        let ids = checkpoint.tokenizer.encode(text, true).unwrap();
        assert_eq!(json!(ids.get_ids()), case["input_ids"], "{text:?}");
        compared += 1;
    }
    assert!(compared > 16, "only {compared} texts");
}
