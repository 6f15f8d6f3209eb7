//! From chosen entries to a batch and its plan, one entry at a time. Pure.

use crate::queue::Entry;
use crate::{BackendError, Batch, PlanBuilder, RaggedBatch, Wanted};
use std::time::{Duration, Instant};

/// When and how a batch is compacted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Compaction {
    /// Compact when something is shared and N'/N is at or under this; 0 is never.
    pub(crate) threshold: f32,
    /// Round N' up to a multiple of this.
    pub(crate) pad_to_multiple: usize,
    /// More tokens than this are compacted whatever the threshold says: so many rows fit the budget only if those that
    /// repeat are left out.
    pub(crate) max_tokens: usize,
}

impl Compaction {
    pub(crate) fn is_enabled(self) -> bool {
        self.threshold > 0.0
    }

    fn pays(self, unique_tokens: usize, total_tokens: usize) -> bool {
        // Rounded to the threshold's own precision, so that "at" means what the flag says: 95/100 is at 0.95.
        let ratio = (unique_tokens as f64 / total_tokens as f64) as f32;
        unique_tokens < total_tokens && (ratio <= self.threshold || total_tokens > self.max_tokens)
    }
}

/// The memory that a batch is built in. It goes from a batch that is done to one that begins, because fresh memory
/// costs more than the planning itself: the system clears each page at its first use.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    ragged: RaggedBatch,
    /// Left alone when compaction is off.
    plan: PlanBuilder,
    wanted: Vec<Wanted>,
}

impl Buffers {
    fn clear(&mut self) {
        self.ragged.clear();
        self.plan.clear();
        self.wanted.clear();
    }
}

/// A batch that can still grow. The plan stays unfinished until the backend takes the batch.
#[derive(Debug)]
pub(crate) struct FormingBatch {
    compaction: Compaction,
    buffers: Buffers,
    entries: Vec<Entry>,
    planning: Duration,
}

/// A batch for the backend, and who waits for it: `entries[i]` is sequence `i`.
#[derive(Debug)]
pub(crate) struct ReadyBatch {
    pub(crate) batch: Batch,
    pub(crate) entries: Vec<Entry>,
    /// Time spent on choosing the entries and on forming the batch and its plan.
    pub(crate) planning: Duration,
    builder: PlanBuilder,
}

impl ReadyBatch {
    /// What is left when the batch is done: its entries, and its memory for another.
    pub(crate) fn take_apart(self) -> (Vec<Entry>, Buffers) {
        let Self { batch: Batch { ragged, plan, wanted }, entries, mut builder, .. } = self;
        if let Some(plan) = plan {
            builder.recycle(plan);
        }
        let mut buffers = Buffers { ragged, plan: builder, wanted };
        buffers.clear();
        (entries, buffers)
    }
}

impl FormingBatch {
    /// An empty batch in empty buffers.
    pub(crate) fn new(compaction: Compaction, buffers: Buffers) -> Self {
        Self { compaction, buffers, entries: Vec::new(), planning: Duration::ZERO }
    }

    /// Adds time that was spent on choosing entries for the batch.
    pub(crate) fn count_planning(&mut self, duration: Duration) {
        self.planning += duration;
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
        let Buffers { ragged, plan, wanted } = &mut self.buffers;
        if let Err(error) = ragged.push(&entry.input_ids) {
            return entry.answer(Err(BackendError::Contract(error.to_string())));
        }
        if self.compaction.is_enabled() {
            plan.push(&entry.input_ids);
        }
        wanted.push(entry.wanted);
        self.entries.push(entry);
    }

    /// Sequences so far.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The finished batch, without the entries that were cancelled meanwhile.
    pub(crate) fn finish(mut self) -> ReadyBatch {
        let start = Instant::now();
        if self.entries.iter().any(Entry::is_cancelled) {
            // Sequences cannot be taken out of a tree; forming the rest again costs microseconds.
            self.buffers.clear();
            let entries = std::mem::take(&mut self.entries);
            entries.into_iter().filter(|entry| !entry.is_cancelled()).for_each(|entry| self.push(entry));
        }
        let Buffers { ragged, plan: mut builder, wanted } = self.buffers;
        let compact =
            self.compaction.is_enabled() && self.compaction.pays(builder.unique_tokens(), ragged.total_tokens());
        let plan = compact.then(|| builder.finish(self.compaction.pad_to_multiple));
        ReadyBatch {
            batch: Batch { ragged, plan, wanted },
            entries: self.entries,
            planning: self.planning + start.elapsed(),
            builder,
        }
    }
}

#[cfg(test)]
#[path = "batcher_tests.rs"]
mod tests;
