//! `--size-for`: runs the search and reports its result.

use crate::command::args::Bench;
use crate::command::bench::INTERRUPTED;
use crate::command::measure::Measurement;
use crate::command::search::Search;
use crate::load::run::{Driver, Length, Load, Stop, Stream};
use crate::results::report::Report;
use crate::results::size::Goal;
use crate::results::summary::repeats;
use anyhow::Result;
use prefold_tools::print::print_line;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Requests of a run that the search prefers, so that a few slow ones do not decide its p99.
const ENOUGH: f64 = 200.0;
/// Factor by which a run may be longer to have that many.
const LONGEST: f64 = 3.0;
/// Minimum length of a run in units of the latency, unless --duration is given: a queue that grows shows in the latency only with time.
const LATENCIES: f64 = 20.0;

impl Bench {
    /// Searches for the rate that the server carries. Succeeds if there is one.
    pub(super) async fn size_for(
        &self,
        goal: Goal,
        mut report: Report,
        driver: Arc<Driver>,
        mut stop: Stop<'_>,
    ) -> Result<ExitCode> {
        let duration = self.load.size_duration(Duration::from_secs_f64(LATENCIES * goal.p99_ms / 1e3));
        let mut search = Search::new(goal, self.load.seed);
        let mut warmup = self.load.warmup();
        while let Some(load) = search.next() {
            let length = Length { requests: None, duration: Some(length(load, duration)) };
            let measurement = Measurement::single(Stream { driver: driver.clone(), load }, length, warmup.take());
            let runs = measurement.run(stop.as_mut()).await?.unwrap_or_default();
            let Some(run) = runs.into_iter().next().filter(|run| !run.interrupted) else {
                self.write(&report)?;
                return Ok(ExitCode::from(INTERRUPTED));
            };
            let name = match load {
                Load::Closed { concurrency } => format!("{concurrency} at once"),
                Load::Open { rate, .. } => rate.to_string(),
            };
            std::iter::once(run.row(&name)).chain(run.problems()).for_each(print_line);
            search.add(&run);
            // The closed loop has no rate, so charts of the runs leave it out.
            if matches!(load, Load::Open { .. }) {
                report.runs.push(run);
            }
            report.size = search.result();
            self.write_finished_runs(&report)?;
        }
        let lines = report.size.iter().flat_map(|size| size.lines(report.texts_per_request)).chain(repeats(&report));
        lines.for_each(print_line);
        self.write(&report)?;
        let is_found = report.size.as_ref().is_some_and(|size| size.servers.is_some());
        Ok(if is_found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Length of a run, longer for a rate at which few requests come.
fn length(load: Load, duration: Duration) -> Duration {
    match load {
        Load::Closed { .. } => duration,
        Load::Open { rate, .. } => {
            let seconds = duration.as_secs_f64();
            Duration::from_secs_f64((ENOUGH / rate).clamp(seconds, LONGEST * seconds))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_at_a_low_rate_is_longer_within_limits() {
        let open = |rate| length(Load::Open { rate, seed: 1 }, Duration::from_secs(10)).as_secs_f64();
        assert_eq!([100.0, 20.0, 10.0, 0.1].map(open), [10.0, 10.0, 20.0, 30.0]);
        assert_eq!(length(Load::Closed { concurrency: 16 }, Duration::from_secs(10)).as_secs_f64(), 10.0);
    }
}
