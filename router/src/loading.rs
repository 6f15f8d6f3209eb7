//! Loading: from a configuration to an engine.

use crate::error::flag;
use prefold_backends::{LoadError, LoadOptions};
use prefold_core::{
    BackendError, Engine, EngineConfig, Error, InvalidSetting, ModelBackend, ProcessQuotas, StartError as EngineError,
};
use thiserror::Error as ThisError;

/// Wraps each loaded backend before the engine takes it.
pub type Wrap = fn(ModelBackend) -> ModelBackend;

/// Errors of starting the engine. Messages include the cause, so it is not also a source.
#[derive(Debug, ThisError)]
pub(crate) enum StartError {
    #[error("the model could not be loaded: {0}")]
    Load(LoadError),
    #[error("`{}` {}", flag(.0.setting), .0.problem)]
    Setting(InvalidSetting),
    #[error("the engine could not start: {0}{flags}", flags = start_advice(.0))]
    Engine(Error),
}

impl StartError {
    /// True if the device failed permanently while the model was loaded.
    pub(crate) fn is_device_lost(&self) -> bool {
        matches!(self, Self::Engine(Error::Backend(BackendError::DeviceLost(_))))
    }
}

impl From<InvalidSetting> for StartError {
    fn from(error: InvalidSetting) -> Self {
        Self::Setting(error)
    }
}

impl From<EngineError> for StartError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Setting(error) => Self::Setting(error),
            EngineError::Other(error) => Self::Engine(error),
        }
    }
}

/// Advice after the message of an engine that does not start: a flag that helps.
fn start_advice(error: &Error) -> &'static str {
    match error {
        Error::Backend(BackendError::NotFinite { dtype: "float32", .. }) => " (--warmup-tokens 0 starts nevertheless)",
        Error::Backend(BackendError::NotFinite { .. }) => " (--dtype float32; --warmup-tokens 0 starts nevertheless)",
        _ => "",
    }
}

/// Loads the model and starts its engine; blocks meanwhile.
pub(crate) fn start_engine(
    load: &LoadOptions,
    wrap: Wrap,
    config: EngineConfig,
    quotas: ProcessQuotas,
) -> Result<Engine, StartError> {
    let model = prefold_backends::load(load).map_err(StartError::Load)?;
    Ok(Engine::new(model.map_backends(wrap), config, quotas)?)
}
