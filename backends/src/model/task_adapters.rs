//! LoRA adapters of rows, by the tasks of their texts.

use crate::config::TransformerConfig;
use prefold_core::{RadixPlan, RaggedBatch, TaskId};

/// The adapters of a model by the tasks of its texts.
#[derive(Debug, Clone)]
pub(super) struct TaskAdapters {
    pub(super) vocab_size: usize,
    /// One more than the index of each task's adapter, task 0 being no task; 0 for no adapter.
    of_task: Vec<u8>,
}

impl TaskAdapters {
    /// The adapters of a model that has some.
    pub(super) fn new(config: &TransformerConfig) -> Option<Self> {
        let adapters = config.adapters.as_ref()?;
        let of_tasks = adapters.tasks.iter().map(|task| Some(task.adapter));
        let number = |adapter: Option<usize>| adapter.map_or(0, |adapter| adapter as u8 + 1);
        let of_task = [adapters.default].into_iter().chain(of_tasks).map(number).collect();
        Some(Self { vocab_size: config.vocab_size, of_task })
    }

    /// The adapter of each row; `None` if no sequence has one.
    pub(super) fn of_rows(&self, ragged: &RaggedBatch, plan: Option<&RadixPlan>, rows: usize) -> Option<Vec<u8>> {
        let of_sequence = |task: &TaskId| self.of_task.get(usize::from(task.0)).copied().unwrap_or(0);
        let of_sequence: Vec<u8> = ragged.tasks().iter().map(of_sequence).collect();
        if of_sequence.iter().all(|&adapter| adapter == 0) {
            return None;
        }
        let mut of_row = vec![0; rows];
        match plan {
            None => (0..of_sequence.len()).for_each(|b| of_row[ragged.rows(b)].fill(of_sequence[b])),
            Some(plan) => plan.segments().iter().for_each(|segment| {
                of_row[segment.start as usize..][..segment.len as usize].fill(of_sequence[segment.sequence as usize]);
            }),
        }
        Some(of_row)
    }
}
