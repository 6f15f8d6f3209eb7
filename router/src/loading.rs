//! Loading: from a configuration to an engine.

use prefold_backends::{LoadError, LoadOptions};
use prefold_core::{Engine, EngineConfig, Error, ModelBackend};
use thiserror::Error as ThisError;

/// Wraps the loaded backend before the engine takes it.
pub type Wrap = fn(ModelBackend) -> ModelBackend;

/// Errors of starting the engine. Messages include the cause, so it is not also a source.
#[derive(Debug, ThisError)]
pub(crate) enum StartError {
    #[error("the model could not be loaded: {0}")]
    Load(LoadError),
    #[error("the engine could not start: {0}")]
    Engine(Error),
}

/// Loads the model and starts its engine; blocks meanwhile.
pub(crate) fn start_engine(load: &LoadOptions, wrap: Wrap, config: EngineConfig) -> Result<Engine, StartError> {
    let mut model = prefold_backends::load(load).map_err(StartError::Load)?;
    model.backend = wrap(model.backend);
    Engine::new(model, config).map_err(StartError::Engine)
}
