//! The part of prefold that knows neither HTTP nor tensors: ragged batches, radix plans, tokenisation,
//! the queue, the planner and the engine that joins them to a [`Backend`].
#![forbid(unsafe_code)]

mod answer_size;
mod backend;
mod batcher;
mod edge_table;
mod encode;
mod engine;
mod error;
mod gate;
mod limits;
pub mod metrics;
mod model;
mod parts;
mod pipeline;
mod postprocess;
mod prefix_index;
mod queue;
mod radix;
mod ragged;
mod recipe;
mod request;
mod rerank_prompt;
mod room;
#[cfg(test)]
mod scheduling_tests;
mod steps;
mod template;
#[cfg(test)]
mod test_support;
mod text_bound;
mod text_encoder;
mod tokenize;
pub mod trace;
mod unqueued;

pub use backend::{Backend, Batch, BatchLimits, ModelInfo, ModelKind, Output, Pooling, TooLarge, Wanted};
pub use engine::Engine;
pub use error::{BackendError, Error};
pub use model::LoadedModel;
pub use postprocess::{sigmoid, softmax};
pub use radix::{PlanBuilder, RadixPlan, Segment};
pub use ragged::{RaggedBatch, RaggedBatchError};
pub use recipe::RerankRecipe;
pub use request::{
    EmbedOptions, EncodeLimits, EncodeOptions, EngineConfig, Input, Place, Prompts, RerankScore, Response, Scheduling,
    ScoreRequest, Timings, TokenInfo, TruncationDirection, Usage,
};
pub use template::RerankTemplate;
pub use text_encoder::TextEncoder;
