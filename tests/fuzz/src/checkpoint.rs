//! Model files: loading any content ends with a working model or with an error message.

use prefold_backends::{DeviceChoice, LoadError, LoadOptions, ModelSource, model_summary};
use prefold_core::{
    Batch, Capabilities, EncodeLimits, EncodeOptions, ForeignIds, Input, LoadedModel, Outputs, RadixPlan, RaggedBatch,
    TextEncoder,
};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;
use tempfile::TempDir;

/// Files of a model by path.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Files replaced by [`config`], indexed by the first byte of its input.
pub const DESCRIPTIONS: [&str; 9] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "modules.json",
    "1_Pooling/config.json",
    "2_Dense/config.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "model.safetensors.index.json",
];

/// File with the tensors.
pub const WEIGHTS: &str = "model.safetensors";

/// Target: the safetensors file.
pub fn safetensors(bytes: &[u8]) {
    let mut files = base().clone();
    files.insert(WEIGHTS.to_owned(), bytes.to_vec());
    try_model(&files);
}

/// Target: a PyTorch file.
pub fn pytorch(bytes: &[u8]) {
    let mut files = base().clone();
    files.remove(WEIGHTS);
    files.insert("pytorch_model.bin".to_owned(), bytes.to_vec());
    try_model(&files);
}

/// Target: a GGUF file.
pub fn gguf(bytes: &[u8]) {
    try_model(&Files::from([("model.gguf".to_owned(), bytes.to_vec())]));
}

/// Target: one of a model's configuration files.
pub fn config(bytes: &[u8]) {
    let Some((&first, content)) = bytes.split_first() else { return };
    let name = DESCRIPTIONS[usize::from(first) % DESCRIPTIONS.len()];
    let mut files = base().clone();
    if name == "model.safetensors.index.json" {
        let weights = files.remove(WEIGHTS).expect("it is there");
        files.insert("a.safetensors".to_owned(), weights);
    }
    files.insert(name.to_owned(), content.to_vec());
    try_model(&files);
}

/// Asserts that loading files ends with a working model or with an error message.
pub(crate) fn try_model(files: &Files) {
    let directory = write(files);
    let source = ModelSource::Path(directory.path().to_owned());
    let described = model_summary(&source, None);
    let loaded =
        prefold_backends::load(&LoadOptions { source, device: Some(DeviceChoice::Cpu), ..LoadOptions::default() });
    for error in [described.as_ref().err(), loaded.as_ref().err()].into_iter().flatten() {
        check_error(error);
    }
    if let Ok(model) = loaded {
        check_model(model);
    }
}

/// Asserts that an error has a message.
fn check_error(error: &LoadError) {
    let message = error.to_string();
    assert!(message.len() > 10 && message.len() < 10_000, "{message}");
}

/// Asserts that a loaded model answers texts and batches.
fn check_model(model: LoadedModel) {
    let LoadedModel { mut backend, tokenizers, .. } = model;
    let info = backend.info().clone();
    let max_input_length = info.capabilities.max_input_length;
    let limits = EncodeLimits {
        vocab_size: info.limits().vocab_size,
        token_types: info.limits().token_types,
        max_input_length,
        auto_truncate: true,
        token_ids: ForeignIds::default(),
    };
    if let Ok(encoder) = TextEncoder::new(tokenizers.into_first(), Capabilities::clone(&info.capabilities), limits) {
        let inputs = vec![Input::Text("ab <|im_end|>".to_owned()), Input::Text("é".to_owned())];
        // The engine turns a panic of the library into an error, as here.
        let encoded = catch_unwind(AssertUnwindSafe(|| encoder.encode(inputs, &EncodeOptions::new("inputs"))));
        for ids in encoded.iter().flatten().flatten() {
            assert!(!ids.is_empty() && ids.len() <= max_input_length, "{ids:?}");
            assert!(ids.iter().all(|&id| (id as usize) < info.limits().vocab_size), "{ids:?}");
        }
    }
    let longest = max_input_length.min(3) as u32;
    let last = info.limits().vocab_size as u32 - 1;
    let sequences: Vec<Vec<u32>> =
        [0, 1, last].map(|end| (1..longest).chain([end]).map(|id| id.min(last)).collect()).into();
    let ragged = RaggedBatch::from_sequences(&sequences).expect("no sequence is empty");
    let (first, second) = match info.capabilities.embed {
        Some(_) => (Outputs::EMBEDDING, Outputs::TOKENS),
        None => (Outputs::LOGITS, Outputs::LOGITS),
    };
    let plan = RadixPlan::new(&ragged, 1);
    let batch = Batch { ragged, wanted: vec![first, second, first] };
    let outputs = backend.forward(&batch, Some(&plan)).unwrap_or_else(|error| panic!("loaded, and then: {error}"));
    assert_eq!(outputs.len(), sequences.len());
}

