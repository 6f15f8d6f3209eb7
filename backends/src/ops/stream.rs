//! The stream that a thread's operations go to.

#[cfg(feature = "cuda")]
use {
    super::cuda::Cuda,
    candle_core::cuda_backend::DeviceId,
    std::{cell::RefCell, sync::Arc},
};

/// Priority of a backend's work on a device that it shares with those that it interrupts; see `StreamPriority` of `prefold-kernels`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Above the ordinary one.
    Middle,
    /// Above all others.
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

/// A stream of a device; none of a CPU.
#[derive(Clone)]
pub(crate) struct Stream {
    #[cfg(feature = "cuda")]
    pub(super) cuda: Option<Arc<Cuda>>,
}

#[cfg(feature = "cuda")]
thread_local! {
    static CURRENT: RefCell<Option<Arc<Cuda>>> = const { RefCell::new(None) };
}

impl Stream {
    /// Calls `f`, whose operations go to this stream; outside, they go to the device's own.
    #[cfg(feature = "cuda")]
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Restore(Option<Arc<Cuda>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(self.cuda.clone()));
        f()
    }

    #[cfg(not(feature = "cuda"))]
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// The stream of this thread, if it is one of the device.
#[cfg(feature = "cuda")]
pub(super) fn current(device: DeviceId) -> Option<Arc<Cuda>> {
    CURRENT.with_borrow(|current| current.as_ref().filter(|cuda| cuda.device_id() == device).cloned())
}
