//! Batcher: a batch and its plan from chosen entries, one entry at a time. Pure.

use super::entry::Entry;
use super::whole::WholeFolding;
use super::work::{Work, WorkBySubModel};
use crate::backend::{Batch, Folding, SubModelMap};
use crate::error::BackendError;
use crate::outputs::Output;
use crate::plan::radix::{PlanBuilder, RadixPlan};
use crate::plan::ragged::causal_pairs;
use crate::plan::tokens::Tokens;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Settings of a batch's compaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Compaction {
    /// Folding that the model's backend allows.
    pub(crate) folding: Folding,
    /// Maximum N'/N of a batch that is compacted; 0 turns compaction off.
    pub(crate) threshold: f32,
    /// Multiple to which N' is rounded up.
    pub(crate) pad_to_multiple: usize,
    /// Number of tokens above which a batch is compacted whatever the threshold: it fits the budget only without the repeated
    /// rows.
    pub(crate) max_tokens: usize,
}

impl Compaction {
    /// Folding in use; `None` if compaction is off.
    pub(crate) fn folds(self) -> Option<Folding> {
        (self.threshold > 0.0).then_some(self.folding)
    }

    /// Tokens that would be computed for the sequences of one request in a batch of their own. Clients get this number, because
    /// the counts of a real batch would reveal what others sent.
    pub(crate) fn computed_alone(self, sequences: &[Tokens]) -> usize {
        let total = sequences.iter().map(Tokens::len).sum();
        match self.folds() {
            Some(Folding::Prefix) if sequences.len() > 1 => {
                let mut builder = PlanBuilder::default();
                let unique = sequences.iter().map(|sequence| builder.push(sequence.as_slice())).sum();
                if self.is_under_threshold(unique, total) { unique } else { total }
            }
            Some(Folding::Whole) if sequences.len() > 1 => {
                sequences.iter().collect::<HashSet<_>>().into_iter().map(Tokens::len).sum()
            }
            _ => total,
        }
    }

    fn is_under_threshold(self, unique_tokens: usize, total_tokens: usize) -> bool {
        // Rounded to the threshold's precision, so that a ratio equal to the flag's value passes: 95/100 is at 0.95.
        (unique_tokens as f64 / total_tokens as f64) as f32 <= self.threshold
    }

    fn is_worthwhile(self, unique_tokens: usize, total_tokens: usize) -> bool {
        unique_tokens < total_tokens
            && (self.is_under_threshold(unique_tokens, total_tokens) || total_tokens > self.max_tokens)
    }
}

/// Memory in which a batch is built. The next batch reuses it, because fresh memory costs more than the planning itself: the
/// system clears each page at its first use.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    batch: Batch,
    /// Unused unless prefixes are folded.
    plan: PlanBuilder,
    /// Unused unless whole sequences are folded.
    whole: WholeFolding,
}

