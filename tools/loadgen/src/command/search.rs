//! The search for the rate that a server carries within a latency.

use crate::load::run::Load;
use crate::results::report::RunReport;
use crate::results::size::{Goal, Size, servers, whole_cores};

/// Requests in flight in the run that shows the most the server answers.
const SATURATING: usize = 16;
/// First rate, as a fraction of the saturated one. A server that is too slow at this rate is too slow alone.
const FLOOR: f64 = 0.1;
/// First upper end of the search, as a fraction of the saturated rate, which more requests in flight can exceed.
const CEILING: f64 = 1.25;
/// Ratio of the ends of the search at which it ends.
const PRECISION: f64 = 1.05;
/// Maximum runs between the ends.
const MAX_PROBES: u32 = 8;
/// Maximum runs that confirm the rate with other arrivals.
const MAX_CONFIRMATIONS: u32 = 4;
/// Factor of the rate after a run that did not confirm it.
const STEP_DOWN: f64 = 0.93;

/// Search for the highest rate of random arrivals at which a server keeps the latency. The number of its runs is bounded.
#[derive(Debug)]
pub(crate) struct Search {
    goal: Goal,
    seed: u64,
    stage: Stage,
    saturated: Option<RunReport>,
    carried: Option<RunReport>,
}

/// The next run of a [`Search`].
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// A closed loop.
    Saturation,
    /// A rate at which requests hardly meet each other.
    Floor {
        rate: f64,
    },
    /// The rate in the middle: `low` kept the latency. `high` did not, if a run `reached` it.
    Bisection {
        low: f64,
        high: f64,
        reached: bool,
        probes: u32,
    },
    /// A rate that kept the latency, with other arrivals.
    Confirmation {
        rate: f64,
        runs: u32,
    },
    Done,
}

impl Search {
    pub(crate) fn new(goal: Goal, seed: u64) -> Self {
        Self { goal, seed, stage: Stage::Saturation, saturated: None, carried: None }
    }

    /// Load of the next run; `None` at the end.
    pub(crate) fn next(&self) -> Option<Load> {
        let (rate, seed) = match self.stage {
            Stage::Saturation => return Some(Load::Closed { concurrency: SATURATING }),
            Stage::Floor { rate } => (rate, 0),
            Stage::Bisection { low, high, probes, .. } => (f64::midpoint(low, high), 1 + u64::from(probes)),
            Stage::Confirmation { rate, runs } => (rate, 1 + u64::from(MAX_PROBES + runs)),
            Stage::Done => return None,
        };
        Some(Load::Open { rate: three_digits(rate), seed: self.seed.wrapping_add(seed) })
    }

    /// Takes the result of the load that [`next`](Self::next) named.
    pub(crate) fn add(&mut self, run: &RunReport) {
        let kept = self.keeps_latency(run);
        self.stage = match self.stage {
            Stage::Saturation => {
                self.saturated = Some(run.clone());
                let is_answered = run.requests_per_s > 0.0;
                if is_answered { Stage::Floor { rate: FLOOR * run.requests_per_s } } else { Stage::Done }
            }
            Stage::Floor { .. } if !kept => Stage::Done,
            Stage::Floor { rate } => {
                Stage::Bisection { low: rate, high: rate / FLOOR * CEILING, reached: false, probes: 0 }.settled()
            }
            Stage::Bisection { low, high, reached, probes } => {
                let (middle, probes) = (f64::midpoint(low, high), probes + 1);
                let next = if kept {
                    Stage::Bisection { low: middle, high, reached, probes }
                } else {
                    Stage::Bisection { low, high: middle, reached: true, probes }
                };
                next.settled()
            }
            Stage::Confirmation { .. } if kept => {
                self.carried = Some(run.clone());
                Stage::Done
            }
            Stage::Confirmation { rate, runs } if runs + 1 < MAX_CONFIRMATIONS => {
                Stage::Confirmation { rate: STEP_DOWN * rate, runs: runs + 1 }
            }
            Stage::Confirmation { .. } | Stage::Done => Stage::Done,
        };
    }

    fn keeps_latency(&self, run: &RunReport) -> bool {
        run.answered > 0 && run.failed == 0 && run.latency_ms.p99 <= self.goal.p99_ms
    }

    /// The result; `None` before the closed loop has ended.
    pub(crate) fn result(&self) -> Option<Size> {
        let saturated = self.saturated.as_ref()?;
        let carried = self.carried.as_ref();
        let cpu_s = saturated.server.as_ref().and_then(|server| server.cpu_s);
        let cores_per_server = cpu_s.filter(|_| saturated.elapsed_s > 0.0).map(|seconds| seconds / saturated.elapsed_s);
        let servers = carried.map(|run| servers(self.goal.rate, run.load));
        Some(Size {
            rate: self.goal.rate,
            p99_ms: self.goal.p99_ms,
            saturating: SATURATING,
            saturated_requests_per_s: saturated.requests_per_s,
            carried_requests_per_s: carried.map(|run| run.load),
            carried_p99_ms: carried.map(|run| run.latency_ms.p99),
            busy: carried.and_then(|run| run.server.as_ref()?.busy()),
            cores_per_server,
            servers,
            cores: servers.zip(cores_per_server).map(|(servers, cores)| servers * whole_cores(cores)),
        })
    }
}

impl Stage {
    /// This stage, or the one that follows a bisection whose ends are close or whose runs are used up. A server that keeps the
    /// latency up to a rate that no run reached is tried at twice that rate.
    fn settled(self) -> Self {
        match self {
            Self::Bisection { low, high, reached, probes } if probes >= MAX_PROBES || high / low <= PRECISION => {
                if reached || probes >= MAX_PROBES {
                    Self::Confirmation { rate: low, runs: 0 }
                } else {
                    Self::Bisection { low, high: 2.0 * high, reached, probes }
                }
            }
            other => other,
        }
    }
}

/// Rates are read, and typed again.
fn three_digits(rate: f64) -> f64 {
    format!("{rate:.2e}").parse().unwrap_or(rate)
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
