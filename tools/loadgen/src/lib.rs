//! A load generator for embedding and reranking servers: `prefold bench`.
//!
//! It supports OpenAI's, text-embeddings-inference's, Cohere's and vLLM's APIs, so that the same requests can compare
//! servers. [`workload`] builds the requests before the clock starts, [`load::run`] sends them in a closed or open loop,
//! [`http::api`] validates the responses, [`load::record`] counts them, [`command::measure`] combines runs into a warm-up
//! and rounds, [`results`] prints tables, prose and charts.
#![forbid(unsafe_code)]

mod command;
mod http;
mod load;
mod results;
pub mod workload;

pub use command::args::Bench;
