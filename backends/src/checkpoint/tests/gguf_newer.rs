//! Newer architectures in GGUF files, made from the reference checkpoints the way llama.cpp's converter makes them.

use super::gguf::{Gguf, quantized};
use super::gguf_encoders::{add_tokenizer, answers, loaded};
use super::{TEXTS, check_same_tokens, copy_of, edit_tensors, fixture, open, read_json, read_tensors};
use crate::config::{PositionsConfig, RopeScaling, RotaryConfig, TransformerConfig};
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use prefold_core::Pooling;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

/// Metadata by the fields of `config.json` that have them, in their spellings.
const KEYS: [(&str, &[&str]); 15] = [
    ("context_length", &["max_position_embeddings", "n_positions"]),
    ("block_count", &["num_hidden_layers", "n_layer"]),
    ("embedding_length", &["hidden_size", "n_embd"]),
    ("feed_forward_length", &["intermediate_size", "n_inner"]),
    ("attention.head_count", &["num_attention_heads", "n_head"]),
    ("attention.head_count_kv", &["num_key_value_heads"]),
    ("attention.key_length", &["head_dim"]),
    ("attention.value_length", &["head_dim"]),
    ("attention.layer_norm_epsilon", &["layer_norm_eps", "layer_norm_epsilon"]),
    ("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]),
    ("rope.freq_base", &["rope_theta", "global_rope_theta", "rotary_emb_base"]),
    ("rope.freq_base_swa", &["rope_local_base_freq", "local_rope_theta"]),
    ("attention.sliding_window", &["sliding_window", "local_attention"]),
    ("attention.sliding_window_pattern", &["_sliding_window_pattern", "global_attn_every_n_layers"]),
    ("moe_every_n_layers", &["moe_every_n_layers"]),
];

/// Parts of names from the first to the last.
const PARTS: [(&str, &str); 51] = [
    ("head.dense", "cls"),
    ("head.norm", "cls.norm"),
    ("classifier.", "cls.output."),
    ("model.", ""),
    ("roberta.", ""),
    (".parametrizations.weight.original", ".weight"),
    ("embeddings.word_embeddings", "token_embd"),
    ("embeddings.tok_embeddings", "token_embd"),
    ("embed_tokens", "token_embd"),
    ("embeddings.token_type_embeddings", "token_types"),
    ("embeddings.LayerNorm", "token_embd_norm"),
    ("embeddings.norm", "token_embd_norm"),
    ("emb_ln", "token_embd_norm"),
    ("mlp.gated_layers", "ffn_up"),
    ("mlp.up_gated_layer", "ffn_up"),
    ("mlp.down_layer", "ffn_down"),
    ("attention.self.layer_norm_q", "attn_q_norm"),
    ("attention.self.layer_norm_k", "attn_k_norm"),
    ("layer_norm_1", "attn_norm_2"),
    ("layer_norm_2", "layer_output_norm"),
    ("encoder.layers.", "blk."),
    ("encoder.layer.", "blk."),
    ("layers.", "blk."),
    ("attention.self.query", "attn_q"),
    ("attention.self.key", "attn_k"),
    ("attention.self.value", "attn_v"),
    ("attention.output.dense", "attn_output"),
    ("attention.output.LayerNorm", "attn_output_norm"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.", "attn_"),
    ("attn.Wqkv", "attn_qkv"),
    ("mixer.Wqkv", "attn_qkv"),
    ("attn.Wo", "attn_output"),
    ("attn.out_proj", "attn_output"),
    ("mixer.out_proj", "attn_output"),
    ("norm1", "attn_output_norm"),
    ("norm2", "layer_output_norm"),
    ("mlp.layernorm", "layer_output_norm"),
    ("mlp.wo", "ffn_down"),
    ("mlp.Wi", "ffn_up"),
    ("mlp.Wo", "ffn_down"),
    ("mlp_norm", "ffn_norm"),
    ("mlp.fc1", "ffn_up"),
    ("mlp.fc2", "ffn_down"),
    ("mlp.router.layer", "ffn_gate_inp"),
    ("input_layernorm", "attn_norm"),
    ("mlp.", "ffn_"),
    ("_proj", ""),
    ("final_norm", "output_norm"),
];

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// Converts the checkpoint in a folder, with a tokenizer that is known by the name `pre` if it is byte-level BPE.
pub(super) fn converted(folder: &Path, architecture: &str, pre: &str) -> Gguf {
    let mut gguf = Gguf { metadata: BTreeMap::new(), tensors: BTreeMap::new() };
    let config = read_json(&folder.join("config.json"));
    gguf.set("general.architecture", string(architecture));
    for (key, fields) in KEYS {
        let Some(value) = fields.iter().find_map(|field| config.get(*field)) else { continue };
        let is_float = key.contains("epsilon") || key.contains("freq_base");
        let number = value.as_f64().unwrap();
        let value = if is_float { Value::F32(number as f32) } else { Value::U32(number as u32) };
        gguf.set(format!("{architecture}.{key}"), value);
    }
    let pooling = folder.join("1_Pooling/config.json");
    if pooling.exists() {
        let modes = read_json(&pooling);
        let is_mean = modes["pooling_mode_mean_tokens"] == true || modes["pooling_mode"] == "mean";
        gguf.set(format!("{architecture}.pooling_type"), Value::U32(if is_mean { 1 } else { 2 }));
    }
    let tokenizer = read_json(&folder.join("tokenizer.json"));
    if architecture == "gemma-embedding" {
        add_sentencepiece(&mut gguf, &tokenizer);
    } else {
        add_tokenizer(&mut gguf, &tokenizer);
        gguf.set("tokenizer.ggml.pre", string(pre));
    }
    add_tensors(&mut gguf, folder, architecture);
    gguf
}

/// SentencePiece's BPE: the score of a piece is the rank of its first merge, negated.
fn add_sentencepiece(gguf: &mut Gguf, tokenizer: &Json) {
    let vocab = tokenizer["model"]["vocab"].as_object().unwrap();
    let mut pieces: Vec<(&str, u64)> = vocab.iter().map(|(piece, id)| (&**piece, id.as_u64().unwrap())).collect();
    pieces.sort_by_key(|(_, id)| *id);
    let mut scores: BTreeMap<String, f32> = BTreeMap::new();
    for (rank, pair) in tokenizer["model"]["merges"].as_array().unwrap().iter().enumerate() {
        let merged = format!("{}{}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
        scores.entry(merged).or_insert(-(rank as f32));
    }
    let special = tokenizer["added_tokens"].as_array().unwrap().len() as u64;
    let kind = |(piece, id): &(&str, u64)| match () {
        () if *id < special => Value::I32(3),
        () if piece.starts_with("<0x") => Value::I32(6),
        () => Value::I32(1),
    };
    gguf.set("tokenizer.ggml.model", string("llama"));
    gguf.set("tokenizer.ggml.token_type", Value::Array(pieces.iter().map(kind).collect()));
    let scores = pieces.iter().map(|(piece, _)| Value::F32(scores.get(*piece).copied().unwrap_or(-1e4)));
    gguf.set("tokenizer.ggml.scores", Value::Array(scores.collect()));
    gguf.set("tokenizer.ggml.tokens", Value::Array(pieces.iter().map(|(piece, _)| string(piece)).collect()));
    for (key, id) in [("padding", 0), ("eos", 1), ("bos", 2), ("unknown", 3), ("mask", 4)] {
        gguf.set(format!("tokenizer.ggml.{key}_token_id"), Value::U32(id));
    }
    gguf.set("tokenizer.ggml.add_eos_token", Value::Bool(true));
    gguf.set("tokenizer.ggml.add_space_prefix", Value::Bool(false));
}

fn add_tensors(gguf: &mut Gguf, folder: &Path, architecture: &str) {
    let is_gemma = architecture == "gemma-embedding";
    for (tensor, stored) in read_tensors(&folder.join("model.safetensors")) {
        if ["pooler", "lora_", "lm_head", "experts.bias", "linear."].iter().any(|part| tensor.contains(part)) {
            continue;
        }
        let (mut values, mut shape) = (stored.values(), stored.shape);
        let norms = if is_gemma {
            [("post_attention_layernorm", "post_attention_norm"), ("pre_feedforward_layernorm", "ffn_norm")]
        } else {
            [("post_attention_layernorm", "ffn_norm"), ("", "")]
        };
        let parts = norms.into_iter().filter(|(from, _)| !from.is_empty());
        let parts = parts.chain([("post_feedforward_layernorm", "post_ffw_norm")]).chain(PARTS);
        let mut name = parts.fold(tensor.clone(), |name, (from, to)| name.replace(from, to));
        if name == "norm.weight" {
            name = "output_norm.weight".to_owned();
        }
        if is_gemma && name.ends_with("norm.weight") {
            values.iter_mut().for_each(|value| *value += 1.0);
        }
        if architecture.starts_with("llama") && (tensor.contains("q_proj") || tensor.contains("k_proj")) {
            values = super::gguf::neighbours_from_halves(&values, 8, shape[1]);
        }
        if let Some(prefix) = name.strip_suffix("ffn_experts.ffn_w1").map(str::to_owned) {
            (name, shape) = (format!("{prefix}ffn_up_exps.weight"), vec![8, shape[0] / 8, shape[1]]);
        } else if let Some(prefix) = name.strip_suffix("ffn_experts.ffn_w2").map(str::to_owned) {
            let (width, hidden) = (shape[0] / 8, shape[1]);
            let matrices = values.chunks(width * hidden);
            values = matrices
                .flat_map(|it| (0..hidden).flat_map(move |h| (0..width).map(move |w| it[w * hidden + h])))
                .collect();
            (name, shape) = (format!("{prefix}ffn_down_exps.weight"), vec![8, hidden, width]);
        }
        gguf.tensors.insert(name, quantized(&values, &shape, GgmlDType::F32));
    }
}

/// Checks that a file gives the answers of the checkpoint that it was made from, bit for bit, and returns its warnings.
fn check_same(gguf: &Gguf, folder: &Path, same_tokens: bool) -> Vec<String> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("model.gguf");
    gguf.write(&path);
    let (mut found, mut original) = (loaded(&path), loaded(folder));
    if same_tokens {
        check_same_tokens(found.tokenizers.first(), original.tokenizers.first(), &folder.display().to_string());
    }
    original.tokenizers = found.tokenizers.clone();
    assert_eq!(answers(&mut found), answers(&mut original), "{}", folder.display());
    found.backend.info().capabilities.warnings.clone()
}

fn set_bool(gguf: &mut Gguf, key: &str, value: bool) {
    gguf.set(format!("tokenizer.ggml.{key}"), Value::Bool(value));
}

/// Replaces the matrices of this ending by their halves.
fn split_gates(gguf: &mut Gguf, folder: &Path, ending: &str, halves: [&str; 2]) {
    for (tensor, stored) in read_tensors(&folder.join("model.safetensors")) {
        let Some(layer) = tensor.strip_suffix(ending) else { continue };
        let layer = layer.rsplit('.').next().unwrap();
        let ([rows, width], values) = ([stored.shape[0] / 2, stored.shape[1]], stored.values());
        for (name, half) in halves.into_iter().zip(values.chunks(rows * width)) {
            gguf.tensors.insert(format!("blk.{layer}.{name}.weight"), quantized(half, &[rows, width], GgmlDType::F32));
        }
    }
}

#[test]
fn modernbert_jina_v2_and_eurobert() {
    let folder = fixture("modernbert-tiny");
    let mut gguf = converted(&folder, "modern-bert", "modern-bert");
    assert_eq!(check_same(&gguf, &folder, true), Vec::<String>::new());
    // The defaults of the format.
    for key in ["rope.freq_base", "rope.freq_base_swa", "attention.sliding_window_pattern"] {
        assert!(gguf.metadata.remove(&format!("modern-bert.{key}")).is_some(), "{key}");
    }
    check_same(&gguf, &folder, true);
    // llama.cpp scales all layers of this architecture.
    gguf.set("modern-bert.rope.scaling.factor", Value::F32(4.0));
    let rotary = rotary(&gguf.open().unwrap().config);
    let scaling = RopeScaling::Linear { factor: 4.0 };
    assert_eq!((rotary.full.scaling, rotary.windowed.scaling), (scaling.clone(), scaling));

    let folder = fixture("jina-v2-tiny");
    let mut gguf = converted(&folder, "jina-bert-v2", "");
    assert_eq!(check_same(&gguf, &folder, true), Vec::<String>::new());
    // Older converters split the matrix.
    split_gates(&mut gguf, &folder, ".mlp.gated_layers.weight", ["ffn_gate", "ffn_up"]);
    check_same(&gguf, &folder, true);

    // `-code` has the up projection above the gate, which older converters split too.
    let folder = fixture("jina-v2-code-tiny");
    let mut gguf = converted(&folder, "jina-bert-v2", "jina-v2-code");
    assert_eq!(check_same(&gguf, &folder, true), Vec::<String>::new());
    split_gates(&mut gguf, &folder, ".mlp.up_gated_layer.weight", ["ffn_up", "ffn_gate"]);
    assert_eq!(check_same(&gguf, &folder, true), Vec::<String>::new());

    let folder = fixture("eurobert-tiny");
    let mut gguf = converted(&folder, "eurobert", "llama-bpe");
    gguf.set("tokenizer.ggml.bos_token_id", Value::U32(420));
    gguf.set("eurobert.rope.scaling.type", string("none"));
    set_bool(&mut gguf, "add_bos_token", true);
    assert_eq!(check_same(&gguf, &folder, true), Vec::<String>::new());
}

#[test]
fn classifiers_of_modernbert() {
    const POOLING: &str = "modern-bert.classifier.pooling_type";
    for name in ["modernbert-reranker-tiny", "modernbert-bias-tiny"] {
        let folder = fixture(name);
        let mut gguf = converted(&folder, "modern-bert", "modern-bert");
        // Both models pool the mean, as llama.cpp does where the file does not say.
        let warnings = check_same(&gguf, &folder, true);
        assert!(warnings.len() == 1 && warnings[0].contains(&format!("`{POOLING}` is missing")), "{warnings:?}");
        gguf.set(POOLING, Value::U32(1));
        assert_eq!(check_same(&gguf, &folder, true), Vec::<String>::new());
        let mean = gguf.open().unwrap().config;
        gguf.set(POOLING, Value::U32(2));
        assert_ne!(gguf.open().unwrap().config, mean);
        gguf.set(POOLING, Value::U32(3));
        let message = gguf.open().unwrap_err();
        assert!(message.contains(&format!("`{POOLING}` 3")) && message.contains("1 mean, 2 cls"), "{message}");
    }
}

#[test]
fn jina_v3_without_the_adapters_of_tasks() {
    let folder = fixture("jina-v3-tiny");
    let mut gguf = converted(&folder, "jina-bert-v3", "default");
    // The converter leaves out the padding token's position and those before it.
    gguf.set("jina-bert-v3.context_length", Value::U32(8192));
    let warnings = check_same(&gguf, &folder, false);
    assert!(warnings.len() == 1 && warnings[0].contains("the adapters of tasks"), "{warnings:?}");
}

#[test]
fn nomic_with_experts_but_without_their_bias() {
    let folder = copy_of("nomic-moe-tiny");
    edit_tensors(folder.path(), |tensors| {
        let biases = tensors.iter_mut().filter(|(name, _)| name.ends_with("experts.bias"));
        biases.for_each(|(_, stored)| stored.bytes.fill(0));
    });
    let mut gguf = converted(folder.path(), "nomic-bert-moe", "default");
    gguf.set("nomic-bert-moe.expert_count", Value::U32(8));
    gguf.set("nomic-bert-moe.expert_used_count", Value::U32(2));
    let warnings = check_same(&gguf, folder.path(), false);
    assert!(warnings.len() == 1 && warnings[0].contains("the bias of the experts"), "{warnings:?}");
    let refused = |gguf: &Gguf, words: &[&str]| {
        let message = gguf.open().unwrap_err();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    gguf.set("nomic-bert-moe.expert_count", Value::U32(4));
    refused(&gguf, &["blk.1.ffn_gate_inp.weight", "[8, 32]", "[4, 32]"]);
    gguf.metadata.remove("nomic-bert-moe.expert_count");
    refused(&gguf, &["expert_count", "missing"]);
}

fn rotary(config: &TransformerConfig) -> RotaryConfig {
    match &config.positions {
        PositionsConfig::Rotary(rotary) => rotary.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_embeddinggemma_only_layers_without_a_window_are_scaled() {
    let mut gguf = gemma();
    gguf.set("gemma-embedding.rope.scaling.factor", Value::F32(4.0));
    let rotary = rotary(&gguf.open().unwrap().config);
    assert_eq!(rotary.full.scaling, RopeScaling::Linear { factor: 4.0 });
    assert_eq!(rotary.windowed.scaling, RopeScaling::None);
}

/// EmbeddingGemma, whose converter knows neither another pattern nor another scale than the published model's.
pub(super) fn gemma() -> Gguf {
    let mut gguf = converted(&fixture("embeddinggemma-tiny"), "gemma-embedding", "default");
    gguf.set("gemma-embedding.attention.scale", Value::F32(6_f64.powf(-0.5) as f32));
    gguf
}

#[test]
fn embeddinggemma_with_its_dense_modules_and_without() {
    let folder = fixture("embeddinggemma-tiny");
    let mut gguf = gemma();
    for (name, module) in [("dense_2", "2_Dense"), ("dense_3", "3_Dense")] {
        let tensors = read_tensors(&folder.join(module).join("model.safetensors"));
        let stored = &tensors["linear.weight"];
        gguf.set(format!("gemma-embedding.{name}_feat_out"), Value::U32(stored.shape[0] as u32));
        let tensor = quantized(&stored.values(), &stored.shape, GgmlDType::F32);
        gguf.tensors.insert(format!("{name}.weight"), tensor);
    }
    assert_eq!(check_same(&gguf, &folder, true), Vec::<String>::new());
    gguf.tensors.insert("dense_3.weight".to_owned(), quantized(&[0.0; 96], &[3, 32], GgmlDType::F32));
    let message = gguf.open().unwrap_err();
    assert!(message.contains("`dense_3.weight` has shape [3, 32]"), "{message}");

    let checkpoint = gemma().open().unwrap();
    let embed = checkpoint.capabilities.embed.clone().unwrap();
    assert_eq!((embed.dim, embed.pooling), (32, vec![Pooling::Mean]));
    let warnings = &checkpoint.capabilities.warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("2_Dense, 3_Dense"), "{warnings:?}");

    // A list of layers instead of a pattern.
    let mut listed = gemma();
    let layers = [true, true, false, true].map(Value::Bool);
    listed.set("gemma-embedding.attention.sliding_window_pattern", Value::Array(layers.into()));
    assert_eq!(listed.open().unwrap().config, checkpoint.config);
    for (key, value, words) in [
        ("sliding_window_pattern", Value::U32(0), "above 0"),
        (
            "sliding_window_pattern",
            Value::Array(vec![Value::Bool(true)]),
            "1 entries, `gemma-embedding.block_count` is 4",
        ),
        ("scale", Value::F32(-1.0), "above 0"),
    ] {
        let mut gguf = gemma();
        gguf.set(format!("gemma-embedding.attention.{key}"), value);
        let message = gguf.open().unwrap_err();
        assert!(message.contains(words), "{message}");
    }
}

/// Replaces the vocabulary by normal pieces with equal scores.
fn set_pieces(gguf: &mut Gguf, pieces: Vec<Value>) {
    gguf.set("tokenizer.ggml.token_type", Value::Array(vec![Value::I32(1); pieces.len()]));
    gguf.set("tokenizer.ggml.scores", Value::Array(vec![Value::F32(0.0); pieces.len()]));
    gguf.set("tokenizer.ggml.tokens", Value::Array(pieces));
}

#[test]
fn a_list_of_more_layers_than_tensors_is_refused() {
    let mut gguf = gemma();
    gguf.set("gemma-embedding.block_count", Value::U32(5000));
    gguf.set("gemma-embedding.attention.sliding_window_pattern", Value::Array(vec![Value::Bool(true); 5000]));
    let message = gguf.open().unwrap_err();
    assert!(message.contains("sliding_window_pattern` has 5000 entries, the file has only"), "{message}");
}

#[test]
fn sentencepiece_merges_follow_from_scores() {
    let (found, original) = (gemma().open().unwrap(), open(fixture("embeddinggemma-tiny")).unwrap());
    for text in TEXTS.iter().chain(&["  two  spaces", "\n\n", "<mask>a"]) {
        let ids = |tokenizer: &tokenizers::Tokenizer| tokenizer.encode(*text, true).unwrap().get_ids().to_vec();
        assert_eq!(ids(&found.tokenizer), ids(&original.tokenizer), "{text:?}");
        let decoded = found.tokenizer.decode(&ids(&found.tokenizer), true).unwrap();
        assert_eq!(decoded, original.tokenizer.decode(&ids(&original.tokenizer), true).unwrap());
    }
    let mut long = gemma();
    set_pieces(&mut long, (0..300).map(|i| string(&format!("{i}{}", "x".repeat(2000)))).collect());
    long.set("tokenizer.ggml.unknown_token_id", Value::U32(0));
    assert!(long.open().unwrap_err().contains("has an unknown token of 2001 bytes"));
    let Some(Value::Array(tokens)) = long.metadata.get_mut("tokenizer.ggml.tokens") else { panic!() };
    tokens[0] = string("<unk>");
    assert!(long.open().unwrap_err().contains("whose halves have more than 1073741824 bytes"));
    // Each piece but the first two has as many merges as letters less one.
    let pieces = [string("<unk>")].into_iter().chain((1..600).map(|length| string(&"a".repeat(length))));
    set_pieces(&mut long, pieces.collect());
    assert!(long.open().unwrap_err().contains("whose merges have more than 67108864 bytes"));
    // All words of three letters, with two merges each.
    let letters: Vec<String> = (0..81_u8).map(|letter| char::from(b'!' + letter).to_string()).collect();
    let longer = |words: &[String]| -> Vec<String> {
        words.iter().flat_map(|word| letters.iter().map(move |letter| format!("{word}{letter}"))).collect()
    };
    let pairs = longer(&letters);
    let words = ["<unk>".to_owned()].into_iter().chain(longer(&pairs)).chain(pairs.clone()).chain(letters.clone());
    set_pieces(&mut long, words.map(|word| string(&word)).collect());
    let refused = long.open().unwrap_err();
    assert!(refused.contains("the vocabulary has 10") && refused.contains("merges, the limit is 1048576"), "{refused}");
    // With a space before texts, as Llama's and Mistral's.
    let mut gguf = gemma();
    gguf.metadata.remove("tokenizer.ggml.add_space_prefix");
    set_bool(&mut gguf, "add_eos_token", false);
    let prefixed = gguf.open().unwrap().tokenizer;
    let ids = |text: &str| prefixed.encode(text, true).unwrap().get_ids().to_vec();
    let plain = found.tokenizer.encode(" the train", true).unwrap().get_ids().to_vec();
    assert_eq!(ids("the train"), plain[..plain.len() - 1]);
    assert_eq!(prefixed.decode(&ids("the train"), true).unwrap(), "the train");
    // A token that is matched as a whole keeps its spaces.
    let Some(Value::Array(tokens)) = gguf.metadata.get_mut("tokenizer.ggml.tokens") else { panic!() };
    tokens[300] = string("  ");
    let Some(Value::Array(kinds)) = gguf.metadata.get_mut("tokenizer.ggml.token_type") else { panic!() };
    kinds[300] = Value::I32(4);
    let tokenizer = gguf.open().unwrap().tokenizer;
    assert_eq!(tokenizer.token_to_id("\u{2581}\u{2581}"), Some(300));
}

#[test]
fn llama_without_the_mask() {
    let folder = fixture("llama-bidirec-tiny");
    let scaled = super::rope(&open(&folder).unwrap().config).inverse_frequencies(8);
    let convert = |architecture: &str| {
        let mut gguf = converted(&folder, architecture, "llama-bpe");
        gguf.set("tokenizer.ggml.bos_token_id", Value::U32(420));
        let Value::F32(theta) = gguf.metadata[&format!("{architecture}.rope.freq_base")] else { panic!() };
        let plain = (0..4).map(|i| f64::from(theta).powf(-2.0 * f64::from(i) / 8.0));
        let divisors: Vec<f32> = plain.zip(&scaled).map(|(plain, scaled)| (plain / scaled) as f32).collect();
        gguf.tensors.insert("rope_freqs.weight".to_owned(), quantized(&divisors, &[4], GgmlDType::F32));
        gguf
    };
    let mut causal = convert("llama");
    let embed = convert("llama-embed").open().unwrap();
    let original = open(&folder).unwrap();
    assert_eq!(embed.config.attention, original.config.attention);
    causal.set("llama.attention.causal", Value::Bool(false));
    let masked = causal.open().unwrap();
    assert_eq!(masked.config.attention, original.config.attention);
    for name in ["model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.k_proj.weight"] {
        let rows = if name.contains("q_proj") { 32 } else { 16 };
        let read =
            |checkpoint: &crate::checkpoint::Checkpoint| checkpoint.weights.read::<f32>(name, &[rows, 32]).unwrap();
        assert_eq!(read(&embed), read(&original));
        assert_eq!(read(&masked), read(&original));
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_the_reason() {
    let refused = |name: &str, architecture: &str, tensor: &str, words: &str| {
        let mut gguf = converted(&fixture(name), architecture, "modern-bert");
        gguf.tensors.insert(tensor.to_owned(), quantized(&[0.0; 32], &[32], GgmlDType::F32));
        let message = gguf.open().unwrap_err();
        assert!(message.contains(tensor) && message.contains(words), "{message}");
    };
    refused("eurobert-tiny", "eurobert", "cls.norm.weight", "the head of a classifier");
    refused("modernbert-tiny", "modern-bert", "dense_2.weight", "a projection of tokens (ColBERT)");
}
