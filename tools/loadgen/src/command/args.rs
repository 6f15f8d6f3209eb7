//! The command line of `prefold bench`.

use crate::command::queries_args::QueriesArgs;
use crate::command::size_args::SizeArgs;
use crate::command::values::{parse_rate, parse_seconds, parse_seconds_or_none};
use crate::http::address;
use crate::http::api::Api;
use crate::http::client::{TargetConfig, bearer};
use crate::load::run::{Length, Load};
use crate::results::plot::Plot;
use crate::workload::builtin::Builtin;
use crate::workload::presets::{self, preset};
use crate::workload::{Plan, RANDOM_WORDS, Source};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use prefold_tools::template::{Template, unescape};
use reqwest::header::HeaderValue;
use std::path::PathBuf;
use std::time::Duration;

/// Default duration of a run, in seconds, without --duration and --requests.
const DURATION: f64 = 10.0;
/// Maximum requests in flight per run: each has a connection, and an IP address has this many ports.
const MAX_CONCURRENCY: i64 = 65_535;
/// Default number of rounds of a mixed load. Two in opposite order cancel a drift of the machine.
const ROUNDS: u32 = 2;

/// Sends requests to any embedding or reranking server and reports throughput and latency
///
/// A run is a closed loop (--concurrency: each response triggers the next request) or an open loop (--rate: requests
/// arrive at random, regardless of the number in flight, and latency counts from a request's scheduled start). Several
/// comma-separated values mean several runs. Both flags together are a mixed load: queries at --rate together with
/// --concurrency bulk clients, and each of the two alone.
#[derive(Debug, Clone, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    #[command(subcommand)]
    pub(crate) other: Option<Other>,

    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) size: SizeArgs,
    #[command(flatten)]
    pub(crate) queries: QueriesArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Subcommands of `prefold bench`.
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Other {
    /// Draw results of `prefold bench --json`: throughput and latency against load
    Plot(Plot),
}

/// Flags for the server under load.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct TargetArgs {
    /// Base URL of the server; without a scheme it is http
    #[arg(long, default_value = "http://127.0.0.1:3000", value_parser = address::base_url)]
    url: String,

    /// API of the requests
    #[arg(long, value_enum, default_value = "openai")]
    api: Api,

    /// Path of the requests. Default: the API's path
    #[arg(long)]
    path: Option<String>,

    /// Model name in requests. Default: the first model in /v1/models, if that exists
    #[arg(long)]
    pub(crate) model: Option<String>,

    /// API key, sent as `Authorization: Bearer <API_KEY>`
    #[arg(long, env, hide_env_values = true, value_parser = bearer)]
    api_key: Option<HeaderValue>,

    /// Vector encoding of OpenAI's API; its own clients request base64
    #[arg(long, value_enum, default_value = "base64")]
    encoding_format: Encoding,

    /// Timeout of a request, in seconds, until the end of its response
    #[arg(long, default_value = "60", value_parser = parse_seconds, value_name = "SECONDS")]
    timeout: Duration,
}

/// See [`TargetArgs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Encoding {
    Base64,
    Float,
}

