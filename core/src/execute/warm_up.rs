//! Warm-up before the engine answers.
//!
//! A first pass meets cold caches, sleeping threads, and memory that the system has not backed yet. The backend's thread
//! allocates the memory of the largest batch and runs one small pass in each mode that can occur: over all rows, and over
//! compact rows. On a GPU it first runs full batches, which determine the sizes of workspaces and the choice of matrix kernels.

use super::output_checks::{is_finite, is_zero_vector};
use crate::backend::{Batch, BatchLimits, Folding, Interrupting, ModelBackend, ModelInfo, Replica, TokenLimits};
use crate::error::{BackendError, causes_of_not_finite};
use crate::outputs::{Output, Outputs};
use crate::plan::radix::RadixPlan;
use crate::plan::tokens::{TaskId, TokenSlice};
use crate::schedule::batcher::Compaction;
use crate::schedule::interrupting::InterruptPolicy;
use crate::schedule::work::Work;
use std::time::{Duration, Instant};

/// Maximum sequences of a pass.
const SEQUENCES: usize = 4;

/// Answers of a warm-up. Its texts consist of arbitrary tokens, so only whether values are finite and differ from 0 matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WarmUpAnswers {
    pub(crate) texts: usize,
    /// Number of texts whose answers have non-finite values.
    pub(crate) not_finite: usize,
    /// Number of texts whose answers have no value but 0.
    pub(crate) zero: usize,
}

impl WarmUpAnswers {
    /// Sum of both.
    pub(super) fn and(self, other: Self) -> Self {
        let Self { texts, not_finite, zero } = self;
        Self { texts: texts + other.texts, not_finite: not_finite + other.not_finite, zero: zero + other.zero }
    }

    fn count(&mut self, outputs: &[Output]) {
        self.texts += outputs.len();
        self.not_finite += outputs.iter().filter(|output| !is_finite(output)).count();
        self.zero += outputs.iter().filter(|output| is_zero_vector(output)).count();
    }

    /// Checks that at least one answer is finite. Otherwise the server would become ready although every request fails, and then its
    /// health check.
    ///
    /// # Errors
    /// [`BackendError::NotFinite`]
    pub(super) fn check(self, dtype: &'static str) -> Result<Self, BackendError> {
        match self {
            Self { texts: 1.., not_finite, .. } if not_finite == self.texts => {
                let place =
                    format!("all {not_finite} texts of the warm-up have such answers, so no request would be answered");
                Err(BackendError::not_finite(&place, dtype))
            }
            some => Ok(some),
        }
    }

    /// A warning if some answers are not finite, or if all are 0, as with a file that was preallocated for a download.
    pub(crate) fn warning(self, dtype: &str) -> Option<String> {
        let Self { texts, not_finite, zero } = self;
        if texts > 0 && zero == texts {
            return Some(format!(
                "all values of all {texts} answers of the warm-up are 0, as if weights were missing: are the files complete?"
            ));
        }
        (not_finite > 0).then(|| {
            let causes = causes_of_not_finite(dtype);
            format!(
                "{not_finite} of {texts} texts of the warm-up have answers that are not finite (NaN or infinity), and requests may fail like \
                 them; {causes}"
            )
        })
    }
}

/// Size of the warm-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WarmUp {
    /// Distinct tokens of the small pass; 0 for no warm-up.
    pub(crate) tokens: usize,
    /// Limits of the largest batch.
    pub(crate) limits: BatchLimits,
    /// Limits of batches that interrupt others.
    pub(crate) interrupting: Option<InterruptPolicy>,
    pub(crate) compaction: Compaction,
}

impl WarmUp {
    /// No warm-up.
    #[cfg(test)]
    pub(crate) fn off(compaction: Compaction) -> Self {
        let limits = BatchLimits { max_tokens: 0, max_ragged_tokens: 0 };
        Self { tokens: 0, limits, interrupting: None, compaction }
    }

    /// [`run`](Self::run) for all backends of a replica, each with the limits of its batches.
    ///
    /// # Errors
    /// One of the backends fails.
    pub(super) fn run_all(
        &self,
        Replica { backend, interrupting }: &mut Replica,
        observe: impl Fn(usize, Work, Duration),
    ) -> Result<WarmUpAnswers, BackendError> {
        let mut answers = self.run(backend, &observe)?;
        if let (Some(Interrupting { due, urgent }), Some(policy)) = (interrupting, self.interrupting) {
            for (backend, limits) in [(due, policy.due), (urgent, policy.urgent)] {
                answers = answers.and(Self { limits, ..*self }.run(backend, &observe)?);
            }
        }
        Ok(answers)
    }

