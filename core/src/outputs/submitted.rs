//! Passes that a backend has submitted.

use super::Output;
use crate::error::BackendError;

/// A submitted pass.
pub enum Submitted {
    /// The pass is done.
    Done(Vec<Output>),
    /// A device runs the pass.
    Running(Box<dyn RunningPass>),
}

/// A pass that a device runs. It can be awaited on any thread; its device runs it to the end in any case.
pub trait RunningPass: Send {
    /// Waits until the pass is done.
    ///
    /// # Errors
    /// Fails as a whole; no partial results.
    fn outputs(self: Box<Self>) -> Result<Vec<Output>, BackendError>;
}

impl Submitted {
    /// The outputs, once the pass is done.
    ///
    /// # Errors
    /// The pass fails as a whole; no partial results.
    pub fn outputs(self) -> Result<Vec<Output>, BackendError> {
        match self {
            Self::Done(outputs) => Ok(outputs),
            Self::Running(pass) => pass.outputs(),
        }
    }
}
