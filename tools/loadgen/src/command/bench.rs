//! The command: reads the workload, runs each load, prints and writes the results.

use crate::command::args::{Bench, Other};
use crate::command::measure::Measurement;
use crate::http::client::Target;
use crate::http::info::ServerInfo;
use crate::load::run::{Driver, Load, Stream};
use crate::results::mixed;
use crate::results::plot;
use crate::results::report::{self, QueriesReport, Report};
use crate::results::summary;
use crate::workload::{Plan, Workload};
use anyhow::{Context, Result, ensure};
use prefold_tools::plural::count;
use prefold_tools::print::print_line;
use std::process::ExitCode;
use std::sync::Arc;

/// Exit status that shells expect after Ctrl-C.
pub(super) const INTERRUPTED: u8 = 130;

impl Bench {
    /// Runs the command to its end. Succeeds if every run had a successful response.
    pub fn run(self) -> ExitCode {
        let outcome = match &self.other {
            Some(Other::Plot(plot)) => plot.run(),
            None => self.send(),
        };
        outcome.unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        })
    }

    fn send(&self) -> Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
        runtime.block_on(self.send_all())
    }

    async fn send_all(&self) -> Result<ExitCode> {
        let (mut report, bulk, queries) = self.prepare().await?;
        title(&report).iter().for_each(print_line);
        if queries.is_none() {
            print_line(report::header(&report.mode));
        }
        let mut stop = std::pin::pin!(interrupt());
        if let Some(goal) = self.size.goal() {
            return self.size_for(goal, report, bulk, stop).await;
        }
        let mut interrupted = false;
        for load in self.load.loads() {
            let measurement = self.measurement(Stream { driver: bulk.clone(), load }, queries.as_ref());
            let Some(runs) = measurement.run(stop.as_mut()).await? else {
                interrupted = true;
                break;
            };
            let lines = if queries.is_some() { mixed::lines(&runs) } else { report::lines(&runs) };
            lines.iter().for_each(print_line);
            interrupted = runs.iter().any(|run| run.interrupted);
            report.runs.extend(runs);
            self.write_finished_runs(&report)?;
            if interrupted {
                break;
            }
        }
        summary::lines(&report).iter().for_each(print_line);
        self.write(&report)?;
        let answered = report.runs.iter().all(|run| run.answered > 0);
        Ok(match (interrupted, answered) {
            (true, _) => ExitCode::from(INTERRUPTED),
            (false, true) => ExitCode::SUCCESS,
            (false, false) => ExitCode::FAILURE,
        })
    }

    /// Builds all requests. Returns the report, still without runs, and the streams: the bulk (or the only requests), then
    /// the queries if any.
    async fn prepare(&self) -> Result<(Report, Arc<Driver>, Option<Stream>)> {
        let queries = self.load.queries()?;
        let target = Target::new(self.target.config())?;
        let model = match &self.target.model {
            Some(model) => Some(model.clone()),
            None => target.first_model().await,
        };
        let ServerInfo { model: served, dtype, shares_prefixes, only_ranks } = target.info().await;
        let plan = self.workload.plan(&self.target, shares_prefixes, model.clone())?;
        ensure!(plan.api.ranks() || !only_ranks, "the served model ranks texts and embeds none: use --api rerank");
        let source = self.workload.source(plan.api, shares_prefixes, self.load.seed)?;
        let workload = Workload::from_source(&source, &plan)?;
        let queries = queries.map(|load| self.prepare_queries(load, &plan)).transpose()?;
        let mode = match (&queries, self.load.loads().first()) {
            (Some(_), _) => "mixed",
            _ if self.size.goal().is_some() => "rate",
            (None, load) => load.map_or("", |load| load.mode()),
        };
        let (described, queries) = queries.unzip();
        let model = model.or(served);
        let report = Report {
            label: self
                .output
                .label
                .clone()
                .unwrap_or_else(|| ServerInfo::label(model.as_deref(), dtype.as_deref(), target.url())),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            url: target.url().to_owned(),
            model,
            dtype,
            shares_prefixes,
            file: source.to_string(),
            clients: plan.clients,
            texts_per_request: plan.texts_per_request,
            different_requests: workload.len(),
            mode: mode.to_owned(),
            seed: self.load.seed,
            priority: plan.priority,
            queries: described,
            size: None,
            runs: Vec::new(),
        };
        Ok((report, Driver::new(target, workload), queries))
    }

    fn prepare_queries(&self, load: Load, bulk: &Plan) -> Result<(QueriesReport, Stream)> {
        let target = Target::new(self.queries.target(self.target.config()))?;
        let plan = self.queries.plan(bulk);
        let source = self.queries.source(&plan, self.load.seed);
        let workload = Workload::from_source(&source, &plan)?;
        let report = QueriesReport {
            url: target.url().to_owned(),
            file: source.to_string(),
            rate: load.value(),
            texts_per_request: plan.texts_per_request,
            different_requests: workload.len(),
            priority: plan.priority,
        };
        Ok((report, Stream { driver: Driver::new(target, workload), load }))
    }

    fn measurement(&self, stream: Stream, queries: Option<&Stream>) -> Measurement {
        let (length, warmup) = (self.load.length(), self.load.warmup());
        match queries {
            Some(queries) => Measurement::mixed(queries, &stream, self.load.rounds(), length, warmup),
            None => Measurement::single(stream, length, warmup),
        }
    }

    pub(super) fn write(&self, report: &Report) -> Result<()> {
        if let Some(path) = &self.output.json {
            report.write(path)?;
        }
        if let Some(path) = &self.output.svg {
            plot::write(std::slice::from_ref(report), &report.label, path)?;
        }
        Ok(())
    }

    /// Writes the runs so far, so that they survive if the command is killed. A pipe or device gets only the final report.
    pub(super) fn write_finished_runs(&self, report: &Report) -> Result<()> {
        match &self.output.json {
            Some(path) if std::fs::metadata(path).map_or(true, |file| file.is_file()) => report.write(path),
            _ => Ok(()),
        }
    }
}

/// Resolves at the first Ctrl-C.
async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Ctrl-C cannot be caught, so it ends the process by default.
        std::future::pending().await
    }
}

/// Description of the requests and their target, for the user.
fn title(report: &Report) -> Vec<String> {
    let Report { url, file, .. } = report;
    let requests = |number: usize| count(number as u64, "distinct request");
    let clients = match report.clients {
        1 => String::new(),
        clients => format!(" of {clients} clients"),
    };
    let dtype = report.dtype.as_ref().map_or(String::new(), |dtype| format!(" ({dtype})"));
    let model = report.model.as_ref().map_or(String::new(), |model| format!(", model {model}{dtype}"));
    let mut lines =
        vec![format!("POST {url}{model}"), format!("{}{clients} from {file}", requests(report.different_requests))];
    lines.extend(report.queries.as_ref().map(|queries| {
        let QueriesReport { url, file, rate, .. } = queries;
        let requests = requests(queries.different_requests);
        format!("with queries, {rate} per second: POST {url}, {requests} from {file}")
    }));
    lines
}

#[cfg(test)]
#[path = "bench_tests.rs"]
mod tests;
