//! Backends over the same weights: replicas, their interrupting backends, and backends in other modes.

use super::backend::{TransformerBackend, attention_name};
use super::footprint::{Footprint, MAX_RESERVED, SHARES};
use super::layout::LayoutBuilder;
use crate::error::LoadError;
use crate::ops::{Priority, Queue, Target};
use crate::options::AttentionMode;
use prefold_core::ModelInfo;
use prefold_kernels::ThreadPool;
use std::sync::Arc;

/// A backend of a sub-model, and the two backends, for due and for urgent batches, that run at its yield points.
#[derive(Debug)]
pub(crate) struct WithInterrupting<B> {
    pub(crate) backend: B,
    pub(crate) interrupting: Option<[B; 2]>,
}

impl TransformerBackend {
    /// Backends over the same weights, one on each team of threads or a single one on the caller's threads, each with its own buffers and
    /// interrupting backends, which run on streams of higher priority on a GPU.
    pub(crate) fn replicate(self, teams: &[Arc<ThreadPool>]) -> Result<Vec<WithInterrupting<Self>>, LoadError> {
        let teams: Vec<_> = match teams {
            [] => vec![None],
            teams => teams.iter().map(Some).collect(),
        };
        let mode = self.layouts.mode;
        let targets = [self.target.with_priority(Priority::Middle)?, self.target.with_priority(Priority::Highest)?];
        let with_interrupting = |&team: &Option<_>| {
            let replica = |target, share| self.replica(mode, target, team, share * teams.len());
            // candle-flash-attn uses one stream.
            if cfg!(feature = "flash-attn") && !self.target.is_cpu() {
                return Ok(WithInterrupting { backend: replica(&self.target, 1)?, interrupting: None });
            }
            let [due, urgent] = &targets;
            let [own, of_due, of_urgent] = SHARES;
            let interrupting = Some([replica(due, of_due)?, replica(urgent, of_urgent)?]);
            Ok(WithInterrupting { backend: replica(&self.target, own)?, interrupting })
        };
        teams.iter().map(with_interrupting).collect()
    }

    /// Backends over the same weights, one for each mode, with their own buffers.
    pub(crate) fn in_modes(self, modes: &[AttentionMode]) -> Result<Vec<WithInterrupting<Self>>, LoadError> {
        let alone = |backend| WithInterrupting { backend, interrupting: None };
        modes.iter().map(|&mode| self.replica(mode, &self.target, None, modes.len()).map(alone)).collect()
    }

    /// Another backend over the weights, on `target`'s stream and on a team of threads or its caller's threads. It reserves at most one of
    /// `shares` equal shares of the memory.
    fn replica(
        &self,
        mode: AttentionMode,
        target: &Target,
        team: Option<&Arc<ThreadPool>>,
        shares: usize,
    ) -> Result<Self, LoadError> {
        let config = self.transformer.config();
        Ok(Self {
            transformer: self.transformer.replica(target)?,
            head: Arc::clone(&self.head),
            layouts: LayoutBuilder { mode, ..self.layouts.replica(target)? },
            target: target.clone(),
            queue: Queue::on(target.stream()),
            #[cfg(feature = "cuda")]
            downloads: crate::ops::Downloads::default(),
            footprint: Footprint::new(config, target, mode),
            info: ModelInfo { attention: attention_name(config, mode), ..self.info.clone() },
            team: team.cloned(),
            max_reserved: MAX_RESERVED / shares,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Checkpoint;
    use crate::memory_budget;
    use crate::options::{DeviceChoice, LoadOptions, ModelSource};
    use prefold_core::{Backend, BatchLimits};
    use std::path::Path;

    #[test]
    fn all_modes_have_the_same_weights_in_memory_and_their_own_footprint() {
        let source = ModelSource::Path(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/qwen3-tiny"));
        let options = LoadOptions { source, device: Some(DeviceChoice::Cpu), ..LoadOptions::default() };
        let checkpoints = Checkpoint::open_all(&options).unwrap();
        let load = |options: &LoadOptions| TransformerBackend::load_all(&checkpoints, options).unwrap().remove(0);
        let modes = [AttentionMode::Ragged, AttentionMode::Compact];
        let backends = load(&options).in_modes(&modes).unwrap();
        assert!(backends[0].backend.transformer.shares_weights(&backends[1].backend.transformer));
        for (WithInterrupting { backend, interrupting }, attention) in backends.iter().zip(modes) {
            assert!(interrupting.is_none());
            let alone = load(&LoadOptions { attention, ..options.clone() });
            assert!(!alone.transformer.shares_weights(&backend.transformer));
            assert_eq!(backend.layouts.mode, attention);
            assert_eq!(backend.footprint, alone.footprint, "{attention}");
        }
        assert_ne!(backends[0].backend.footprint, backends[1].backend.footprint);
    }

    #[test]
    fn the_memory_of_a_batch_on_a_cpu_is_compared_with_the_limits_on_the_process() {
        let source = ModelSource::Path(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/qwen3-tiny"));
        let options = LoadOptions { source, device: Some(DeviceChoice::Cpu), ..LoadOptions::default() };
        let checkpoints = Checkpoint::open_all(&options).unwrap();
        let mut backend = TransformerBackend::load_all(&checkpoints, &options).unwrap().remove(0);
        let needed = |max_tokens| backend.needed_bytes(BatchLimits { max_tokens, max_ragged_tokens: max_tokens });
        assert_eq!(needed(1000), backend.footprint.bytes(1000, 1000));
        let most = needed(i32::MAX as usize);
        assert!((MAX_RESERVED / 2..=MAX_RESERVED).contains(&most), "{most}");
        memory_budget::LEFT.set(Some(100_000_000));
        assert_eq!(backend.free_bytes(), Some(100_000_000));
        let mut reserve = |max_tokens| backend.reserve(BatchLimits { max_tokens, max_ragged_tokens: max_tokens });
        reserve(1000).unwrap();
        let refused = reserve(1_000_000).unwrap_err().to_string();
        assert!(refused.contains("this process may have 100000000 more; a smaller --max-batch-tokens"), "{refused}");
        memory_budget::LEFT.set(None);
    }

    #[test]
    fn all_replicas_and_what_interrupts_them_reserve_no_more_than_one_backend() {
        let source = ModelSource::Path(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/qwen3-tiny"));
        let options = LoadOptions { source, device: Some(DeviceChoice::Cpu), ..LoadOptions::default() };
        let checkpoints = Checkpoint::open_all(&options).unwrap();
        for count in [0, 1, 3] {
            let backend = TransformerBackend::load_all(&checkpoints, &options).unwrap().remove(0);
            let teams: Vec<_> = (0..count).map(|_| Arc::new(ThreadPool::new(1))).collect();
            let replicas = backend.replicate(&teams).unwrap();
            assert_eq!(replicas.len(), count.max(1));
            let mut all = Vec::new();
            for (index, WithInterrupting { backend, interrupting }) in replicas.into_iter().enumerate() {
                let others = interrupting.unwrap();
                for other in &others {
                    assert!(other.transformer.shares_weights(&backend.transformer));
                    let team = other.team.as_ref().map(Arc::as_ptr);
                    assert_eq!(team, teams.get(index).map(Arc::as_ptr), "the same threads");
                    assert!(other.max_reserved < backend.max_reserved);
                }
                all.push(backend);
                all.extend(others);
            }
            let reserved: usize = all.iter().map(|backend| backend.max_reserved).sum();
            assert!(reserved <= MAX_RESERVED && reserved + all.len() > MAX_RESERVED, "{reserved} by {count}");
        }
    }
}
