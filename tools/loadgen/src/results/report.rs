//! Results of a command: a table, and JSON for programs and plots.

use crate::load::record::{Interval, Record};
use crate::load::run::{Finished, Load};
use crate::load::server_side::ServerSide;
use crate::results::size::Size;
use anyhow::{Context, Result};
use prefold_tools::plural::count;
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
    /// Type of the model's weights, if the server states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dtype: Option<String>,
    /// The model computes a shared prefix once, if the server states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shares_prefixes: Option<bool>,
    /// File, or description of the random texts.
    pub(crate) file: String,
    pub(crate) clients: usize,
    pub(crate) texts_per_request: Option<usize>,
    /// Distinct requests of the workload, which is repeated as needed.
    pub(crate) different_requests: usize,
    /// Kind of load: `concurrency`, `rate` or `mixed`.
    pub(crate) mode: String,
    /// Seed of arrivals and random texts.
    #[serde(default)]
    pub(crate) seed: u64,
    /// Priority of the requests, except for the queries of a mixed load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<i64>,
    /// Queries of a mixed load; the fields above describe the bulk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queries: Option<QueriesReport>,
    /// Result of `--size-for`, whose runs are the rates that were tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<Size>,
    /// One run per load, in the order of the command line; for a mixed load one per [`LoadPart`].
    pub(crate) runs: Vec<RunReport>,
}

/// Queries of a mixed load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct QueriesReport {
    pub(crate) url: String,
    pub(crate) file: String,
    pub(crate) rate: f64,
    pub(crate) texts_per_request: Option<usize>,
    pub(crate) different_requests: usize,
    pub(crate) priority: Option<i64>,
}

/// Part of a mixed load: queries or bulk, alone or together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoadPart {
    QueriesAlone,
    QueriesBesideBulk,
    BulkAlone,
    BulkBesideQueries,
}

/// Result of one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunReport {
    /// Requests in flight, or arrivals per second; in a mixed load the bulk's requests in flight.
    pub(crate) load: f64,
    /// Part of a mixed load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) part: Option<LoadPart>,
    pub(crate) elapsed_s: f64,
    /// True if Ctrl-C ended the run.
    pub(crate) interrupted: bool,
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    /// Texts of successful responses.
    #[serde(default)]
    pub(crate) texts: u64,
    /// Tokens of successful responses. Absent if the server does not report tokens.
    #[serde(default)]
    pub(crate) tokens: Option<u64>,
    pub(crate) requests_per_s: f64,
    pub(crate) texts_per_s: f64,
    /// Absent if the server does not report tokens.
    pub(crate) tokens_per_s: Option<f64>,
    /// Texts per second in each round.
    #[serde(default)]
    pub(crate) rounds_texts_per_s: Vec<f64>,
    pub(crate) latency_ms: Latency,
    /// Latency divided by the mean time of a forward pass, if the server reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latency_passes: Option<Latency>,
    /// Latency that 0%, 1%, ..., 100% of the requests did not exceed.
    #[serde(default)]
    pub(crate) percentiles_ms: Vec<f64>,
    /// Histogram of the latency.
    #[serde(default)]
    pub(crate) histogram: Vec<Interval>,
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

impl Latency {
    fn new(record: &Record) -> Self {
        let times = &record.latency;
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|quantile| times.quantile(quantile));
        Self { mean: times.mean(), p50, p90, p99, max: times.max() }
    }

    fn in_units_of(self, ms: f64) -> Self {
        let Self { mean, p50, p90, p99, max } = self;
        Self { mean: mean / ms, p50: p50 / ms, p90: p90 / ms, p99: p99 / ms, max: max / ms }
    }
}

impl RunReport {
    /// Result of a load over all its rounds.
    pub(crate) fn new(load: Load, finished: &Finished, server: Option<ServerSide>) -> Self {
        let record = &finished.record;
        let per_second = |count: u64| finished.per_second(count);
        let errors = record.errors.iter().map(|(kind, errors)| ErrorReport {
            kind: kind.to_string(),
            count: errors.count,
            example: errors.example.clone(),
        });
        let latency = Latency::new(record);
        let tokens = record.tokens.filter(|_| record.answered > 0);
        let pass_ms = server.as_ref().and_then(ServerSide::pass_ms);
        Self {
            load: load.value(),
            part: None,
            elapsed_s: finished.elapsed.as_secs_f64(),
            interrupted: finished.interrupted,
            sent: finished.sent,
            answered: record.answered,
            failed: record.failed(),
            texts: record.texts,
            tokens,
            requests_per_s: per_second(record.answered),
            texts_per_s: per_second(record.texts),
            tokens_per_s: tokens.map(per_second),
            rounds_texts_per_s: vec![per_second(record.texts)],
            latency_ms: latency,
            latency_passes: pass_ms.map(|ms| latency.in_units_of(ms)),
            percentiles_ms: (0..=100).map(|percent| record.latency.quantile(f64::from(percent) / 100.0)).collect(),
            histogram: record.latency.intervals(),
            start_delay_ms: StartDelay { p99: record.start_delay.quantile(0.99), max: record.start_delay.max() },
            errors: errors.collect(),
            server,
        }
    }

    /// Line of the table, beginning with the name of the load.
    pub(crate) fn row(&self, name: &str) -> String {
        let Latency { p50, p90, p99, max, .. } = self.latency_ms;
        let tokens = self.tokens_per_s.map_or("-".to_owned(), |tokens| format!("{tokens:.0}"));
        let ratio = self.server.as_ref().and_then(|server| server.compaction_ratio);
        let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.4}"));
        format!(
            "{name:>11} {:>9} {:>7} {:>10.2} {:>9.1} {tokens:>9} {p50:>9.1} {p90:>9.1} {p99:>9.1} {max:>9.1} {ratio:>7}",
            self.answered, self.failed, self.requests_per_s, self.texts_per_s
        )
    }

    /// Remarks below the run's line of the table.
    fn remarks(&self) -> Vec<String> {
        self.server.iter().flat_map(ServerSide::remarks).chain(self.problems()).collect()
    }

    /// Errors, the interruption and the load generator's own delay, if there are any.
    pub(crate) fn problems(&self) -> Vec<String> {
        let error = |error: &ErrorReport| format!("{} x {}, first: {}", error.count, error.kind, error.example);
        let mut remarks: Vec<_> = self.errors.iter().map(error).collect();
        if self.interrupted {
            let in_flight = count(self.sent - self.answered - self.failed, "request");
            remarks.push(format!("interrupted after {:.1} s with {in_flight} in flight", self.elapsed_s));
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

/// Lines of the table, each with its remarks.
pub(crate) fn lines(runs: &[RunReport]) -> Vec<String> {
    let remarks = |run: &RunReport| run.remarks().into_iter().map(|remark| format!("            {remark}"));
    runs.iter().flat_map(|run| std::iter::once(run.row(&run.load.to_string())).chain(remarks(run))).collect()
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
