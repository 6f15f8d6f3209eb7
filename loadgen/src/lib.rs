//! A load generator for embedding and reranking servers: `prefold bench`.
//!
//! It speaks OpenAI's, text-embeddings-inference's, Cohere's and vLLM's APIs, so that servers can be compared by the
//! same requests: [`workload`] makes them once before the clock starts, [`run`] sends them in a closed or an open
//! loop, [`api`] checks that answers are answers, [`record`] counts, [`report`] prints.
#![forbid(unsafe_code)]

mod answer;
mod api;
mod args;
mod bench;
pub mod chart;
mod client;
mod plot;
mod record;
mod report;
mod run;
mod schedule;
mod server_side;
mod template;
mod workload;

pub use args::Bench;
