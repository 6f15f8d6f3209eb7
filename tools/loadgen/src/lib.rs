//! A load generator for embedding and reranking servers: `prefold bench`.
//!
//! It supports OpenAI's, text-embeddings-inference's, Cohere's and vLLM's APIs, so that the same requests can compare
//! servers. [`workload`] builds them before the clock starts, [`run`] sends them in a closed or open loop, [`measure`]
//! combines runs into a warm-up and rounds, [`api`] validates responses, [`record`] counts results, [`report`] prints them,
//! [`mixed`] prints the tables of a mixed load, [`summary`] describes the results in prose.
#![forbid(unsafe_code)]

mod address;
mod answer;
mod api;
mod args;
mod bench;
mod builtin;
pub mod chart;
mod client;
mod measure;
mod mixed;
pub mod ms_marco;
mod ms_marco_texts;
mod plot;
mod queries_args;
mod random;
mod record;
mod report;
mod run;
mod schedule;
mod sentences;
mod server_side;
mod summary;
mod template;
#[cfg(test)]
mod test_server;
mod text_width;
mod words;
mod workload;

pub use args::Bench;