/// Flags for the content of requests.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadArgs {
    /// Built-in workload of invented sentences. Default without --file and --random: instruction, for an encoder passages,
    /// for rankings rerank
    #[arg(long, value_enum, conflicts_with_all = ["file", "random"])]
    workload: Option<Builtin>,

    /// File with one text per line. If the name ends in .jsonl, each line is a JSON string or object, whose list
    /// `passages` (`documents`, `texts`) yields one text per item
    #[arg(long, conflicts_with = "random")]
    file: Option<PathBuf>,

    /// Distinct random texts instead of a file; for rankings distinct queries with random texts (--texts, default 10)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    random: Option<u32>,

    /// Words per random text. Default: 32
    #[arg(long, requires = "random", conflicts_with_all = ["file", "workload"], value_parser = clap::value_parser!(u32).range(1..))]
    words: Option<u32>,

    /// Template of a text: `{name}` is a field of the line, `{passage}` the text of a list item, `{client}` the client's
    /// number, `\n` a line feed, `\t` a tab. Several templates are assigned to the clients in turn. Default: `{text}`, or the
    /// built-in workload's template
    #[arg(long)]
    template: Vec<String>,

    /// Template from a file, in which `\n` is literal and a final line feed is dropped
    #[arg(long, value_name = "FILE")]
    template_file: Vec<PathBuf>,

    /// Template by name: text, chat-embedding, qwen3-embedding, qwen3-reranker
    #[arg(long, value_parser = preset)]
    preset: Vec<Template>,

    /// Clients that send in turn, each from its own slice of the file
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,

    /// Maximum texts per request. Default: 1, of a built-in workload 10, of ms-marco 64; for rankings all texts of a line
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    texts: Option<u32>,

    /// Priority of requests, sent as the number `priority` in the body
    #[arg(long, allow_negative_numbers = true, value_name = "NUMBER")]
    priority: Option<i64>,
}

/// Flags for the load and its duration.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Closed loop: requests in flight; several values mean several runs. With --rate: bulk clients of a mixed load
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: Vec<u32>,

    /// Open loop: requests per second, arriving as a Poisson process; several values mean several runs. With
    /// --concurrency: queries of a mixed load, one value
    #[arg(long, value_delimiter = ',', value_parser = parse_rate)]
    rate: Vec<f64>,

    /// Seed of the arrivals and of random texts
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// Mixed load: rounds, each of which runs the queries alone, the bulk alone and both for --duration. Every second
    /// round runs in reverse order. Default: 2
    #[arg(long, requires_all = ["rate", "concurrency"], value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// Seconds during which a run starts requests; it then waits for those in flight. Default: 10 without --requests
    #[arg(long, value_parser = parse_seconds, value_name = "SECONDS")]
    duration: Option<Duration>,

    /// Requests per run
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,

    /// Warm-up before each run with the same load, in seconds, finished before the run and not counted; 0 disables it
    #[arg(long, default_value = "2", value_parser = parse_seconds_or_none, value_name = "SECONDS")]
    warmup: Duration,

    /// Warm-up as a number of requests instead of seconds
    #[arg(long, conflicts_with = "warmup")]
    warmup_requests: Option<u64>,
}

/// Flags for results in addition to the table.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Name of this series in plots. Default: the model and its type, or the URL
    #[arg(long)]
    pub(crate) label: Option<String>,

    /// Write the results as JSON, for `prefold bench plot` and other programs
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Draw the results as SVG; `prefold bench plot` combines several commands
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

impl TargetArgs {
    pub(crate) fn config(&self) -> TargetConfig {
        TargetConfig {
            base: self.url.clone(),
            api: self.api,
            path: self.path.clone(),
            authorization: self.api_key.clone(),
            timeout: self.timeout,
        }
    }
}

impl WorkloadArgs {
    /// Source of the lines, for a model that shares prefixes or not.
    pub(crate) fn source(&self, api: Api, shares_prefixes: Option<bool>, seed: u64) -> Result<Source> {
        if let Some(lines) = self.random {
            let words = self.words.map_or(RANDOM_WORDS, |words| words as usize);
            return Ok(Source::Random { lines: lines as usize, words, seed });
        }
        if let Some(file) = &self.file {
            return Ok(Source::File(file.clone()));
        }
        let workload = self.workload.unwrap_or(Builtin::of(api, shares_prefixes));
        ensure!(
            !api.ranks() || workload.has_queries(),
            "--workload {workload} has no queries to rank by: use --workload rerank or ms-marco"
        );
        Ok(Source::Builtin { workload, seed })
    }

    /// Built-in workload, unless other texts are given.
    fn builtin(&self, api: Api, shares_prefixes: Option<bool>) -> Option<Builtin> {
        let is_absent = self.file.is_none() && self.random.is_none();
        is_absent.then(|| self.workload.unwrap_or(Builtin::of(api, shares_prefixes)))
    }

