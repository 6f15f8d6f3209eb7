//! Results of a command: a table for people, JSON for programs and plots.

use crate::run::{Finished, Load};
use crate::server_side::ServerSide;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Start delay, in milliseconds, above which a remark is printed.
const REMARKABLE_START_DELAY_MS: f64 = 20.0;

/// Content of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Name of the series in plots.
    pub(crate) label: String,
    /// Version of `prefold bench`.
    pub(crate) version: String,
    pub(crate) url: String,
    pub(crate) model: Option<String>,
    pub(crate) file: String,
    pub(crate) clients: usize,
    pub(crate) texts_per_request: Option<usize>,
    /// Distinct requests of the workload, which is repeated as needed.
    pub(crate) different_requests: usize,
    /// Kind of load: `concurrency` or `rate`.
    pub(crate) mode: String,
    /// One run per load, in the order of the command line.
    pub(crate) runs: Vec<RunReport>,
}

/// Result of one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunReport {
    /// Requests in flight, or arrivals per second.
    pub(crate) load: f64,
    pub(crate) elapsed_s: f64,
    /// True if Ctrl-C ended the run.
    pub(crate) interrupted: bool,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) requests_per_s: f64,
    pub(crate) texts_per_s: f64,
    /// Absent if the server does not report tokens.
    pub(crate) tokens_per_s: Option<f64>,
    pub(crate) latency_ms: Latency,
    /// Delay of the load generator itself.
    pub(crate) start_delay_ms: StartDelay,
    pub(crate) errors: Vec<ErrorReport>,
    pub(crate) server: Option<ServerSide>,
}

/// Latency of successful and timed-out requests, from their scheduled start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// See [`RunReport`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartDelay {
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// Errors of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ErrorReport {
    pub(crate) kind: String,
    pub(crate) count: u64,
    /// Message of the first one.
    pub(crate) example: String,
}

impl RunReport {
    pub(crate) fn new(load: Load, finished: &Finished, server: Option<ServerSide>) -> Self {
        let record = &finished.record;
        let seconds = finished.elapsed.as_secs_f64();
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let errors = record.errors.iter().map(|(kind, errors)| ErrorReport {
            kind: kind.to_string(),
            count: errors.count,
            example: errors.example.clone(),
        });
        Self {
            load: load.value(),
            elapsed_s: seconds,
            interrupted: finished.interrupted,
            sent: finished.sent,
            answered: record.answered,
            failed: record.failed(),
            requests_per_s: per_second(record.answered),
            texts_per_s: per_second(record.texts),
            tokens_per_s: record.tokens.filter(|_| record.answered > 0).map(per_second),
            latency_ms: Latency {
                mean: record.latency.mean(),
                p50: record.latency.quantile(0.5),
                p90: record.latency.quantile(0.9),
                p99: record.latency.quantile(0.99),
                max: record.latency.max(),
            },
            start_delay_ms: StartDelay { p99: record.start_delay.quantile(0.99), max: record.start_delay.max() },
            errors: errors.collect(),
            server,
        }
    }

    /// Line of the table.
    pub(crate) fn row(&self) -> String {
        let Latency { p50, p90, p99, max, .. } = self.latency_ms;
        let tokens = self.tokens_per_s.map_or("-".to_owned(), |tokens| format!("{tokens:.0}"));
        let ratio = self.server.as_ref().and_then(|server| server.compaction_ratio);
        let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.4}"));
        format!(
            "{:>11} {:>9} {:>7} {:>10.2} {:>9.1} {tokens:>9} {p50:>9.1} {p90:>9.1} {p99:>9.1} {max:>9.1} {ratio:>7}",
            self.load, self.answered, self.failed, self.requests_per_s, self.texts_per_s
        )
    }

    /// Remarks below the run's line of the table.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        remarks.extend(self.server.iter().flat_map(ServerSide::remarks));
        remarks.extend(self.errors.iter().map(|error| {
            let ErrorReport { kind, count, example } = error;
            format!("{count} x {kind}, first: {example}")
        }));
        if self.interrupted {
            let in_flight = self.sent - self.answered - self.failed;
            remarks.push(format!("interrupted after {:.1} s with {in_flight} requests in flight", self.elapsed_s));
        }
        if self.start_delay_ms.p99 > REMARKABLE_START_DELAY_MS {
            let StartDelay { p99, max } = self.start_delay_ms;
            remarks.push(format!(
                "the load generator fell behind: 99% of requests started within {p99:.1} ms of their schedule, all \
                 within {max:.1} ms; give it more CPU time"
            ));
        }
        remarks
    }
}

/// Header of the table.
pub(crate) fn header(mode: &str) -> String {
    format!(
        "{mode:>11} {:>9} {:>7} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "answered", "failed", "requests/s", "texts/s", "tokens/s", "p50 ms", "p90 ms", "p99 ms", "max ms", "N'/N"
    )
}

impl Report {
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is not a result of `prefold bench --json`", path.display()))
    }
}
