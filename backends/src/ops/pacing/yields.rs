//! Operations with a yield point before each.

use crate::ops::device::stream::Stream;
use crate::ops::pacing::pace::is_smallest;
use crate::ops::pacing::profile::timed;
use candle_core::{Error, Result, Tensor};
use prefold_core::YieldPoint;
#[cfg(feature = "cuda")]
use {
    crate::ops::pacing::queue_depth::QueueDepth,
    std::sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Values of a block of rows in the widest matrix of an operation, which a core moves in a millisecond.
const BLOCK_VALUES: usize = 1 << 20;

/// The yield points of a pass: one before each operation. Long operations are split into several.
pub(crate) struct Yields<'a> {
    point: &'a mut dyn YieldPoint,
    is_stopped: bool,
    /// `None` on a CPU, where an operation is done when it returns.
    #[cfg(feature = "cuda")]
    queue: Option<Arc<Mutex<QueueDepth>>>,
}

/// The operations that a backend has queued on its device and that are not known to be done; none on a CPU.
#[derive(Debug)]
pub(crate) struct Queue {
    #[cfg(feature = "cuda")]
    depth: Option<Arc<Mutex<QueueDepth>>>,
}

impl Queue {
    /// The queue of a stream.
    pub(crate) fn on(stream: &Stream) -> Self {
        #[cfg(not(feature = "cuda"))]
        let _ = stream;
        Self {
            #[cfg(feature = "cuda")]
            depth: stream.cuda.as_ref().map(|cuda| Arc::new(Mutex::new(QueueDepth::new(cuda.stream())))),
        }
    }
}

impl<'a> Yields<'a> {
    /// Yield points of operations on a CPU, or of operations that nothing interrupts.
    pub(crate) fn new(point: &'a mut dyn YieldPoint) -> Self {
        Self {
            point,
            is_stopped: false,
            #[cfg(feature = "cuda")]
            queue: None,
        }
    }

    /// Yield points of a pass whose operations go to this queue.
    pub(crate) fn on(queue: &Queue, point: &'a mut dyn YieldPoint) -> Self {
        #[cfg(not(feature = "cuda"))]
        let _ = queue;
        #[cfg(feature = "cuda")]
        if let Some(depth) = &queue.depth {
            lock(depth).begin_pass();
        }
        Self {
            #[cfg(feature = "cuda")]
            queue: queue.depth.clone(),
            ..Self::new(point)
        }
    }

    /// Reaches a yield point, at which more urgent batches may run.
    ///
    /// # Errors
    /// The pass must end here; it then [`is_stopped`](Self::is_stopped).
    pub(crate) fn reach(&mut self) -> Result<()> {
        self.point.reach().map_err(|stopped| {
            self.is_stopped = true;
            Error::wrap(stopped)
        })
    }

    /// True once a yield point has ended the pass.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Runs an operation; `name` is its name in [`take_profile`](super::take_profile).
    pub(in crate::ops) fn run<R>(&mut self, name: &'static str, operation: impl FnOnce() -> Result<R>) -> Result<R> {
        self.reach()?;
        let result = timed(name, operation)?;
        #[cfg(feature = "cuda")]
        self.queue.as_ref().map_or(Ok(()), |depth| lock(depth).queued())?;
        Ok(result)
    }

    /// Runs an operation that works on each row alone, in blocks of rows on a CPU. All tensors have as many rows as the first.
    pub(in crate::ops) fn run_rows<const N: usize>(
        &mut self,
        name: &'static str,
        tensors: [&Tensor; N],
        operation: impl Fn(&[Tensor; N]) -> Result<()>,
    ) -> Result<()> {
        let mut views = tensors.map(Tensor::clone);
        let rows = tensors[0].dim(0)?;
        let widest = tensors.iter().map(|tensor| tensor.elem_count()).max().unwrap_or(0);
        if rows <= block_rows(widest / rows.max(1)) || !tensors[0].device().is_cpu() {
            return self.run(name, || operation(&views));
        }
        let block = block_rows(widest / rows);
        for start in (0..rows).step_by(block) {
            for (view, tensor) in views.iter_mut().zip(tensors) {
                *view = tensor.narrow(0, start, block.min(rows - start))?;
            }
            self.run(name, || operation(&views))?;
        }
        Ok(())
    }
}

/// The depth of a queue, which only the pass of its backend locks.
#[cfg(feature = "cuda")]
fn lock(depth: &Mutex<QueueDepth>) -> MutexGuard<'_, QueueDepth> {
    depth.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rows of a block, for rows of `width` values.
pub(crate) fn block_rows(width: usize) -> usize {
    let values = if is_smallest() { 1 } else { BLOCK_VALUES };
    (values / width.max(1)).max(1)
}
