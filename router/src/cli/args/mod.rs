//! Flags of serving, and flags that a subcommand shares with it.
//!
//! Flags with the same meaning as in text-embeddings-inference have the same names.

mod batching;
mod model;
mod server;
mod telemetry;
mod values;

pub(crate) use self::batching::BatchingArgs;
use self::model::ModelArgs;
pub(crate) use self::model::{FilesArgs, LoadArgs, NamedSourceArgs, SourceArgs};
pub(crate) use self::server::ServerArgs;
pub(crate) use self::telemetry::TelemetryArgs;
pub(crate) use self::values::{InputLength, chosen_dtype};

/// Flags of serving, by heading.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) batching: BatchingArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
}
