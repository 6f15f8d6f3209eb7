//! prefold: an embedding and reranking inference server that computes every shared prefix once.
//!
//! The binary `prefold` is [`run`]. [`routes`] is the HTTP side alone, over an existing engine; [`LocalModel`] is a
//! model without HTTP.
#![forbid(unsafe_code)]

mod app;
mod cli;
mod error;
mod layers;
mod loading;
mod local;
mod openapi;
mod routes;
mod server;
mod state;
mod telemetry;
#[cfg(test)]
mod testing;
mod wire;

pub use crate::app::{routes, run};
pub use crate::cli::CommandLine;
pub use crate::loading::Wrap;
pub use crate::local::{LocalModel, LocalModelError, RankedDocument, TextOptions, Vectors};
