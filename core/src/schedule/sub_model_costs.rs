//! Costs of the sub-models, and the bound on the time of a batch.

use super::cost_model::{Cost, CostModel};
use super::work::{Work, WorkBySubModel};
use crate::backend::SubModelMap;
use std::time::Duration;

/// Cost model of each sub-model. Sub-models may be of very different sizes, so the passes of one say nothing about another.
#[derive(Debug, Clone)]
pub(crate) struct SubModelCosts {
    sub_models: SubModelMap,
    /// By sub-model.
    models: Vec<CostModel>,
}

impl SubModelCosts {
    /// Costs of a model that runs on `replicas` replicas of its backend.
    pub(crate) fn new(sub_models: SubModelMap, replicas: usize) -> Self {
        let models = vec![CostModel::new(replicas); sub_models.count()];
        Self { sub_models, models }
    }

    /// Records that a sub-model took `time` for its work in a pass.
    pub(crate) fn observe(&mut self, sub_model: usize, work: Work, time: Duration) {
        if let Some(model) = self.models.get_mut(sub_model) {
            model.observe(work, time);
        }
    }

    /// Bound of `limit` on the estimated time of a batch; `None` for estimates without a bound.
    pub(crate) fn bound(&self, limit: Option<Duration>) -> TimeBound {
        let costs = self.models.iter().map(CostModel::cost).collect();
        let limit = limit.map_or(f64::INFINITY, |limit| limit.as_nanos() as f64);
        TimeBound { limit, costs, sub_models: self.sub_models.clone() }
    }
}

/// Bound on the time of a batch: the sum of the times of the sub-models, which compute one after another.
#[derive(Debug, Clone)]
pub(crate) struct TimeBound {
    /// Nanoseconds; infinite where there is no bound.
    limit: f64,
    /// By sub-model.
    costs: Vec<Cost>,
    pub(crate) sub_models: SubModelMap,
}

impl Default for TimeBound {
    /// No bound and no cost estimates.
    fn default() -> Self {
        Self { limit: f64::INFINITY, costs: Vec::new(), sub_models: SubModelMap::default() }
    }
}

impl TimeBound {
    /// The bound in nanoseconds; infinite where there is none.
    pub(crate) fn limit(&self) -> f64 {
        self.limit
    }

    /// Time of rows without pairs in the sub-model whose rows take longest.
    pub(crate) fn time_of_rows(&self, rows: usize) -> f64 {
        self.costs.iter().map(|cost| cost.per_row).fold(0.0, f64::max) * rows as f64
    }

    /// Rows of a sub-model, without pairs, that could join a pass together with `shared`, work that the pass has already.
    pub(crate) fn room(&self, taken: &WorkBySubModel, sub_model: usize, shared: Work) -> usize {
        let rest = self.most(self.limit, sub_model, shared) - self.time(taken);
        self.costs.get(sub_model).map_or(usize::MAX, |cost| (rest / cost.per_row).max(0.0) as usize)
    }

    /// True if a pass is within the bound. Its last sequence is for `sub_model` and shares the work `shared` with
    /// others.
    pub(crate) fn allows(&self, pass: &WorkBySubModel, sub_model: usize, shared: Work) -> bool {
        self.allows_within(self.limit, pass, sub_model, shared)
    }

    /// The same with another bound.
    pub(crate) fn allows_within(&self, limit: f64, pass: &WorkBySubModel, sub_model: usize, shared: Work) -> bool {
        self.time(pass) <= self.most(limit, sub_model, shared)
    }

    /// The bound plus the time of the shared work, which the next batch would compute again. Shared work that alone takes longer
    /// than the bound replaces it, so that at most half of the time goes to work computed before.
    fn most(&self, limit: f64, sub_model: usize, shared: Work) -> f64 {
        let shared = self.costs.get(sub_model).map_or(0.0, |cost| cost.time(shared));
        limit.max(shared) + shared
    }

    /// Estimated time of a pass, in nanoseconds.
    pub(crate) fn time(&self, work: &WorkBySubModel) -> f64 {
        self.costs.iter().zip(work.iter()).map(|(cost, work)| cost.time(work)).sum()
    }
}

#[cfg(test)]
#[path = "tests/sub_model_costs.rs"]
mod tests;
