//! Configuration files and vocabularies of encoders: their families, poolings and heads.

use crate::checkpoint::{Files, WEIGHTS, tensors_file, try_model};
use safetensors::Dtype;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// Files replaced by [`run`], indexed by the first byte of its input.
pub const DESCRIPTIONS: [&str; 7] = [
    "config.json",
    "tokenizer.json",
    VOCABULARY,
    "tokenizer_config.json",
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
];

/// The vocabulary file that replaces a `tokenizer.json`.
const VOCABULARY: &str = "vocab.txt";

/// Target: one of an encoder's configuration files.
pub fn run(bytes: &[u8]) {
    let Some((&first, content)) = bytes.split_first() else { return };
    let name = DESCRIPTIONS[usize::from(first) % DESCRIPTIONS.len()];
    let mut files = base().clone();
    if name == VOCABULARY {
        files.remove("tokenizer.json");
    }
    files.insert(name.to_owned(), content.to_vec());
    try_model(&files);
}

/// Smallest encoder: BERT as an embedding model, with additional tensors of other families and heads.
pub fn base() -> &'static Files {
    static BASE: OnceLock<Files> = OnceLock::new();
    BASE.get_or_init(|| {
        let json = |name: &str, value: Value| (name.to_owned(), value.to_string().into_bytes());
        let module =
            |path: &str, kind: &str| json!({"path": path, "type": format!("sentence_transformers.models.{kind}")});
        let modules = [module("", "Transformer"), module("1_Pooling", "Pooling"), module("2_Normalize", "Normalize")];
        Files::from([
            json("config.json", config_json()),
            json("tokenizer.json", tokenizer_json()),
            (VOCABULARY.to_owned(), VOCAB.join("\n").into_bytes()),
            json("tokenizer_config.json", json!({"tokenizer_class": "BertTokenizer", "do_lower_case": true})),
            json("modules.json", json!(modules)),
            json("1_Pooling/config.json", json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})),
            json("sentence_bert_config.json", json!({"max_seq_length": 16, "do_lower_case": false})),
            (WEIGHTS.to_owned(), tensors_file(&tensors(), Dtype::F32)),
        ])
    })
}

const HIDDEN: usize = 8;
const POSITIONS: usize = 20;
const VOCAB: [&str; 9] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##b", "e"];

/// Configuration of the smallest encoder.
pub fn config_json() -> Value {
    json!({
        "architectures": ["BertModel"], "model_type": "bert", "vocab_size": VOCAB.len(), "hidden_size": HIDDEN,
        "intermediate_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_act": "gelu",
        "max_position_embeddings": POSITIONS, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
        "position_embedding_type": "absolute", "id2label": {"0": "a"},
        // Fields of DistilBERT and MPNet.
        "dim": HIDDEN, "hidden_dim": HIDDEN, "n_layers": 1, "n_heads": 2, "activation": "gelu",
        "relative_attention_num_buckets": 32,
    })
}

/// Tokenizer of the smallest encoder: WordPiece with BERT's template.
pub fn tokenizer_json() -> Value {
    let vocab: serde_json::Map<String, Value> =
        VOCAB.iter().zip(0..).map(|(piece, id)| ((*piece).to_owned(), Value::from(id))).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                       "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "vocab": vocab, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100},
    })
}

/// Names (without a family's prefix) and shapes of the tensors of BERT, RoBERTa, MPNet and DistilBERT, and of their heads.
fn tensors() -> Vec<(String, Vec<usize>)> {
    const PROJECTIONS: [&str; 20] = [
        "encoder.layer.0.attention.self.query",
        "encoder.layer.0.attention.self.key",
        "encoder.layer.0.attention.self.value",
        "encoder.layer.0.attention.output.dense",
        "encoder.layer.0.intermediate.dense",
        "encoder.layer.0.output.dense",
        "encoder.layer.0.attention.attn.q",
        "encoder.layer.0.attention.attn.k",
        "encoder.layer.0.attention.attn.v",
        "encoder.layer.0.attention.attn.o",
        "transformer.layer.0.attention.q_lin",
        "transformer.layer.0.attention.k_lin",
        "transformer.layer.0.attention.v_lin",
        "transformer.layer.0.attention.out_lin",
        "transformer.layer.0.ffn.lin1",
        "transformer.layer.0.ffn.lin2",
        "embeddings_project",
        "pooler.dense",
        "classifier.dense",
        "pre_classifier",
    ];
    const NORMS: [&str; 6] = [
        "embeddings.LayerNorm",
        "encoder.layer.0.attention.output.LayerNorm",
        "encoder.layer.0.output.LayerNorm",
        "encoder.layer.0.attention.LayerNorm",
        "transformer.layer.0.sa_layer_norm",
        "transformer.layer.0.output_layer_norm",
    ];
    let dense = |name: &str, rows: usize| {
        [(format!("{name}.weight"), vec![rows, HIDDEN]), (format!("{name}.bias"), vec![rows])]
    };
    let table = |name: &str, rows: usize, columns: usize| (format!("{name}.weight"), vec![rows, columns]);
    let projections = PROJECTIONS.into_iter().flat_map(|name| dense(name, HIDDEN));
    let labels = ["classifier", "classifier.out_proj"].into_iter().flat_map(|name| dense(name, 1));
    let norms = NORMS
        .into_iter()
        .flat_map(|name| [format!("{name}.weight"), format!("{name}.bias")].map(|name| (name, vec![HIDDEN])));
    let tables = [
        table("embeddings.word_embeddings", VOCAB.len(), HIDDEN),
        table("embeddings.position_embeddings", POSITIONS, HIDDEN),
        table("embeddings.token_type_embeddings", 2, HIDDEN),
        table("encoder.relative_attention_bias", 32, 2),
    ];
    projections.chain(labels).chain(norms).chain(tables).collect()
}
