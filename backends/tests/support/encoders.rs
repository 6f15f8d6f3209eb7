//! Encoders: their fixtures, and batches of tokens with types.

use super::*;
use prefold_core::{Output, TaskId, Tokens};

pub const EMBEDDERS: [&str; 32] = [
    "bert-mean-tiny",
    "bert-cls-tiny",
    "bert-legacy-tiny",
    "roberta-tiny",
    "xlm-roberta-tiny",
    "mpnet-tiny",
    "distilbert-tiny",
    "electra-tiny",
    "modernbert-tiny",
    "nomic-tiny",
    "gte-base-tiny",
    "llama-bidirec-tiny",
    "qwen3-bidirectional-tiny",
    "embeddinggemma-tiny",
    "jina-v2-tiny",
    "nomic-moe-tiny",
    "jina-v3-tiny",
    "jina-v2-code-tiny",
    "deberta-v2-tiny",
    "eurobert-tiny",
    "xlm-roberta-xl-tiny",
    "ministral3-tiny",
    "pplx-tiny",
    "bidirlm-tiny",
    "jina-v5-nano-tiny",
    "t5-tiny",
    "t5-gated-tiny",
    "umt5-tiny",
    "lfm2-bidirectional-tiny",
    WIDE_HEADED_ENCODERS[0],
    WIDE_HEADED_ENCODERS[1],
    WIDE_HEADED_ENCODERS[2],
];

/// Encoders with heads of 64 or 128 values, for which the tensor-core kernel exists.
pub const WIDE_HEADED_ENCODERS: [&str; 3] =
    ["bert-head64-tiny", "modernbert-head64-tiny", "embeddinggemma-head128-tiny"];

/// Static embeddings, whose tables stay on the CPU.
pub const STATIC: [&str; 2] = ["model2vec-tiny", "static-embedding-tiny"];

/// Models whose texts go through the modules of their task.
pub const ROUTED: [&str; 3] = ["router-encoders-tiny", "router-static-tiny", "asym-tiny"];

/// Tasks of jina-v3-tiny's adapters, in their order.
pub const TASKS: [&str; 5] = ["retrieval.query", "retrieval.passage", "separation", "classification", "text-matching"];

/// Token classifiers.
pub const TOKEN_CLASSIFIERS: [&str; 5] =
    ["bert-ner-tiny", "xlm-roberta-ner-tiny", "modernbert-ner-tiny", "eurobert-ner-tiny", "xlm-roberta-xl-ner-tiny"];

pub const CLASSIFIERS: [&str; 14] = [
    "bert-reranker-tiny",
    "bert-nli-tiny",
    "xlm-roberta-reranker-tiny",
    "mpnet-reranker-tiny",
    "distilbert-nli-tiny",
    "electra-reranker-tiny",
    "modernbert-reranker-tiny",
    "modernbert-bias-tiny",
    "gte-reranker-tiny",
    "deberta-v2-reranker-tiny",
    "eurobert-late-tiny",
    "eurobert-bos-tiny",
    "eurobert-mean-tiny",
    "xlm-roberta-xl-reranker-tiny",
];

/// Poolings of a fixture whose values it has, and their fields: all poolings of the states, the default one after dense modules,
/// or the mean of a static embedding.
pub fn poolings(expected: &Value) -> Vec<(&str, &str)> {
    let default = &expected["default"];
    match default["dense"].as_u64() {
        _ if expected["kind"] == "static" => vec![("mean", "mean")],
        None | Some(0) => vec![("mean", "mean"), ("cls", "cls")],
        Some(_) => vec![(default["pooling"].as_str().unwrap(), default["key"].as_str().unwrap())],
    }
}

pub fn tokens(case: &Value) -> Tokens {
    let task = case["task"].as_str().map(|task| TASKS.iter().position(|known| *known == task).unwrap() as u8 + 1);
    let tokens = Tokens::new(ids(case)).with_task(TaskId(task.unwrap_or(0)));
    match case["token_type_ids"].as_array() {
        Some(types) => {
            let types = types.iter().map(|id| id.as_u64().unwrap() as u32).collect();
            tokens.with_token_types(types).unwrap()
        }
        None => tokens,
    }
}

pub fn forward(model: &mut LoadedModel, sequences: &[Tokens], wanted: Outputs) -> Vec<Output> {
    let mut ragged = RaggedBatch::default();
    sequences.iter().for_each(|tokens| ragged.push(tokens.as_slice()).unwrap());
    let batch = Batch { wanted: vec![wanted; sequences.len()], ragged };
    model.backend.forward(&batch, None).unwrap()
}

pub fn values(model: &mut LoadedModel, sequences: &[Tokens]) -> Vec<Vec<f32>> {
    let wanted = Outputs::of_head(&model.backend.info().capabilities);
    forward(model, sequences, wanted).iter().map(|output| output.all().next().unwrap().data.clone()).collect()
}

/// Calls `check` with each case's values, computed alone and with all others.
pub fn check_cases(model: &mut LoadedModel, cases: &[&Value], check: impl Fn(&str, &Value, &[f32])) {
    let sequences: Vec<Tokens> = cases.iter().map(|case| tokens(case)).collect();
    let together = values(model, &sequences);
    for ((case, sequence), together) in cases.iter().zip(&sequences).zip(together) {
        check(&format!("{}, with others", case["name"]), case, &together);
        check(&format!("{}, alone", case["name"]), case, &values(model, std::slice::from_ref(sequence))[0]);
    }
}
