//! The checked configuration. [`Config::try_from`] makes it from [`Args`].

mod engine;
mod error;
pub(crate) mod model;
mod server;
mod telemetry;

use self::engine::engine_config;
use self::error::ConfigError;
use self::model::{model_source, rerank_recipe};
use self::server::server_config;
use self::telemetry::telemetry_config;
use super::args::Args;
use crate::server::stopping::ServerConfig;
use crate::state::ModelNames;
use crate::telemetry::logs::TelemetryConfig;
use prefold_backends::{DefaultPrompt, LoadOptions};
use prefold_core::EngineConfig;

/// The whole configuration, by component.
pub(crate) struct Config {
    pub(crate) load: LoadOptions,
    pub(crate) names: ModelNames,
    pub(crate) engine: EngineConfig,
    pub(crate) server: ServerConfig,
    pub(crate) telemetry: TelemetryConfig,
}

impl TryFrom<Args> for Config {
    type Error = ConfigError;

    fn try_from(args: Args) -> Result<Self, ConfigError> {
        let Args { command: _, positional: _, origins: _, config: _, model, batching, server, telemetry } = args;
        let prometheus_port = telemetry.prometheus_port;
        let telemetry = telemetry_config(telemetry)?;
        let (id, source) = model_source(&model.source, !telemetry.json)?;
        Ok(Self {
            names: ModelNames::new(id, model.served_model_name),
            load: LoadOptions {
                source,
                rerank_recipe: model.rerank_recipe.map(rerank_recipe).transpose()?,
                device: model.device,
                dtype: model.dtype.0,
                cpu_kernels: Some(model.cpu_kernels).filter(|name| name != "auto"),
                pooling: model.pooling,
                task: model.task,
                attention: model.attention,
                default_prompt: match (model.default_prompt_name, model.default_prompt) {
                    (Some(name), _) => Some(DefaultPrompt::Named(name)),
                    (None, text) => text.map(DefaultPrompt::Text),
                },
                rerank_instruction: model.rerank_instruction,
                dense_path: model.dense_path,
            },
            engine: engine_config(batching, server.max_buffered_bytes)?,
            server: server_config(server, telemetry.spans, prometheus_port)?,
            telemetry,
        })
    }
}

#[cfg(test)]
mod tests;
