//! The part of prefold that knows neither HTTP nor tensors: ragged batches, radix plans, tokenisation,
//! the queue, the planner and the engine that joins them to a [`Backend`].
#![forbid(unsafe_code)]

mod backend;
mod error;
mod model;
mod radix;
mod ragged;
mod request;
mod template;

pub use backend::{Backend, Batch, ModelInfo, ModelKind, Output, Pooling, Wanted};
pub use error::{BackendError, Error};
pub use model::LoadedModel;
pub use radix::{PlanBuilder, RadixPlan, Segment};
pub use ragged::{RaggedBatch, RaggedBatchError};
pub use request::{
    EmbedOptions, EncodeOptions, EngineConfig, Input, Prompts, RerankRequest, RerankScore, Response, Timings,
    TokenInfo, TruncationDirection, Usage,
};
pub use template::RerankTemplate;
