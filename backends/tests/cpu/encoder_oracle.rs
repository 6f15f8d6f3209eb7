//! Encoders of random shapes against the whole forward pass written plainly: one text at a time, in `f64`, by candle's own operations.
//! The same formulation in `f32` says how far its rounding alone leads away: the norm of few columns magnifies small differences.
//!
//! The fixtures show that the models are transformers'; these shapes have what no fixture has: heads of any width, layers of few columns, tables
//! of other sizes, all activations.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::encoders::*;
use crate::support::*;
use candle_core::{D, DType, Device, Result, Tensor};
use prefold_backends::LoadOptions;
use prefold_core::{Outputs, Tokens};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;

const VOCAB: usize = 50;
const POSITIONS: usize = 170;
const LONGEST: usize = 160;

/// The names that transformers gives to a family's fields and tensors.
struct Family {
    model_type: &'static str,
    class: &'static str,
    keys: [&'static str; 5],
    layers: &'static str,
    /// Query, key, value, output, norm, up, down, norm.
    layer: [&'static str; 8],
    first_position: usize,
    token_types: bool,
    /// Dense layer of the classifier, its activation, the last layer.
    head: [&'static str; 3],
}

const KEYS: [&str; 5] = ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act"];
const LAYER: [&str; 8] = [
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
];

const BERT: Family = Family {
    model_type: "bert",
    class: "Bert",
    keys: KEYS,
    layers: "bert.encoder.layer",
    layer: LAYER,
    first_position: 0,
    token_types: true,
    head: ["bert.pooler.dense", "tanh", "classifier"],
};

const FAMILIES: [Family; 5] = [
    BERT,
    Family {
        model_type: "xlm-roberta",
        class: "XLMRoberta",
        layers: "roberta.encoder.layer",
        first_position: 4,
        head: ["classifier.dense", "tanh", "classifier.out_proj"],
        ..BERT
    },
    Family {
        model_type: "mpnet",
        class: "MPNet",
        layers: "mpnet.encoder.layer",
        layer: [
            "attention.attn.q",
            "attention.attn.k",
            "attention.attn.v",
            "attention.attn.o",
            "attention.LayerNorm",
            "intermediate.dense",
            "output.dense",
            "output.LayerNorm",
        ],
        first_position: 2,
        token_types: false,
        head: ["classifier.dense", "tanh", "classifier.out_proj"],
        ..BERT
    },
    Family {
        model_type: "distilbert",
        class: "DistilBert",
        keys: ["dim", "n_layers", "n_heads", "hidden_dim", "activation"],
        layers: "distilbert.transformer.layer",
        layer: [
            "attention.q_lin",
            "attention.k_lin",
            "attention.v_lin",
            "attention.out_lin",
            "sa_layer_norm",
            "ffn.lin1",
            "ffn.lin2",
            "output_layer_norm",
        ],
        token_types: false,
        head: ["pre_classifier", "relu", "classifier"],
        ..BERT
    },
    Family {
        model_type: "electra",
        class: "Electra",
        layers: "electra.encoder.layer",
        head: ["classifier.dense", "gelu", "classifier.out_proj"],
        ..BERT
    },
];

#[derive(Debug, Clone)]
struct Shape {
    family: usize,
    heads: usize,
    head_dim: usize,
    layers: usize,
    intermediate: usize,
    /// Width of the embeddings, ELECTRA's alone.
    embedding: usize,
    activation: &'static str,
    types: usize,
    /// Rows of MPNet's table of biases, of which the first 32 count.
    buckets: usize,
    eps: f64,
    labels: Option<usize>,
    seed: u64,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let sizes = (0..FAMILIES.len(), 1usize..5, 1usize..41, 1usize..4, 1usize..130, 1usize..41);
    let kinds = (
        prop::sample::select(vec!["gelu", "gelu_new", "relu", "silu"]),
        1usize..4,
        32usize..40,
        prop::sample::select(vec![1e-12, 1e-5, 0.1]),
        prop::option::of(1usize..4),
        any::<u64>(),
    );
    (sizes, kinds).prop_map(
        |(
            (family, heads, head_dim, layers, intermediate, embedding),
            (activation, types, buckets, eps, labels, seed),
        )| {
            let embedding = embedding.min(heads * head_dim);
            Shape {
                family,
                heads,
                head_dim,
                layers,
                intermediate,
                embedding,
                activation,
                types,
                buckets,
                eps,
                labels,
                seed,
            }
        },
    )
}

impl Shape {
    fn family(&self) -> &'static Family {
        &FAMILIES[self.family]
    }

    fn hidden(&self) -> usize {
        self.heads * self.head_dim
    }

    /// A tensor's name below the family's own prefix.
    fn name(&self, rest: &str) -> String {
        format!("{}.{rest}", self.family().layers.split('.').next().unwrap())
    }

    fn config(&self) -> Value {
        let family = self.family();
        let class = if self.labels.is_some() { "ForSequenceClassification" } else { "Model" };
        let mut config = json!({
            "model_type": family.model_type, "architectures": [format!("{}{class}", family.class)], "vocab_size": VOCAB,
            "max_position_embeddings": POSITIONS, "type_vocab_size": self.types, "layer_norm_eps": self.eps,
            // RoBERTa's positions begin after this one.
            "pad_token_id": family.first_position.saturating_sub(1), "embedding_size": self.embedding,
            "relative_attention_num_buckets": self.buckets,
        });
        let sizes = [self.hidden(), self.layers, self.heads, self.intermediate];
        family.keys.iter().zip(sizes).for_each(|(key, size)| config[key] = size.into());
        config[family.keys[4]] = self.activation.into();
        if family.model_type == "distilbert" {
            config.as_object_mut().unwrap().remove("layer_norm_eps");
        }
        if let Some(labels) = self.labels {
            config["id2label"] = (0..labels).map(|label| (label.to_string(), json!(format!("L{label}")))).collect();
        }
        config
    }

    fn eps(&self) -> f64 {
        if self.family().model_type == "distilbert" { 1e-12 } else { self.eps }
    }

    /// Every tensor with its shape.
    fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let (family, hidden) = (self.family(), self.hidden());
        let is_electra = family.model_type == "electra";
        let width = if is_electra { self.embedding } else { hidden };
        let mut tensors = Vec::new();
        let mut dense = |name: String, rows: usize, columns: usize| {
            tensors.push((format!("{name}.weight"), vec![rows, columns]));
            tensors.push((format!("{name}.bias"), vec![rows]));
        };
        if is_electra && width != hidden {
            dense(self.name("embeddings_project"), hidden, width);
        }
        for layer in 0..self.layers {
            let name = |index: usize| format!("{}.{layer}.{}", family.layers, family.layer[index]);
            (0..4).for_each(|projection| dense(name(projection), hidden, hidden));
            dense(name(5), self.intermediate, hidden);
            dense(name(6), hidden, self.intermediate);
        }
        if let Some(labels) = self.labels {
            dense(family.head[0].to_owned(), hidden, hidden);
            dense(family.head[2].to_owned(), labels, hidden);
        }
        let mut norm = |name: String, width: usize| {
            tensors.push((format!("{name}.weight"), vec![width]));
            tensors.push((format!("{name}.bias"), vec![width]));
        };
        norm(self.name("embeddings.LayerNorm"), width);
        for layer in 0..self.layers {
            [4, 7].iter().for_each(|&at| norm(format!("{}.{layer}.{}", family.layers, family.layer[at]), hidden));
        }
        let tables = [("word", VOCAB), ("position", POSITIONS), ("token_type", self.types)];
        for (kind, rows) in &tables[..if family.token_types { 3 } else { 2 }] {
            tensors.push((self.name(&format!("embeddings.{kind}_embeddings.weight")), vec![*rows, width]));
        }
        if family.model_type == "mpnet" {
            let name = self.name("encoder.relative_attention_bias.weight");
            tensors.push((name, vec![self.buckets, self.heads]));
        }
        tensors
    }

    /// Random weights under which states keep their size.
    fn weights(&self) -> HashMap<String, Tensor> {
        let mut random = SmallRng::seed_from_u64(self.seed);
        let mut filled = |(name, shape): (String, Vec<usize>)| {
            let is_norm = name.ends_with("orm.weight");
            let spread = match shape[..] {
                [_, columns] if !name.contains("embeddings.") => 2.0 / (columns as f32).sqrt(),
                _ if is_norm => 0.4,
                _ => 0.7,
            };
            let middle = if is_norm { 1.0 } else { 0.0 };
            let values = (0..shape.iter().product()).map(|_| middle + random.random_range(-spread..spread));
            (name, Tensor::from_vec(values.collect::<Vec<f32>>(), shape, &Device::Cpu).unwrap())
        };
        self.tensors().into_iter().map(&mut filled).collect()
    }
}

/// The plain formulation, in the type of its weights.
struct Plain<'a> {
    shape: &'a Shape,
    weights: HashMap<String, Tensor>,
}

