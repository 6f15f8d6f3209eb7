//! Seeds: GGUF files of the smallest models.

use super::Seeds;
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use std::collections::BTreeMap;
use std::io::Cursor;

pub(crate) fn seeds() -> Seeds {
    let llama = Gguf::new("llama", "llama-bpe", 8, GgmlDType::F32);
    let mut factors = llama.clone();
    factors.tensor("rope_freqs.weight", &[2]);
    let mut qwen2 = Gguf::new("qwen2", "qwen2", 8, GgmlDType::F16);
    for part in ["attn_q", "attn_k", "attn_v"] {
        qwen2.tensor(&format!("blk.0.{part}.bias"), &[if part == "attn_q" { 8 } else { 4 }]);
    }
    let mut pooled = qwen2.clone();
    pooled.set("qwen2.pooling_type", Value::U32(3));
    let qwen3 = |dtype| {
        let mut gguf = Gguf::new("qwen3", "gpt-2", 32, dtype);
        gguf.tensor("blk.0.attn_q_norm.weight", &[16]);
        gguf.tensor("blk.0.attn_k_norm.weight", &[16]);
        gguf
    };
    let mut split = llama.clone();
    split.set("split.count", Value::U16(2));
    let whole = llama.bytes();
    [
        ("llama", whole.clone()),
        ("llama-factors", factors.bytes()),
        ("qwen2", qwen2.bytes()),
        ("qwen2-pooled", pooled.bytes()),
        ("qwen3-q8_0", qwen3(GgmlDType::Q8_0).bytes()),
        ("qwen3-q4_1", qwen3(GgmlDType::Q4_1).bytes()),
        ("split", split.bytes()),
        ("cut", whole[..whole.len() - 40].to_vec()),
        ("header", whole[..200].to_vec()),
        ("empty", b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec()),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

#[derive(Clone)]
struct Gguf {
    dtype: GgmlDType,
    metadata: BTreeMap<String, Value>,
    /// Shapes of the tensors, whose values are zero.
    tensors: BTreeMap<String, Vec<usize>>,
}

impl Gguf {
    /// One layer with two query heads and one key/value head. Vectors are float32 for every `dtype`.
    fn new(architecture: &str, pre: &str, hidden: usize, dtype: GgmlDType) -> Self {
        let mut gguf = Self { dtype, metadata: BTreeMap::new(), tensors: BTreeMap::new() };
        let head_dim = hidden / 2;
        gguf.set("general.architecture", Value::String(architecture.to_owned()));
        for (key, value) in [
            ("block_count", 1),
            ("embedding_length", hidden),
            ("feed_forward_length", hidden),
            ("attention.head_count", 2),
            ("attention.head_count_kv", 1),
            ("attention.key_length", head_dim),
            ("rope.dimension_count", head_dim),
            ("context_length", 32),
        ] {
            gguf.set(&format!("{architecture}.{key}"), Value::U32(value as u32));
        }
        gguf.set(&format!("{architecture}.attention.layer_norm_rms_epsilon"), Value::F32(1e-5));
        gguf.set(&format!("{architecture}.rope.freq_base"), Value::F32(10_000.0));
        gguf.add_tokenizer(pre);
        for part in ["attn_norm", "ffn_norm"] {
            gguf.tensor(&format!("blk.0.{part}.weight"), &[hidden]);
        }
        for part in ["attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
            gguf.tensor(&format!("blk.0.{part}.weight"), &[hidden, hidden]);
        }
        for part in ["attn_k", "attn_v"] {
            gguf.tensor(&format!("blk.0.{part}.weight"), &[head_dim, hidden]);
        }
        gguf.tensor("output_norm.weight", &[hidden]);
        gguf.tensor("token_embd.weight", &[8, hidden]);
        gguf
    }

    fn set(&mut self, key: &str, value: Value) {
        self.metadata.insert(key.to_owned(), value);
    }

    fn tensor(&mut self, name: &str, shape: &[usize]) {
        self.tensors.insert(name.to_owned(), shape.to_vec());
    }

    fn add_tokenizer(&mut self, pre: &str) {
        let strings = |values: &[&str]| Value::Array(values.iter().map(|s| Value::String((*s).to_owned())).collect());
        let tokens = ["a", "b", "Ġ", "ab", "yes", "no", "<|im_start|>", "<|im_end|>"];
        self.set("tokenizer.ggml.model", Value::String("gpt2".to_owned()));
        self.set("tokenizer.ggml.pre", Value::String(pre.to_owned()));
        self.set("tokenizer.ggml.tokens", strings(&tokens));
        self.set("tokenizer.ggml.token_type", Value::Array([1, 1, 1, 1, 1, 1, 3, 3].map(Value::I32).into()));
        self.set("tokenizer.ggml.merges", strings(&["a b"]));
        self.set("tokenizer.ggml.bos_token_id", Value::U32(6));
        self.set("tokenizer.ggml.eos_token_id", Value::U32(7));
        self.set("tokenizer.ggml.add_eos_token", Value::Bool(true));
    }

    fn bytes(&self) -> Vec<u8> {
        let tensor = |shape: &Vec<usize>| {
            let dtype = if shape.len() == 1 { GgmlDType::F32 } else { self.dtype };
            let zeros = Tensor::zeros(shape.as_slice(), candle_core::DType::F32, &Device::Cpu).unwrap();
            QTensor::quantize(&zeros, dtype).unwrap()
        };
        let tensors: Vec<_> = self.tensors.iter().map(|(name, shape)| (name.as_str(), tensor(shape))).collect();
        let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
        let metadata: Vec<_> = self.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let mut bytes = Cursor::new(Vec::new());
        gguf_file::write(&mut bytes, &metadata, &tensors).unwrap();
        bytes.into_inner()
    }
}
