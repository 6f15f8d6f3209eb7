//! The stream that a thread's operations go to.

#[cfg(feature = "cuda")]
use {crate::ops::tensor::cuda, std::sync::Arc};

/// Priority of an interrupting backend's work on its device; see `StreamPriority` of `prefold-kernels`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Above ordinary work, for due batches.
    Middle,
    /// Above all other work, for urgent batches.
    Highest,
}

#[cfg(feature = "cuda")]
impl From<Priority> for prefold_kernels::cuda::StreamPriority {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::Middle => Self::Middle,
            Priority::Highest => Self::Highest,
        }
    }
}

/// A stream of a device; empty for a CPU.
#[derive(Clone)]
pub(crate) struct Stream {
    #[cfg(feature = "cuda")]
    pub(in crate::ops) cuda: Option<Arc<cuda::Cuda>>,
}

impl Stream {
    /// Calls `f`, whose operations go to this stream; outside, they go to the device's own.
    #[cfg(feature = "cuda")]
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        cuda::enter(self.cuda.clone(), f)
    }

    #[cfg(not(feature = "cuda"))]
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}
