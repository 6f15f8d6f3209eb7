//! Thread of the planner: fills the slots with the next batches.

use super::pipeline::{Pipeline, State};
use crate::error::panic_message;
use crate::schedule::batcher::{Compaction, FormingBatch};
use crate::schedule::entry::Entry;
use crate::schedule::level::Level;
use crate::trace::plan_spans;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::Instant;

/// Entries to plan, and the batch that they join.
struct Work {
    level: Level,
    batch: FormingBatch,
    entries: Vec<Entry>,
}

impl Pipeline {
    /// Takes entries, forms a batch outside the lock and puts it into the slot of its level, until closed and empty.
    pub(super) fn plan_batches(&self) {
        while let Some(Work { level, batch, entries }) = self.await_entries() {
            let formed = self.form(batch, entries);
            let mut state = self.lock();
            state.is_forming = false;
            match formed {
                Some(batch) => drop(state.slots.insert(level, batch)),
                None => {
                    let lost = state.queue.close_batch(level, false);
                    state.queue.finish_batch(lost, None);
                    state.entries_left();
                }
            }
            self.signals.set_ready(state.most_urgent());
            drop(state);
            self.backend_wake.notify_one();
        }
    }

    /// The batch with these entries; `None` if it is lost.
    pub(super) fn form(&self, mut batch: FormingBatch, entries: Vec<Entry>) -> Option<FormingBatch> {
        let spans = plan_spans(entries.iter().map(|entry| &entry.trace));
        let sequences = batch.len() + entries.len();
        // If this panics, the entries are dropped with their reply channels, which answers the requests with an error.
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
    fn await_entries(&self) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if let Some(work) = self.take_work(&mut state) {
                state.entries_left();
                state.is_forming = true;
                return Some(work);
            }
            self.signals.look_again_in(state.queue.blocked_for());
            if state.closed && state.queue.is_empty() {
                state.drained = true;
                self.backend_wake.notify_all();
                return None;
            }
            state = self.planner_wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Pipeline {
    /// Entries that interrupt running batches, or entries of the next batch.
    fn take_work(&self, state: &mut State) -> Option<Work> {
        for level in Level::INTERRUPTING {
            let start = Instant::now();
            let entries = state.queue.take_interrupting(level);
            if !entries.is_empty() {
                let slot = state.slots.remove(&level);
                let mut batch = slot.unwrap_or_else(|| {
                    FormingBatch::new(self.compaction_of(level), state.spare.pop().unwrap_or_default())
                });
                batch.add_planning(start.elapsed());
                return Some(Work { level, batch, entries });
            }
        }
        let (batch, entries) = state.take_entries(self.compaction)?;
        Some(Work { level: Level::Bulk, batch, entries })
    }
}

impl State {
    /// Entries from the queue, and the batch that they join: the one in the slot, or a new one. The one in the slot is formed
    /// again if entries in it have to give way.
    pub(super) fn take_entries(&mut self, compaction: Compaction) -> Option<(FormingBatch, Vec<Entry>)> {
        // Taking it back now would delay a backend that could start.
        if self.slots.contains_key(&Level::Bulk) && self.idle_backends > 0 {
            return None;
        }
        let start = Instant::now();
        let mut entries = self.queue.take();
        if self.queue.is_outdated()
            && let Some(batch) = self.slots.remove(&Level::Bulk)
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
        let slot = self.slots.remove(&Level::Bulk);
        let mut batch = slot.unwrap_or_else(|| FormingBatch::new(compaction, self.spare.pop().unwrap_or_default()));
        batch.add_planning(start.elapsed());
        Some((batch, entries))
    }
}
