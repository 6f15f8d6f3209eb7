//! Inference engine, without HTTP and tensors: ragged batches, radix plans, tokenization, the queue, the planner, and the
//! [`Engine`] that connects them to a [`Backend`].
#![forbid(unsafe_code)]

mod admission;
mod backend;
mod capabilities;
mod config;
mod encode;
mod engine;
mod error;
mod execute;
mod flow;
pub mod metrics;
mod non_empty;
mod outputs;
mod plan;
mod postprocess;
mod request;
mod response;
mod schedule;
mod shown;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tokenizer_limits;
pub mod trace;
mod yield_point;

pub use admission::process_quotas::ProcessQuotas;
pub use admission::quota::{Quota, Share};
pub use backend::{
    Backend, Batch, BatchLimits, Folding, InputMemory, Int8Report, Interrupting, ModelBackend, ModelInfo,
    PrefixBackend, Replica, SubModelMap, TokenLimits,
};
pub use capabilities::{
    Capabilities, Classify, ClassifyTokens, Embed, LogitActivation, Pooling, Prompts, Rerank, RerankRecipe,
    RerankTemplate, Task, TaskProfile, sigmoid, softmax,
};
pub use config::{EngineConfig, InvalidSetting, ProcessLimits, Scheduling, StartError};
pub use encode::text_encoder::TextEncoder;
pub use engine::Engine;
pub use engine::loaded_model::LoadedModel;
pub use engine::pauses::{Pauses, drop_aside};
pub use error::{BackendError, Error, FairPart, Resource};
pub use flow::{Account, Priority};
pub use non_empty::NonEmpty;
pub use outputs::submitted::{RunningPass, Submitted};
pub use outputs::{Output, OutputKind, Outputs, Values};
pub use plan::radix::{PlanBuilder, RadixPlan, Segment};
pub use plan::ragged::{RaggedBatch, RaggedBatchError};
pub use plan::tokens::{LengthMismatch, Scope, TaskId, TokenSlice, Tokens};
pub use postprocess::aggregation::Aggregation;
pub use postprocess::entities::{Entities, Entity, Step};
pub use request::{
    EmbedOptions, EncodeLimits, EncodeOptions, ForeignIds, Input, Place, Prompt, ScoreRequest, SharedText,
    TruncationDirection,
};
pub use response::{RerankScore, Response, TextToken, Timings, TokenInfo, TokenLogits, TokenVectors, Usage};
pub use shown::{excerpt, listed, shown, without_credentials};
pub use tokenizer_limits::{
    TokenizerFile, TokenizerSums, check_added_tokens, check_charsmap, check_merges, check_normalizer, check_pieces,
    check_unigram,
};
pub use yield_point::{Stopped, Uninterrupted, YieldPoint};