/// Writes files to an empty directory, in a memory file system if available.
fn write(files: &Files) -> TempDir {
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    let directory = directory.expect("there is room for files");
    for (name, content) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a directory can be made");
        fs::write(path, content).expect("a file can be written");
    }
    directory
}

/// Smallest complete model: an embedding model with a dense layer.
pub fn base() -> &'static Files {
    static BASE: OnceLock<Files> = OnceLock::new();
    BASE.get_or_init(|| {
        let json = |name: &str, value: Value| (name.to_owned(), value.to_string().into_bytes());
        let module =
            |path: &str, kind: &str| json!({"path": path, "type": format!("sentence_transformers.models.{kind}")});
        let modules = [
            module("", "Transformer"),
            module("1_Pooling", "Pooling"),
            module("2_Dense", "Dense"),
            module("3_Normalize", "Normalize"),
        ];
        let dense = json!({
            "in_features": HIDDEN, "out_features": 4, "bias": true,
            "activation_function": "torch.nn.modules.activation.Tanh",
        });
        Files::from([
            json("config.json", config_json()),
            json("tokenizer.json", tokenizer_json()),
            json("tokenizer_config.json", json!({"tokenizer_class": "Qwen2Tokenizer", "model_max_length": 32})),
            json("modules.json", json!(modules)),
            json(
                "1_Pooling/config.json",
                json!({"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": true}),
            ),
            json("2_Dense/config.json", dense),
            json("config_sentence_transformers.json", json!({"prompts": {"query": "b"}, "default_prompt_name": null})),
            json("sentence_bert_config.json", json!({"max_seq_length": 24, "do_lower_case": false})),
            (WEIGHTS.to_owned(), tensors_file(&tensors(), Dtype::F32)),
            (format!("2_Dense/{WEIGHTS}"), tensors_file(&dense_tensors(), Dtype::F32)),
        ])
    })
}

const HIDDEN: usize = 8;
const HEAD_DIM: usize = 4;
const VOCAB: usize = 12;

/// Configuration of the smallest model.
pub fn config_json() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": VOCAB, "hidden_size": HIDDEN,
        "intermediate_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": HEAD_DIM, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "max_position_embeddings": 32,
        "tie_word_embeddings": true, "hidden_act": "silu", "attention_bias": false,
    })
}

/// Tokenizer of the smallest model: byte-level BPE of two letters, with a reranker's tokens.
pub fn tokenizer_json() -> Value {
    let added = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(8, "<|im_start|>"), added(9, "<|im_end|>")],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|im_end|>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<|im_end|>": {"id": "<|im_end|>", "ids": [9], "tokens": ["<|im_end|>"]}},
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ã": 4, "©": 5, "yes": 6, "no": 7},
            "merges": [["a", "b"]],
        },
    })
}

/// Names and shapes of the smallest model's tensors.
pub fn tensors() -> Vec<(String, Vec<usize>)> {
    let layer = [
        ("input_layernorm", vec![HIDDEN]),
        ("self_attn.q_proj", vec![2 * HEAD_DIM, HIDDEN]),
        ("self_attn.k_proj", vec![HEAD_DIM, HIDDEN]),
        ("self_attn.v_proj", vec![HEAD_DIM, HIDDEN]),
        ("self_attn.o_proj", vec![HIDDEN, 2 * HEAD_DIM]),
        ("self_attn.q_norm", vec![HEAD_DIM]),
        ("self_attn.k_norm", vec![HEAD_DIM]),
        ("post_attention_layernorm", vec![HIDDEN]),
        ("mlp.gate_proj", vec![HIDDEN, HIDDEN]),
        ("mlp.up_proj", vec![HIDDEN, HIDDEN]),
        ("mlp.down_proj", vec![HIDDEN, HIDDEN]),
    ];
    let layer = layer.map(|(name, shape)| (format!("model.layers.0.{name}.weight"), shape));
    let whole = [("model.embed_tokens.weight", vec![VOCAB, HIDDEN]), ("model.norm.weight", vec![HIDDEN])];
    whole.map(|(name, shape)| (name.to_owned(), shape)).into_iter().chain(layer).collect()
}

fn dense_tensors() -> Vec<(String, Vec<usize>)> {
    vec![("linear.weight".to_owned(), vec![4, HIDDEN]), ("linear.bias".to_owned(), vec![4])]
}

/// Safetensors file of zeros.
pub fn tensors_file(tensors: &[(String, Vec<usize>)], dtype: Dtype) -> Vec<u8> {
    let zeros = vec![0; 8 * VOCAB * HIDDEN];
    let views = tensors.iter().map(|(name, shape)| {
        let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        (name, TensorView::new(dtype, shape.clone(), &zeros[..bytes]).expect("as many bytes as the shape asks for"))
    });
    safetensors::serialize(views, None).expect("tensors of no special kind")
}