    pub(crate) fn plan(
        &self,
        target: &TargetArgs,
        shares_prefixes: Option<bool>,
        model: Option<String>,
    ) -> Result<Plan> {
        let builtin = self.builtin(target.api, shares_prefixes);
        let default_texts = builtin.and_then(|workload| workload.texts_per_request(target.api));
        Ok(Plan {
            api: target.api,
            templates: self.templates(builtin.map_or("text", |workload| workload.preset(target.api)))?,
            clients: self.clients as usize,
            texts_per_request: self.texts.map(|texts| texts as usize).or(default_texts),
            model,
            base64: target.encoding_format == Encoding::Base64,
            priority: self.priority,
        })
    }

    /// Templates of the flags, or else of a preset.
    fn templates(&self, preset: &str) -> Result<Vec<Template>> {
        let mut templates: Vec<_> = self.template.iter().map(|text| Template::new(&unescape(text))).collect();
        for path in &self.template_file {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            templates.push(Template::new(text.strip_suffix('\n').unwrap_or(&text)));
        }
        templates.extend(self.preset.iter().cloned());
        if templates.is_empty() {
            templates.push(presets::preset(preset).map_err(anyhow::Error::msg)?);
        }
        ensure!(
            templates.len() <= self.clients as usize,
            "{} templates exceed --clients {}: some would be unused",
            templates.len(),
            self.clients
        );
        Ok(templates)
    }
}

impl LoadArgs {
    /// One load per run; by default a closed loop with one request. In a mixed load these are the bulk clients.
    pub(crate) fn loads(&self) -> Vec<Load> {
        if !self.rate.is_empty() && self.concurrency.is_empty() {
            return self.rate.iter().map(|&rate| Load::Open { rate, seed: self.seed }).collect();
        }
        let concurrency = if self.concurrency.is_empty() { &[1][..] } else { &self.concurrency };
        concurrency.iter().map(|&concurrency| Load::Closed { concurrency: concurrency as usize }).collect()
    }

    /// Load of the queries, if this is a mixed load.
    pub(crate) fn queries(&self) -> Result<Option<Load>> {
        if self.rate.is_empty() || self.concurrency.is_empty() {
            return Ok(None);
        }
        let &[rate] = &self.rate[..] else { bail!("--rate takes one value together with --concurrency") };
        // Phases of equal duration are compared.
        ensure!(self.requests.is_none(), "--requests does not end a mixed load: use --duration");
        ensure!(self.warmup_requests.is_none(), "--warmup-requests does not end a mixed load: use --warmup");
        Ok(Some(Load::Open { rate, seed: self.seed }))
    }

    /// Rounds of a mixed load.
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(ROUNDS)
    }

    pub(crate) fn length(&self) -> Length {
        let duration = match (self.duration, self.requests) {
            (None, None) => Some(Duration::from_secs_f64(DURATION)),
            (duration, _) => duration,
        };
        Length { requests: self.requests, duration }
    }

    /// Duration of a run of `--size-for`: the given one, or the default, but at least `least`.
    pub(crate) fn size_duration(&self, least: Duration) -> Duration {
        self.duration.unwrap_or_else(|| Duration::from_secs_f64(DURATION).max(least))
    }

    /// Length of the warm-up, or `None` without one.
    pub(crate) fn warmup(&self) -> Option<Length> {
        match self.warmup_requests {
            Some(0) => None,
            Some(requests) => Some(Length { requests: Some(requests), duration: None }),
            None if self.warmup.is_zero() => None,
            None => Some(Length { requests: None, duration: Some(self.warmup) }),
        }
    }
}

impl Load {
    /// Kind of load, as named in the JSON.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Self::Closed { .. } => "concurrency",
            Self::Open { .. } => "rate",
        }
    }

    /// Requests in flight, or arrivals per second.
    pub(crate) fn value(self) -> f64 {
        match self {
            Self::Closed { concurrency } => concurrency as f64,
            Self::Open { rate, .. } => rate,
        }
    }
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