impl Plain<'_> {
    fn weight(&self, name: &str) -> &Tensor {
        &self.weights[name]
    }

    fn dense(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.weight(&format!("{name}.weight")).t()?)?.broadcast_add(self.weight(&format!("{name}.bias")))
    }

    fn norm(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let deviation = (centred.sqr()?.mean_keepdim(D::Minus1)? + self.shape.eps())?.sqrt()?;
        let scaled = centred.broadcast_div(&deviation)?.broadcast_mul(self.weight(&format!("{name}.weight")))?;
        scaled.broadcast_add(self.weight(&format!("{name}.bias")))
    }

    fn rows(&self, table: &str, rows: Vec<u32>) -> Result<Tensor> {
        let name = self.shape.name(&format!("embeddings.{table}_embeddings.weight"));
        let len = rows.len();
        self.weight(&name).index_select(&Tensor::from_vec(rows, len, &Device::Cpu)?, 0)
    }

    fn embeddings(&self, Text { ids, types }: &Text) -> Result<Tensor> {
        let family = self.shape.family();
        let first = family.first_position;
        // Tokens with the id of the padding have its position, and the others are counted without them.
        let mut seen = 0;
        let position = |&id: &u32| match first > 0 && id as usize == first - 1 {
            true => id,
            false => {
                seen += 1;
                (first + seen - 1) as u32
            }
        };
        let mut sum = (self.rows("word", ids.clone())? + self.rows("position", ids.iter().map(position).collect())?)?;
        if family.token_types {
            sum = (sum + self.rows("token_type", types.clone())?)?;
        }
        let normed = self.norm(&self.shape.name("embeddings.LayerNorm"), &sum)?;
        let projection = self.shape.name("embeddings_project");
        match self.weights.contains_key(&format!("{projection}.weight")) {
            true => self.dense(&projection, &normed),
            false => Ok(normed),
        }
    }

    /// MPNet's biases, `[heads, len, len]`.
    fn relative_bias(&self, len: usize) -> Result<Tensor> {
        let exact = 8;
        let bucket = |query: usize, key: usize| {
            let distance = query.abs_diff(key);
            let within = if distance < exact {
                distance
            } else {
                let share = (distance as f32 / exact as f32).ln() / (128.0 / exact as f32).ln();
                (exact + (share * exact as f32) as usize).min(2 * exact - 1)
            };
            (within + if key > query { 2 * exact } else { 0 }) as u32
        };
        let buckets: Vec<u32> = (0..len * len).map(|at| bucket(at / len, at % len)).collect();
        let table = self.weight(&self.shape.name("encoder.relative_attention_bias.weight"));
        let biases = table.index_select(&Tensor::from_vec(buckets, len * len, &Device::Cpu)?, 0)?;
        biases.reshape((len, len, self.shape.heads))?.permute((2, 0, 1))?.contiguous()
    }

    fn layer(&self, index: usize, x: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let (family, shape) = (self.shape.family(), self.shape);
        let name = |at: usize| format!("{}.{index}.{}", family.layers, family.layer[at]);
        let len = x.dim(0)?;
        let heads =
            |at| self.dense(&name(at), x)?.reshape((len, shape.heads, shape.head_dim))?.transpose(0, 1)?.contiguous();
        let mut scores = (heads(0)?.matmul(&heads(1)?.t()?)? / (shape.head_dim as f64).sqrt())?;
        if let Some(bias) = bias {
            scores = (scores + bias)?;
        }
        let shares = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
        let shares = shares.broadcast_div(&shares.sum_keepdim(D::Minus1)?)?;
        let attended = shares.matmul(&heads(2)?)?.transpose(0, 1)?.reshape((len, shape.hidden()))?;
        let x = self.norm(&name(4), &(x + self.dense(&name(3), &attended)?)?)?;
        let inner = activated(&self.dense(&name(5), &x)?, shape.activation)?;
        self.norm(&name(7), &(&x + self.dense(&name(6), &inner)?)?)
    }

    /// The states of all tokens, or the logits.
    fn forward(&self, text: &Text) -> Result<Vec<f64>> {
        let mut x = self.embeddings(text)?;
        let has_bias = self.shape.family().model_type == "mpnet";
        let bias = has_bias.then(|| self.relative_bias(text.ids.len())).transpose()?;
        for index in 0..self.shape.layers {
            x = self.layer(index, &x, bias.as_ref())?;
        }
        if self.shape.labels.is_some() {
            let [dense, activation, last] = self.shape.family().head;
            x = self.dense(last, &activated(&self.dense(dense, &x.narrow(0, 0, 1)?)?, activation)?)?;
        }
        x.flatten_all()?.to_dtype(DType::F64)?.to_vec1()
    }
}

