//! Yield points of a pass: batches that run there, and conditions that end the pass.

use super::pass::Pass;
use super::pipeline::Pipeline;
use crate::backend::ModelBackend;
use crate::schedule::entry::Entry;
use crate::schedule::level::Level;
use crate::trace::interruption_spans;
use crate::yield_point::{Stopped, YieldPoint};
use std::time::{Duration, Instant};
use tracing::Span;

/// The yield points of one pass.
pub(super) struct Preemption<'a> {
    pipeline: &'a Pipeline,
    replica: usize,
    level: Level,
    /// Backends of the levels above, the most urgent last.
    above: &'a mut [ModelBackend],
    entries: &'a [Entry],
    /// Spans of the pass.
    spans: &'a [Span],
    /// Departures examined so far.
    departures: Option<u64>,
    away: Duration,
    /// Batches that have interrupted the pass.
    interruptions: usize,
    /// Time up to which the pass has paid back debts; `None` for a pass that interrupts another itself.
    paid: Option<Instant>,
}

impl<'a> Preemption<'a> {
    pub(super) fn new(
        pipeline: &'a Pipeline,
        pass: &'a mut Pass<'_>,
        entries: &'a [Entry],
        spans: &'a [Span],
    ) -> (&'a mut ModelBackend, Self) {
        let &mut Pass { ref mut backend, ref mut above, replica, level, interrupts, .. } = pass;
        let preemption = Self {
            pipeline,
            replica,
            level,
            above,
            entries,
            spans,
            departures: None,
            away: Duration::ZERO,
            interruptions: 0,
            paid: (!interrupts).then(Instant::now),
        };
        (backend, preemption)
    }

    /// Batches that have interrupted the pass.
    pub(super) fn interruptions(&self) -> usize {
        self.interruptions
    }

    /// Compute time of the pass since it last paid back debts.
    pub(super) fn unpaid(&mut self) -> Duration {
        let now = Instant::now();
        self.paid.as_mut().map_or(Duration::ZERO, |paid| now - std::mem::replace(paid, now))
    }

    /// # Errors
    /// [`Stopped`] if no request waits for the pass any more.
    fn check(&mut self) -> Result<(), Stopped> {
        let signals = &self.pipeline.signals;
        if signals.is_stopping() {
            return Err(Stopped);
        }
        let departures = Some(signals.departures());
        if self.departures != departures {
            self.departures = departures;
            if self.entries.iter().all(Entry::is_cancelled) {
                return Err(Stopped);
            }
        }
        Ok(())
    }

    /// Runs the most urgent batch that is ready; false if there is none.
    fn interrupt(&mut self) -> bool {
        let start = Instant::now();
        let unpaid = self.unpaid();
        let Some(ready) = self.pipeline.take_ready_above(self.level, unpaid) else { return false };
        // The most urgent backend is the last.
        let index = self.above.len() - 1 - (Level::Urgent as usize - ready.level as usize);
        let (lower, above) = self.above.split_at_mut(index + 1);
        if let Some(backend) = lower.last_mut() {
            let _spans = interruption_spans(self.spans, ready.id);
            let (replica, level, id) = (self.replica, ready.level, ready.id);
            self.pipeline.run_caught(Pass { backend, above, replica, level, interrupts: true, id }, ready.batch);
        }
        self.interruptions += 1;
        self.away += start.elapsed();
        if let Some(paid) = &mut self.paid {
            *paid = Instant::now();
        }
        true
    }
}

impl YieldPoint for Preemption<'_> {
    fn reach(&mut self) -> Result<(), Stopped> {
        let signals = &self.pipeline.signals;
        if signals.reach(self.replica) {
            let unpaid = self.unpaid();
            self.pipeline.look_again(unpaid);
        }
        self.check()?;
        if self.above.is_empty() {
            return Ok(());
        }
        while signals.is_ready_above(self.level) && self.interrupt() {
            self.check()?;
        }
        Ok(())
    }

    fn away(&self) -> Duration {
        self.away
    }
}
