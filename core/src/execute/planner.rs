//! The planner's thread: fills the slot with the next batch.

use super::pipeline::{Pipeline, State};
use crate::error::panic_message;
use crate::schedule::batcher::{Compaction, FormingBatch};
use crate::schedule::entry::Entry;
use crate::trace::plan_spans;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::Instant;

impl Pipeline {
    /// Until closed and empty: takes entries, forms a batch outside the lock, puts it into the slot.
    pub(super) fn plan_batches(&self) {
        while let Some((batch, entries)) = self.await_entries() {
            let formed = self.form(batch, entries);
            let mut state = self.lock();
            state.is_forming = false;
            if formed.is_none() {
                state.queue.close_batch();
                state.entries_left();
            }
            state.slot = formed;
            drop(state);
            self.backend_wake.notify_one();
        }
    }

    /// The batch with these entries; none if it is lost.
    pub(super) fn form(&self, mut batch: FormingBatch, entries: Vec<Entry>) -> Option<FormingBatch> {
        let spans = plan_spans(entries.iter().map(|entry| &entry.trace));
        let sequences = batch.len() + entries.len();
        // If this panics the entries are gone, and with them their reply channels: that is an answer.
        let formed = catch_unwind(AssertUnwindSafe(move || {
            batch.extend(entries);
            batch
        }));
        drop(spans);
        let lost = |panic: Box<dyn Any + Send>| {
            self.count_lost(sequences);
            tracing::error!(error = panic_message(&*panic), "planning panicked; a batch is lost");
        };
        formed.map_err(lost).ok()
    }

    /// The next entries and the batch that they join; none when everything accepted has been planned.
    fn await_entries(&self) -> Option<(FormingBatch, Vec<Entry>)> {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.take_entries(self.compaction) {
                state.entries_left();
                state.is_forming = true;
                return Some(work);
            }
            if state.closed && state.queue.is_empty() {
                state.drained = true;
                self.backend_wake.notify_all();
                return None;
            }
            state = self.planner_wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    /// Entries from the queue, and the batch that they join: the one in the slot, or a new one. The one in the slot is formed
    /// anew where entries in it have to give way.
    pub(super) fn take_entries(&mut self, compaction: Compaction) -> Option<(FormingBatch, Vec<Entry>)> {
        // Taking it back now would keep a backend waiting that could start.
        if self.slot.is_some() && self.idle_backends > 0 {
            return None;
        }
        let start = Instant::now();
        let mut entries = self.queue.take();
        if self.queue.is_outdated()
            && let Some(batch) = self.slot.take()
        {
            let (mut given_back, buffers) = batch.into_parts();
            self.spare.push(buffers);
            given_back.append(&mut entries);
            self.queue.give_back(given_back);
            entries = self.queue.take();
        }
        if entries.is_empty() {
            return None;
        }
        let slot = self.slot.take();
        let mut batch = slot.unwrap_or_else(|| FormingBatch::new(compaction, self.spare.pop().unwrap_or_default()));
        batch.add_planning(start.elapsed());
        Some((batch, entries))
    }
}
