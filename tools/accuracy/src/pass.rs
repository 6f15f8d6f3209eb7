//! A pass over the texts in one dtype, in a separate process, so that its memory can be measured.
//!
//! The process writes a line when its model is ready ([`Ready`]), reads a line with the texts ([`Work`]), and writes a line with
//! the answers ([`Done`]). All lines are JSON; errors go to standard error.

use crate::answers::Answers;
use crate::error::{AccuracyError, StartError};
use crate::memory;
use crate::requests::Requests;
use crate::texts::{Kind, Work};
use prefold_backends::{DeviceChoice, used_device_bytes};
use prefold_core::{Embed, Engine, Usage};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// Message of a process whose model is ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) model_type: String,
    pub(crate) dtype: String,
    pub(crate) device: String,
    pub(crate) kind: Kind,
    /// Tasks that select adapters or routes.
    pub(crate) tasks: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) load_s: f64,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) device_bytes: Option<u64>,
}

/// Answers of a model, and their cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) answers: Answers,
    pub(crate) peak_bytes: Option<u64>,
    pub(crate) tokens: usize,
    pub(crate) truncated: usize,
    pub(crate) elapsed_s: f64,
}

/// Loads the model, answers the texts of standard input, and ends.
pub(crate) fn answer(start: impl FnOnce() -> Result<Engine, StartError>) -> Result<(), AccuracyError> {
    let begun = Instant::now();
    let engine = start().map_err(AccuracyError::Start)?;
    let load_s = begun.elapsed().as_secs_f64();
    let info = engine.info();
    let device: Option<DeviceChoice> = info.device.parse().ok();
    write_line(
        &mut std::io::stdout(),
        &Ready {
            model_type: info.model_type.clone(),
            dtype: info.dtype.to_owned(),
            device: info.device.clone(),
            kind: Kind::of(&info.capabilities)?,
            tasks: info.capabilities.embed.iter().flat_map(Embed::task_names).map(str::to_owned).collect(),
            warnings: info.capabilities.warnings.clone(),
            load_s,
            resident_bytes: memory::resident(),
            device_bytes: device.and_then(used_device_bytes).map(|bytes| bytes as u64),
        },
    )?;
    // No line comes if the texts do not fit this model; the other process has printed the error.
    let Some(work) = read_line::<Work>(&mut std::io::stdin().lock())? else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(AccuracyError::Process)?.block_on(run(&engine, &work))?;
    write_line(&mut std::io::stdout(), &done)
}

async fn run(engine: &Engine, work: &Work) -> Result<Done, AccuracyError> {
    let mut requests = Requests::new(engine, work.inputs());
    let begun = Instant::now();
    let answers = match work {
        Work::Embed(items) => requests.embed(items).await.map(Answers::Vectors),
        Work::Rerank(questions) => requests.score(questions).await.map(Answers::Scored),
        Work::Classify(items) => requests.classify(items).await.map(Answers::Scored),
    };
    let elapsed_s = begun.elapsed().as_secs_f64();
    let Usage { tokens, truncated_inputs, .. } = requests.finish();
    let answers = answers?;
    let peak_bytes = memory::peak();
    engine.shutdown().await;
    Ok(Done { answers, peak_bytes, tokens, truncated: truncated_inputs, elapsed_s })
}

/// A process that runs [`answer`]. Ended when dropped.
pub(crate) struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    pub(crate) ready: Ready,
}

impl Process {
    /// Starts the process and waits until its model is ready.
    pub(crate) fn start(mut command: Command) -> Result<Self, AccuracyError> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(AccuracyError::Process)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or(AccuracyError::Ended)?;
        let mut stdout = BufReader::new(stdout);
        let ready = read_line(&mut stdout).and_then(|ready| ready.ok_or(AccuracyError::Ended));
        match ready {
            Ok(ready) => Ok(Self { child, stdin, stdout, ready }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    /// The answers to the work.
    pub(crate) fn run(mut self, work: &Work) -> Result<Done, AccuracyError> {
        write_line(&mut self.stdin, work)?;
        read_line(&mut self.stdout)?.ok_or(AccuracyError::Ended)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills a process unless it has ended, and waits for it.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn write_line(to: &mut impl Write, value: &impl Serialize) -> Result<(), AccuracyError> {
    let line = serde_json::to_string(value)? + "\n";
    to.write_all(line.as_bytes()).and_then(|()| to.flush()).map_err(AccuracyError::Process)
}

/// The next line; `None` at the end.
fn read_line<T: DeserializeOwned>(from: &mut impl BufRead) -> Result<Option<T>, AccuracyError> {
    let mut line = String::new();
    match from.read_line(&mut line).map_err(AccuracyError::Process)? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_str(&line)?)),
    }
}