fn activated(x: &Tensor, activation: &str) -> Result<Tensor> {
    match activation {
        "gelu" => x.gelu_erf(),
        "gelu_new" => x.gelu(),
        "relu" => x.relu(),
        "silu" => x.silu(),
        "tanh" => x.tanh(),
        other => panic!("{other}"),
    }
}

fn write(shape: &Shape, weights: &HashMap<String, Tensor>, directory: &Path) {
    let vocab: serde_json::Map<String, Value> = (0..VOCAB).map(|id| (format!("w{id}"), id.into())).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "w0"},
    });
    for (name, content) in [("config.json", shape.config()), ("tokenizer.json", tokenizer)] {
        std::fs::write(directory.join(name), content.to_string()).unwrap();
    }
    candle_core::safetensors::save(weights, directory.join("model.safetensors")).unwrap();
}

/// Ids and token types.
#[derive(Debug, Clone)]
struct Text {
    ids: Vec<u32>,
    types: Vec<u32>,
}

fn text(types: u32) -> impl Strategy<Value = Text> {
    prop::collection::vec((0..VOCAB as u32, 0..types), 1..LONGEST).prop_map(|tokens| {
        let (ids, types) = tokens.into_iter().unzip();
        Text { ids, types }
    })
}

fn shapes_and_texts() -> impl Strategy<Value = (Shape, Vec<Text>)> {
    shapes().prop_flat_map(|shape| {
        let types = if shape.family().token_types { shape.types as u32 } else { 1 };
        (Just(shape), prop::collection::vec(text(types), 1..4))
    })
}

