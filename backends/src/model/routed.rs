//! A model that routes texts to sub-models by their task.

use super::backend::TransformerBackend;
use crate::checkpoint::joined;
use prefold_core::{
    Backend, BackendError, Batch, BatchLimits, Int8Report, ModelInfo, Output, SubModelMap, TooLarge, YieldPoint,
};
use std::time::{Duration, Instant};

/// Backends of the sub-models, one of which computes at a time. Each sequence of a batch is passed to its sub-model.
#[derive(Debug)]
pub(crate) struct RoutedBackend {
    parts: Vec<TransformerBackend>,
    part_map: SubModelMap,
    info: ModelInfo,
    /// Time of each sub-model in the last pass, without the batches at its yield points.
    times: Vec<Duration>,
}

impl RoutedBackend {
    /// A backend over the first sub-model, which takes the texts without a task, and the others.
    pub(crate) fn new(first: TransformerBackend, others: Vec<TransformerBackend>) -> Self {
        let mut info = first.info().clone();
        let infos = || others.iter().map(Backend::info);
        for other in infos().map(|info| &info.model_type) {
            if !info.model_type.split(", ").any(|known| known == other) {
                info.model_type = format!("{}, {other}", info.model_type);
            }
        }
        info.capabilities = joined([first.info()].into_iter().chain(infos()).map(|info| &*info.capabilities)).into();
        info.further_parts = infos().map(ModelInfo::first_part).collect();
        info.int8 = joined_reports([first.info()].into_iter().chain(infos()).filter_map(|info| info.int8.as_ref()));
        let mut parts = vec![first];
        parts.extend(others);
        let count = parts.len();
        parts.iter_mut().for_each(|part| part.max_reserved /= count);
        Self { parts, part_map: info.part_map(), info, times: vec![Duration::ZERO; count] }
    }
}

impl Backend for RoutedBackend {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn needed_bytes(&self, limits: BatchLimits) -> usize {
        self.parts.iter().map(|part| part.needed_bytes(limits)).sum()
    }

    fn check_limits(&self, limits: BatchLimits, others: usize) -> Result<(), TooLarge> {
        self.parts.iter().try_for_each(|part| part.check_limits(limits, others))
    }

    fn reserve(&mut self, limits: BatchLimits) -> Result<(), BackendError> {
        self.parts.iter_mut().try_for_each(|part| part.reserve(limits))
    }

    fn forward(&mut self, batch: &Batch, yields: &mut dyn YieldPoint) -> Result<Vec<Output>, BackendError> {
        let count = batch.ragged.num_sequences();
        let mut outputs: Vec<(usize, Output)> = Vec::with_capacity(count);
        self.times.fill(Duration::ZERO);
        for (index, (part, time)) in self.parts.iter_mut().zip(&mut self.times).enumerate() {
            let (start, away) = (Instant::now(), yields.away());
            let is_own = |&b: &usize| self.part_map.part(batch.ragged.tasks()[b]) == index;
            let sequences: Vec<usize> = (0..count).filter(is_own).collect();
            if sequences.is_empty() {
                continue;
            }
            let mut own = Batch::default();
            for &b in &sequences {
                let pushed = own.ragged.push(batch.ragged.sequence(b));
                pushed.map_err(|error| BackendError::Contract(error.to_string()))?;
                own.wanted.push(batch.wanted[b]);
            }
            outputs.extend(sequences.into_iter().zip(part.forward(&own, yields)?));
            *time = start.elapsed().saturating_sub(yields.away().saturating_sub(away));
        }
        outputs.sort_by_key(|(b, _)| *b);
        Ok(outputs.into_iter().map(|(_, output)| output).collect())
    }

    fn part_times(&self) -> &[Duration] {
        &self.times
    }
}

/// The int8 reports of all sub-models as one; names of layers begin with the sub-model's folder.
fn joined_reports<'a>(mut reports: impl Iterator<Item = &'a Int8Report>) -> Option<Int8Report> {
    let mut joined = reports.next()?.clone();
    for Int8Report { kept_in_bfloat16, max_error: _, errors } in reports {
        joined.kept_in_bfloat16.extend_from_slice(kept_in_bfloat16);
        joined.errors.extend_from_slice(errors);
    }
    joined.errors.sort_by(|a, b| b.1.total_cmp(&a.1));
    Some(joined)
}
