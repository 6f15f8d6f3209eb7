//! From chosen entries to a batch and its plan, one entry at a time. Pure.

use crate::queue::{Budget, Entry, Room};
use crate::{BackendError, Batch, PlanBuilder, RaggedBatch};
use std::time::{Duration, Instant};

/// When and how a batch is compacted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Compaction {
    /// Compact when N'/N is at or under this; 0 is never.
    pub(crate) threshold: f32,
    /// Round N' up to a multiple of this.
    pub(crate) pad_to_multiple: usize,
}

impl Compaction {
    fn is_enabled(self) -> bool {
        self.threshold > 0.0
    }

    fn pays(self, unique_tokens: usize, total_tokens: usize) -> bool {
        // Rounded to the threshold's own precision, so that "at" means what the flag says: 95/100 is at 0.95.
        (unique_tokens as f64 / total_tokens as f64) as f32 <= self.threshold
    }
}

/// A batch that can still grow. The plan stays unfinished until the backend takes the batch.
#[derive(Debug)]
pub(crate) struct FormingBatch {
    compaction: Compaction,
    ragged: RaggedBatch,
    /// Left alone when compaction is off.
    plan: PlanBuilder,
    entries: Vec<Entry>,
    planning: Duration,
}

/// A batch for the backend, and who waits for it: `entries[i]` is sequence `i`.
#[derive(Debug)]
pub(crate) struct ReadyBatch {
    pub(crate) batch: Batch,
    pub(crate) entries: Vec<Entry>,
    /// Time spent on forming the batch and its plan.
    pub(crate) planning: Duration,
}

impl FormingBatch {
    pub(crate) fn new(compaction: Compaction) -> Self {
        Self {
            compaction,
            ragged: RaggedBatch::default(),
            plan: PlanBuilder::default(),
            entries: Vec::new(),
            planning: Duration::ZERO,
        }
    }

    /// Appends entries; what cannot be a sequence is answered with an error.
    pub(crate) fn extend(&mut self, entries: Vec<Entry>) {
        let start = Instant::now();
        for entry in entries {
            self.push(entry);
        }
        self.planning += start.elapsed();
    }

    fn push(&mut self, entry: Entry) {
        if let Err(error) = self.ragged.push(&entry.input_ids) {
            return entry.answer(Err(BackendError::Contract(error.to_string())));
        }
        if self.compaction.is_enabled() {
            let rows = self.ragged.rows(self.entries.len());
            self.plan.push(&entry.input_ids, &self.ragged.position_ids()[rows]);
        }
        self.entries.push(entry);
    }

    /// What still fits.
    pub(crate) fn room(&self, budget: Budget) -> Room {
        budget.room(self.ragged.total_tokens(), self.entries.len())
    }

    /// Sequences so far.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The finished batch, without the entries that were cancelled meanwhile.
    pub(crate) fn finish(mut self) -> ReadyBatch {
        let start = Instant::now();
        if self.entries.iter().any(Entry::is_cancelled) {
            // Sequences cannot be taken out of a tree; forming the rest again costs microseconds.
            let mut rest = Self::new(self.compaction);
            self.entries.into_iter().filter(|entry| !entry.is_cancelled()).for_each(|entry| rest.push(entry));
            rest.planning = self.planning;
            self = rest;
        }
        let compact =
            self.compaction.is_enabled() && self.compaction.pays(self.plan.unique_tokens(), self.ragged.total_tokens());
        let plan = compact.then(|| self.plan.finish(self.compaction.pad_to_multiple));
        let wanted = self.entries.iter().map(|entry| entry.wanted).collect();
        ReadyBatch {
            batch: Batch { ragged: self.ragged, plan, wanted },
            entries: self.entries,
            planning: self.planning + start.elapsed(),
        }
    }
}

#[cfg(test)]
#[path = "batcher_tests.rs"]
mod tests;