    /// Allocates memory, runs the passes and returns their answers; `observe` gets the sub-model, the work and the time of each.
    ///
    /// # Errors
    /// The backend fails; no batch would succeed.
    pub(super) fn run(
        &self,
        backend: &mut ModelBackend,
        observe: impl Fn(usize, Work, Duration),
    ) -> Result<WarmUpAnswers, BackendError> {
        let mut answers = WarmUpAnswers::default();
        if self.tokens == 0 {
            return Ok(answers);
        }
        backend.reserve(self.limits)?;
        let small = self.tokens.min(self.limits.max_tokens);
        if backend.info().device != "cpu" {
            answers = self.pass(backend, self.limits.max_tokens, &observe)?;
        }
        self.pass(backend, small, &observe).map(|small| answers.and(small))
    }

    /// Runs passes of this many distinct tokens: over all rows, and over compact rows if batches are compacted.
    fn pass(
        &self,
        backend: &mut ModelBackend,
        tokens: usize,
        observe: &impl Fn(usize, Work, Duration),
    ) -> Result<WarmUpAnswers, BackendError> {
        let mut answers = WarmUpAnswers::default();
        let info = backend.info();
        let wanted = Outputs::of_head(&info.capabilities);
        let TokenLimits { vocab_size, max_input_length: longest, .. } = *info.limits();
        for (sub_model, task, limits) in sub_models(info) {
            let all = batch(&distinct(tokens, limits.max_input_length), limits.vocab_size, task, wanted)?;
            let start = Instant::now();
            answers.count(&backend.forward(&all, None)?);
            let work = Work { rows: all.ragged.total_tokens(), pairs: all.ragged.attention_work() };
            observe(sub_model, work, start.elapsed());
        }
        if self.compaction.folds() == Some(Folding::Prefix) {
            let most = (self.limits.max_ragged_tokens * 2 / 5).max(1);
            let batch = batch(&folded(tokens.min(most), longest), vocab_size, TaskId::default(), wanted)?;
            let plan = RadixPlan::new(&batch.ragged, self.compaction.pad_to_multiple);
            let start = Instant::now();
            answers.count(&backend.forward(&batch, Some(&plan))?);
            observe(0, Work { rows: plan.unique_tokens(), pairs: plan.attention_work() }, start.elapsed());
        }
        Ok(answers)
    }
}

/// Sequences that share nothing, with `tokens` tokens in all and none longer than `longest`.
fn distinct(tokens: usize, longest: usize) -> Vec<Vec<usize>> {
    let len = tokens.div_ceil(SEQUENCES).min(longest);
    (0..tokens).step_by(len).map(|start| (start..tokens.min(start + len)).collect()).collect()
}

/// Sequences with `tokens` distinct tokens, which share the first half of them, or half of a sequence; at most 2.5 times as many
/// tokens in total.
fn folded(tokens: usize, longest: usize) -> Vec<Vec<usize>> {
    let shared = (tokens / 2).min(longest / 2);
    let tails = distinct(tokens - shared, longest - shared);
    tails.into_iter().map(|tail| (0..shared).chain(tail.into_iter().map(|id| shared + id)).collect()).collect()
}

/// Sub-models by index, each with a task that selects it and its limits.
fn sub_models(info: &ModelInfo) -> Vec<(usize, TaskId, TokenLimits)> {
    let tasks = || info.capabilities.embed.iter().flat_map(|embed| &embed.tasks);
    let task = |sub_model| match sub_model {
        0 => Some(TaskId::default()),
        sub_model => {
            (1..=u8::MAX).zip(tasks()).find(|(_, task)| task.sub_model == sub_model).map(|(number, _)| TaskId(number))
        }
    };
    info.sub_models
        .iter()
        .enumerate()
        .filter_map(|(sub_model, limits)| Some((sub_model, task(sub_model)?, *limits)))
        .collect()
}

/// A batch of sequences of arbitrary numbers, used as token ids modulo the vocabulary's size.
fn batch(sequences: &[Vec<usize>], vocab_size: usize, task: TaskId, wanted: Outputs) -> Result<Batch, BackendError> {
    let mut batch = Batch::default();
    for sequence in sequences {
        let input_ids: Vec<u32> = sequence.iter().map(|number| (number % vocab_size) as u32).collect();
        let pushed = batch.push(TokenSlice::from(&input_ids[..]).with_task(task), wanted);
        pushed.map_err(|error| BackendError::Contract(error.to_string()))?;
    }
    Ok(batch)
}

#[cfg(test)]
#[path = "tests/warm_up.rs"]
mod tests;
