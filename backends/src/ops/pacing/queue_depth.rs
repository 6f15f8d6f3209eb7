//! Depth of a device's queue. Passes queue operations a few milliseconds ahead, so that they yield soon and the device is never idle, also
//! between one pass and the next.

use crate::ops::tensor::cuda::cuda_error;
use candle_core::Result;
use prefold_kernels::cuda::cudarc::driver::{CudaEvent, CudaStream};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum marks that the device has not reached.
const MARKS: usize = 4;

/// Time between two marks.
const STEP: Duration = Duration::from_millis(1);

/// Maximum operations between two marks.
const MAX_STRIDE: usize = 256;

/// The operations that the passes of a backend have queued on a stream, with marks after some of them: events that tell when the device reaches
/// them.
pub(in crate::ops) struct QueueDepth {
    stream: Arc<CudaStream>,
    /// Marks not yet seen as reached.
    marks: VecDeque<Mark>,
    spare: Vec<CudaEvent>,
    /// Operations since the last mark.
    unmarked: usize,
    stride: Stride,
    /// Passes begun.
    passes: u64,
}

struct Mark {
    event: CudaEvent,
    /// Operations since the previous mark.
    operations: usize,
    /// The pass that queued it.
    pass: u64,
}

impl std::fmt::Debug for QueueDepth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueDepth").field("marks", &self.marks.len()).finish_non_exhaustive()
    }
}

impl QueueDepth {
    pub(in crate::ops) fn new(stream: &Arc<CudaStream>) -> Self {
        let (marks, spare) = (VecDeque::with_capacity(MARKS + 1), Vec::with_capacity(MARKS + 1));
        Self { stream: Arc::clone(stream), marks, spare, unmarked: 0, stride: Stride::new(Instant::now()), passes: 0 }
    }

    /// Begins a pass with a mark after each operation, because a larger batch takes longer for each.
    pub(in crate::ops) fn begin_pass(&mut self) {
        self.passes += 1;
        self.stride = Stride::new(Instant::now());
    }

    /// Counts a queued operation, and waits if the queue is deep enough.
    ///
    /// # Errors
    /// The device has failed.
    pub(in crate::ops) fn queued(&mut self) -> Result<()> {
        self.unmarked += 1;
        if self.unmarked >= self.stride.operations {
            self.mark()?;
        }
        if self.marks.len() > MARKS {
            self.await_mark()?;
        }
        Ok(())
    }

    fn mark(&mut self) -> Result<()> {
        let event = match self.spare.pop() {
            Some(event) => event,
            None => self.stream.context().new_event(None).map_err(driver_error)?,
        };
        event.record(&self.stream).map_err(driver_error)?;
        let operations = std::mem::take(&mut self.unmarked);
        self.marks.push_back(Mark { event, operations, pass: self.passes });
        Ok(())
    }

    fn await_mark(&mut self) -> Result<()> {
        let Some(Mark { event, operations, pass }) = self.marks.pop_front() else { return Ok(()) };
        event.synchronize().map_err(driver_error)?;
        if pass == self.passes {
            self.stride.learn(operations, Instant::now());
        }
        self.spare.push(event);
        Ok(())
    }
}

fn driver_error(error: prefold_kernels::cuda::cudarc::driver::DriverError) -> candle_core::Error {
    cuda_error(error.into())
}

/// Operations between two marks: one at the beginning of a pass, then the number that takes about [`STEP`] with this batch.
struct Stride {
    operations: usize,
    /// Time at which the previous mark was seen.
    seen: Instant,
}

impl Stride {
    fn new(start: Instant) -> Self {
        Self { operations: 1, seen: start }
    }

    /// Learns from a mark that was seen after this many operations. A batch that ran at a yield point in between makes the time longer for
    /// this mark only.
    fn learn(&mut self, operations: usize, now: Instant) {
        let time = now - self.seen;
        self.seen = now;
        let fitting = operations as f64 * (STEP.as_secs_f64() / time.as_secs_f64().max(1e-9));
        self.operations = (fitting as usize).clamp((self.operations / 2).max(1), (2 * self.operations).min(MAX_STRIDE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stride after marks of operations that take this many microseconds each.
    fn learned(stride: &mut Stride, micros: u64, marks: usize) -> usize {
        let mut now = stride.seen;
        for _ in 0..marks {
            let operations = stride.operations;
            now += Duration::from_micros(micros * operations as u64);
            stride.learn(operations, now);
        }
        stride.operations
    }

    #[test]
    fn marks_are_a_millisecond_apart_whatever_operations_take() {
        let stride = &mut Stride::new(Instant::now());
        assert_eq!(learned(stride, 5000, 3), 1);
        assert_eq!(learned(stride, 10, 10), 100);
        assert_eq!(learned(stride, 250, 10), 4);
        assert_eq!(learned(stride, 0, 20), MAX_STRIDE);
        assert_eq!(learned(stride, 20_000, 20), 1);
    }

    #[test]
    fn a_pause_counts_once_at_most() {
        let stride = &mut Stride::new(Instant::now());
        learned(stride, 10, 10);
        stride.learn(100, stride.seen + Duration::from_secs(1));
        assert_eq!(stride.operations, 50);
        assert_eq!(learned(stride, 10, 1), 100);
    }
}
