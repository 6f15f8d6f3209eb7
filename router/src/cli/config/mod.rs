//! The checked configuration. [`Config::try_from`] makes it from [`Args`].

mod engine;
mod error;
pub(crate) mod model;
mod server;
mod telemetry;

use self::engine::engine_config;
pub(crate) use self::error::ConfigError;
use self::model::{adapter_base, load_options, model_source};
use self::server::server_config;
use self::telemetry::telemetry_config;
use super::args::Args;
use crate::server::stopping::ServerConfig;
use crate::state::model_names::ModelNames;
use crate::telemetry::logs::TelemetryConfig;
use prefold_backends::LoadOptions;
use prefold_core::{EngineConfig, ProcessLimits};

/// The whole configuration, by component.
pub(crate) struct Config {
    pub(crate) load: LoadOptions,
    pub(crate) names: ModelNames,
    pub(crate) engine: EngineConfig,
    pub(crate) limits: ProcessLimits,
    pub(crate) server: ServerConfig,
    pub(crate) telemetry: TelemetryConfig,
}

impl TryFrom<Args> for Config {
    type Error = ConfigError;

    fn try_from(args: Args) -> Result<Self, ConfigError> {
        let Args { model, batching, server, telemetry } = args;
        let prometheus_port = telemetry.prometheus_port;
        let telemetry = telemetry_config(telemetry)?;
        let (id, source) = model_source(&model.source, !telemetry.json)?;
        let base = adapter_base(&model.source, &source);
        Ok(Self {
            names: ModelNames::new(id, model.served_model_name),
            load: LoadOptions { base, ..load_options(source, model.load, model.dtype.0)? },
            limits: ProcessLimits {
                max_concurrent_requests: batching.max_concurrent_requests,
                max_buffered_bytes: server.max_buffered_bytes,
            },
            engine: engine_config(batching, server.share_prefixes)?,
            server: server_config(server, telemetry.spans, prometheus_port)?,
            telemetry,
        })
    }
}

#[cfg(test)]
mod extreme_tests;
#[cfg(test)]
mod tests;
