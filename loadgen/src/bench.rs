//! The command: reads the workload, runs each load, prints and writes the results.

use crate::args::{Bench, Other};
use crate::client::Target;
use crate::plot;
use crate::report::{self, Report, RunReport};
use crate::run::{Driver, Load, Stop};
use crate::server_side::{Counters, ServerSide};
use crate::workload::Workload;
use anyhow::{Context, Result, bail};
use std::process::ExitCode;
use std::sync::Arc;

/// Exit status that shells expect after Ctrl-C.
const INTERRUPTED: u8 = 130;

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
        let target = Target::new(self.target.config())?;
        let model = match &self.target.model {
            Some(model) => Some(model.clone()),
            None => target.first_model().await,
        };
        let file = self.workload.file()?;
        let plan = self.workload.plan(&self.target, model.clone())?;
        let workload = Workload::read(file, &plan)?;
        let loads = self.load.loads();
        let mode = loads.first().map_or("", |load| load.mode());
        let mut report = Report {
            label: self.output.label.clone().unwrap_or_else(|| target.url().to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            url: target.url().to_owned(),
            model,
            file: file.display().to_string(),
            clients: plan.clients,
            texts_per_request: plan.texts_per_request,
            different_requests: workload.len(),
            mode: mode.to_owned(),
            runs: Vec::new(),
        };
        println!("{}", title(&report));
        println!("{}", report::header(mode));
        let driver = Driver::new(target, workload);
        let mut stop = std::pin::pin!(interrupt());
        let mut interrupted = false;
        for load in loads {
            let Some(run) = self.run_load(&driver, load, stop.as_mut()).await? else {
                interrupted = true;
                break;
            };
            println!("{}", run.row());
            run.remarks().iter().for_each(|remark| println!("            {remark}"));
            interrupted = run.interrupted;
            report.runs.push(run);
            if interrupted {
                break;
            }
        }
        self.write(&report)?;
        let answered = report.runs.iter().all(|run| run.answered > 0);
        Ok(match (interrupted, answered) {
            (true, _) => ExitCode::from(INTERRUPTED),
            (false, true) => ExitCode::SUCCESS,
            (false, false) => ExitCode::FAILURE,
        })
    }

    /// Runs the warm-up and the load; `None` if the warm-up was interrupted.
    async fn run_load(&self, driver: &Arc<Driver>, load: Load, mut stop: Stop<'_>) -> Result<Option<RunReport>> {
        if let Some(length) = self.load.warmup() {
            let warmup = driver.run(load, length, "warm-up", stop.as_mut()).await;
            if warmup.interrupted {
                return Ok(None);
            }
            if let (0, Some((kind, errors))) = (warmup.record.answered, warmup.record.errors.first_key_value()) {
                bail!("no warm-up request succeeded; the first failed with {kind}: {}", errors.example);
            }
        }
        let before = counters(driver.target()).await;
        let title = format!("{} {}", load.mode(), load.value());
        let finished = driver.run(load, self.load.length(), &title, stop).await;
        let after = counters(driver.target()).await;
        let server = ServerSide::new(before, after, &finished.record);
        Ok(Some(RunReport::new(load, &finished, server)))
    }

    fn write(&self, report: &Report) -> Result<()> {
        if let Some(path) = &self.output.json {
            report.write(path)?;
        }
        if let Some(path) = &self.output.svg {
            plot::write(std::slice::from_ref(report), &report.label, path)?;
        }
        Ok(())
    }
}

/// Resolves at the first Ctrl-C.
async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Ctrl-C cannot be caught, so it ends the process by default.
        std::future::pending().await
    }
}

async fn counters(target: &Target) -> Option<Counters> {
    target.metrics().await.as_deref().map(Counters::parse)
}

fn title(report: &Report) -> String {
    let Report { url, file, different_requests, .. } = report;
    let clients = match report.clients {
        1 => String::new(),
        clients => format!(" of {clients} clients"),
    };
    let model = report.model.as_ref().map_or(String::new(), |model| format!(", model {model}"));
    format!("POST {url}{model}\n{different_requests} distinct requests{clients} from {file}")
}