impl Buffers {
    fn clear(&mut self) {
        let Self { batch, plan, whole } = self;
        batch.clear();
        plan.clear();
        whole.clear();
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

/// A batch for the backend, with the entries that it answers.
#[derive(Debug)]
pub(crate) struct ReadyBatch {
    pub(crate) batch: Batch,
    /// Compaction of `batch`; `None` if every row is computed.
    pub(crate) plan: Option<RadixPlan>,
    pub(crate) entries: Vec<Entry>,
    /// Time spent choosing the entries and forming the batch and its plan.
    pub(crate) planning: Duration,
    builder: PlanBuilder,
    whole: WholeFolding,
}

impl ReadyBatch {
    /// N: tokens of all entries.
    pub(crate) fn total_tokens(&self) -> usize {
        self.entries.iter().map(|entry| entry.tokens.len()).sum()
    }

    /// N': tokens that are computed, without padding.
    pub(crate) fn unique_tokens(&self) -> usize {
        self.plan.as_ref().map_or(self.batch.ragged.total_tokens(), RadixPlan::unique_tokens)
    }

    /// Query-key pairs in a layer of full attention. `compact`: attention runs over the compact rows if there is a plan.
    pub(crate) fn attention_work(&self, compact: bool) -> u64 {
        let plan = self.plan.as_ref().filter(|_| compact);
        plan.map_or_else(|| self.batch.ragged.attention_work(), RadixPlan::attention_work)
    }

    /// Work of the pass for each sub-model; `compact` as in [`attention_work`](Self::attention_work).
    pub(crate) fn work(&self, compact: bool, sub_models: &SubModelMap) -> WorkBySubModel {
        let mut work = WorkBySubModel::default();
        if self.plan.is_some() {
            // Only backends of a single model take plans.
            work.add(0, Work { rows: self.unique_tokens(), pairs: self.attention_work(compact) });
            return work;
        }
        let ragged = &self.batch.ragged;
        for (b, &task) in ragged.tasks().iter().enumerate() {
            let rows = ragged.rows(b).len();
            work.add(sub_models.sub_model(task), Work { rows, pairs: causal_pairs(0, rows as u64) });
        }
        work
    }

    /// Query-key pairs that a layer of full attention skips; `compact` as in [`attention_work`](Self::attention_work).
    pub(crate) fn attention_work_saved(&self, compact: bool) -> u64 {
        let folded = self.entries.iter().zip(self.whole.is_first()).filter(|(_, is_first)| !is_first);
        let whole: u64 = folded.map(|(entry, _)| (entry.tokens.len() as u64).pow(2)).sum();
        whole + self.batch.ragged.attention_work() - self.attention_work(compact)
    }

    /// Outputs of the entries, from the outputs of the batch's sequences.
    pub(crate) fn unfold(&self, outputs: Vec<Output>) -> Vec<Output> {
        self.whole.unfold(outputs)
    }

    /// The entries, and the memory for the next batch.
    pub(crate) fn into_parts(self) -> (Vec<Entry>, Buffers) {
        let Self { batch, plan, entries, mut builder, whole, .. } = self;
        if let Some(plan) = plan {
            builder.recycle(plan);
        }
        let mut buffers = Buffers { batch, plan: builder, whole };
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
    pub(crate) fn add_planning(&mut self, duration: Duration) {
        self.planning += duration;
    }

    /// Appends entries; an invalid one is answered with an error.
    pub(crate) fn extend(&mut self, entries: Vec<Entry>) {
        let start = Instant::now();
        for entry in entries {
            self.push(entry);
        }
        self.planning += start.elapsed();
    }

    fn push(&mut self, entry: Entry) {
        let Buffers { batch, plan, whole } = &mut self.buffers;
        let (tokens, wanted, folds) = (entry.tokens.as_slice(), entry.wanted, self.compaction.folds());
        let pushed = match folds {
            Some(Folding::Whole) => whole.push(batch, tokens, wanted),
            Some(Folding::Prefix) | None => batch.push(tokens, wanted),
        };
        if let Err(error) = pushed {
            return entry.answer(Err(BackendError::Contract(error.to_string())));
        }
        if folds == Some(Folding::Prefix) {
            plan.push(tokens);
        }
        self.entries.push(entry);
    }

    /// The entries of a batch that is given up, and the memory for the next one.
    pub(crate) fn into_parts(self) -> (Vec<Entry>, Buffers) {
        let Self { mut buffers, entries, .. } = self;
        buffers.clear();
        (entries, buffers)
    }

    /// Entries so far.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The finished batch, without entries cancelled meanwhile.
    pub(crate) fn finish(mut self) -> ReadyBatch {
        let start = Instant::now();
        if self.entries.iter().any(Entry::is_cancelled) {
            // Sequences cannot be removed from the tree; forming the batch again costs microseconds.
            self.buffers.clear();
            let entries = std::mem::take(&mut self.entries);
            entries.into_iter().filter(|entry| !entry.is_cancelled()).for_each(|entry| self.push(entry));
        }
        let Buffers { batch, plan: mut builder, whole } = self.buffers;
        let compact = self.compaction.folds() == Some(Folding::Prefix)
            && self.compaction.is_worthwhile(builder.unique_tokens(), batch.ragged.total_tokens());
        let plan = compact.then(|| builder.finish(self.compaction.pad_to_multiple));
        let planning = self.planning + start.elapsed();
        ReadyBatch { batch, plan, entries: self.entries, planning, builder, whole }
    }
}

#[cfg(test)]
#[path = "tests/batcher.rs"]
mod tests;
