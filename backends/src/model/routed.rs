//! A model that routes texts to sub-models by their task.

use super::backend::TransformerBackend;
use crate::checkpoint::joined;
use prefold_core::{
    Backend, BackendError, Batch, BatchLimits, Int8Report, ModelInfo, NonEmpty, Output, SubModelMap, Submitted,
    YieldPoint,
};
use std::time::{Duration, Instant};

/// Backends of the sub-models, one of which computes at a time. Each sequence of a batch is passed to its sub-model.
#[derive(Debug)]
pub(crate) struct RoutedBackend {
    sub_models: NonEmpty<TransformerBackend>,
    sub_model_map: SubModelMap,
    info: ModelInfo,
    /// Time of each sub-model in the last pass, without the batches at its yield points.
    times: Vec<Duration>,
}

impl RoutedBackend {
    /// A backend over sub-models, the first of which takes the texts without a task.
    pub(crate) fn new(mut sub_models: NonEmpty<TransformerBackend>) -> Self {
        let mut info = sub_models.first().info().clone();
        let infos = || sub_models.iter().map(Backend::info);
        for other in infos().map(|info| &info.model_type) {
            if !info.model_type.split(", ").any(|known| known == other) {
                info.model_type = format!("{}, {other}", info.model_type);
            }
        }
        info.capabilities = joined(infos().map(|info| &*info.capabilities)).into();
        info.sub_models = NonEmpty::collect(infos().map(|info| *info.limits())).unwrap_or(info.sub_models);
        info.int8 = joined_reports(infos().filter_map(|info| info.int8.as_ref()));
        let count = sub_models.len();
        sub_models.iter_mut().for_each(|sub_model| sub_model.max_reserved /= count);
        Self { sub_models, sub_model_map: info.sub_model_map(), info, times: vec![Duration::ZERO; count] }
    }
}

impl Backend for RoutedBackend {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn needed_bytes(&self, limits: BatchLimits) -> usize {
        self.sub_models.iter().map(|sub_model| sub_model.needed_bytes(limits)).sum()
    }

    fn free_bytes(&self) -> Option<usize> {
        self.sub_models.first().free_bytes()
    }

    fn reserve(&mut self, limits: BatchLimits) -> Result<(), BackendError> {
        self.sub_models.iter_mut().try_for_each(|sub_model| sub_model.reserve(limits))
    }

    fn submit(&mut self, batch: &Batch, yields: &mut dyn YieldPoint) -> Result<Submitted, BackendError> {
        let count = batch.ragged.num_sequences();
        let mut outputs: Vec<(usize, Output)> = Vec::with_capacity(count);
        self.times.fill(Duration::ZERO);
        for (index, (sub_model, time)) in self.sub_models.iter_mut().zip(&mut self.times).enumerate() {
            let (start, away) = (Instant::now(), yields.away());
            let is_own = |&b: &usize| self.sub_model_map.sub_model(batch.ragged.tasks()[b]) == index;
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
            outputs.extend(sequences.into_iter().zip(sub_model.forward(&own, yields)?));
            *time = start.elapsed().saturating_sub(yields.away().saturating_sub(away));
        }
        outputs.sort_by_key(|(b, _)| *b);
        Ok(Submitted::Done(outputs.into_iter().map(|(_, output)| output).collect()))
    }

    fn sub_model_times(&self) -> &[Duration] {
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
