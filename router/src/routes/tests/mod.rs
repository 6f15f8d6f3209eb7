//! Each route over a fake backend: answers and their shapes.

mod capabilities;
mod classify;
mod cohere;
mod embed;
mod field_names;
mod infinity;
mod ollama;
mod openai;
mod peers;
mod prompts;
mod quantized;
mod rerank;
mod server;
mod two_models;
mod vllm;

use serde_json::Value;

fn floats(value: &Value) -> Vec<f32> {
    serde_json::from_value(value.clone()).unwrap()
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    value.as_array().unwrap().iter().map(|item| item[key].to_string()).collect()
}
