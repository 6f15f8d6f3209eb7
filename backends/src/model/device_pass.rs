//! A pass that a device runs, until its answers are on the host.

use super::head::{Asked, Head, States};
use crate::ops::{Downloading, Downloads, Target, Yields};
use candle_core::{DType, Device, Result, Tensor};
use prefold_core::{BackendError, Batch, Output, RunningPass, Uninterrupted};
use std::sync::Arc;

/// A submitted pass. The copies of its states to the host are queued after its operations.
pub(super) struct DevicePass {
    head: Arc<Head>,
    asked: Asked,
    pooled: Downloading,
    /// `None` where no answer needs the states of tokens.
    hidden: Option<Downloading>,
    target: Target,
}

impl DevicePass {
    /// Queues the copies of the final and the pooled states.
    ///
    /// # Errors
    /// There is no memory.
    pub(super) fn start(
        head: &Arc<Head>,
        downloads: &Downloads,
        target: &Target,
        batch: &Batch,
        (hidden, pooled, asked): (Tensor, Tensor, Asked),
    ) -> Result<Self> {
        let hidden = head.needs_tokens(batch).then(|| downloads.start(&hidden)).transpose()?;
        let pooled = downloads.start(&pooled)?;
        Ok(Self { head: Arc::clone(head), asked, pooled, hidden, target: target.clone() })
    }

    fn answer(self) -> Result<Vec<Output>> {
        let pooled = self.pooled.on_host()?;
        let hidden = match self.hidden {
            Some(hidden) => hidden.on_host()?,
            None => Tensor::zeros((0, 1), DType::F32, &Device::Cpu)?,
        };
        let states = States { hidden: &hidden, pooled: &pooled };
        self.head.answer(states, &self.asked, &mut Yields::new(&mut Uninterrupted))
    }
}

impl RunningPass for DevicePass {
    fn outputs(self: Box<Self>) -> std::result::Result<Vec<Output>, BackendError> {
        let target = self.target.clone();
        self.answer().map_err(|error| target.failure(&error))
    }
}