fn check(shape: &Shape, texts: &[Text]) {
    let directory = tempfile::tempdir().unwrap();
    let weights = shape.weights();
    write(shape, &weights, directory.path());
    let pooling = shape.labels.is_none().then(|| pooling("mean"));
    let mut model = load(&LoadOptions { pooling, ..options(directory.path().to_owned()) });
    let plain = |dtype| {
        let typed = weights.iter().map(|(name, tensor)| (name.clone(), tensor.to_dtype(dtype).unwrap())).collect();
        Plain { shape, weights: typed }
    };
    let (exact, rounded) = (plain(DType::F64), plain(DType::F32));
    let wanted = if shape.labels.is_some() { Outputs::LOGITS } else { Outputs::TOKENS };
    let tokens = |text: &Text| Tokens::new(text.ids.clone()).with_token_types(text.types.clone()).unwrap();
    let outputs = forward(&mut model, &texts.iter().map(tokens).collect::<Vec<_>>(), wanted);
    for (text, output) in texts.iter().zip(outputs) {
        let found = &output.all().next().unwrap().data;
        let [expected, rounded] = [&exact, &rounded].map(|plain| plain.forward(text).unwrap());
        let rounding = expected.iter().zip(&rounded).fold(0.0f64, |most, (a, b)| most.max((a - b).abs()));
        let expected: Vec<f32> = expected.into_iter().map(|value| value as f32).collect();
        let largest = expected.iter().fold(1.0f32, |most, value| most.max(value.abs()));
        let tolerance = 2e-4 * largest + 8.0 * rounding as f32;
        assert_close(&format!("{shape:?}, {} tokens", text.ids.len()), found, &expected, tolerance);
    }
}

#[test]
fn every_shape_computes_what_the_plain_formulation_does() {
    proptest!(ProptestConfig::with_cases(150), |((shape, texts) in shapes_and_texts())| check(&shape, &texts));
}
