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
        ("bert", Gguf::bert().bytes()),
        ("xlm-roberta-reranker", Gguf::xlm_roberta_reranker().bytes()),
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

    /// An encoder of one layer with a WordPiece tokenizer.
    fn bert() -> Self {
        const HIDDEN: usize = 8;
        let mut gguf = Self { dtype: GgmlDType::F32, metadata: BTreeMap::new(), tensors: BTreeMap::new() };
        gguf.set("general.architecture", Value::String("bert".to_owned()));
        for (key, value) in [
            ("block_count", 1),
            ("embedding_length", HIDDEN),
            ("feed_forward_length", HIDDEN),
            ("attention.head_count", 2),
            ("context_length", 32),
            ("pooling_type", 1),
        ] {
            gguf.set(&format!("bert.{key}"), Value::U32(value as u32));
        }
        gguf.set("bert.attention.layer_norm_epsilon", Value::F32(1e-12));
        gguf.set("bert.attention.causal", Value::Bool(false));
        gguf.set("tokenizer.ggml.model", Value::String("bert".to_owned()));
        gguf.add_vocabulary(&["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u{2581}a", "b", "\u{2581}e", "\u{2581}<"]);
        for name in
            ["blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", "blk.0.attn_output", "blk.0.ffn_up", "blk.0.ffn_down"]
        {
            gguf.tensor(&format!("{name}.weight"), &[HIDDEN, HIDDEN]);
            gguf.tensor(&format!("{name}.bias"), &[HIDDEN]);
        }
        for name in ["token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"] {
            gguf.tensor(&format!("{name}.weight"), &[HIDDEN]);
            gguf.tensor(&format!("{name}.bias"), &[HIDDEN]);
        }
        for (name, rows) in [("token_embd", 8), ("position_embd", 32), ("token_types", 2)] {
            gguf.tensor(&format!("{name}.weight"), &[rows, HIDDEN]);
        }
        gguf
    }

    /// The same with a Unigram tokenizer and a classification head.
    fn xlm_roberta_reranker() -> Self {
        let mut gguf = Self::bert();
        gguf.set("bert.pooling_type", Value::U32(4));
        gguf.set("bert.classifier.output_labels", Value::Array(vec![Value::String("LABEL_0".to_owned())]));
        gguf.set("tokenizer.ggml.model", Value::String("t5".to_owned()));
        gguf.add_vocabulary(&["<s>", "<pad>", "</s>", "<unk>", "\u{2581}a", "b", "\u{2581}", "<mask>"]);
        let scores = [0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, 0.0].map(Value::F32);
        gguf.set("tokenizer.ggml.scores", Value::Array(scores.into()));
        for (key, id) in [("bos", 0), ("eos", 2), ("unknown", 3), ("mask", 7)] {
            gguf.set(&format!("tokenizer.ggml.{key}_token_id"), Value::U32(id));
        }
        // A character map without mappings: a trie with a unit for each byte, and one text.
        let map = 1024u32.to_le_bytes().into_iter().chain([0; 1024]).chain(*b"a\0").map(Value::U8);
        gguf.set("tokenizer.ggml.precompiled_charsmap", Value::Array(map.collect()));
        for (name, rows) in [("cls", 8), ("cls.output", 1)] {
            gguf.tensor(&format!("{name}.weight"), &[rows, 8]);
            gguf.tensor(&format!("{name}.bias"), &[rows]);
        }
        gguf.tensor("token_types.weight", &[1, 8]);
        gguf
    }

    /// A vocabulary whose first four tokens are special.
    fn add_vocabulary(&mut self, tokens: &[&str; 8]) {
        let tokens = tokens.map(|token| Value::String(token.to_owned()));
        self.set("tokenizer.ggml.tokens", Value::Array(tokens.into()));
        self.set("tokenizer.ggml.token_type", Value::Array([3, 3, 3, 3, 1, 1, 1, 1].map(Value::I32).into()));
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
