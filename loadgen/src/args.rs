//! The command line of `prefold bench`.

use crate::api::Api;
use crate::client::TargetConfig;
use crate::plot::Plot;
use crate::run::{Length, Load};
use crate::template::Template;
use crate::workload::Plan;
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use reqwest::header::HeaderValue;
use std::path::PathBuf;
use std::time::Duration;

/// Default duration of a run, in seconds, without --duration and --requests.
const DURATION: f64 = 10.0;

/// Sends requests to any embedding or reranking server and reports throughput and latency
///
/// A run is a closed loop (--concurrency: each response triggers the next request) or an open loop (--rate: requests
/// arrive at random, whatever the number in flight, and latency counts from a request's scheduled start).
/// Several comma-separated values mean several runs.
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
    pub(crate) output: OutputArgs,
}

/// Subcommands.
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Other {
    /// Draws results of `prefold bench --json`: throughput and latency against load
    Plot(Plot),
}

/// Flags for the server under load.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct TargetArgs {
    /// Base URL of the server
    #[arg(long, default_value = "http://127.0.0.1:3000")]
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
    #[arg(long, env, hide_env_values = true, value_parser = parse_key)]
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
    /// File with one text per line. If the name ends in .jsonl, each line is a JSON string or object, whose list
    /// `passages` (`documents`, `texts`) yields one text per item
    #[arg(long, required = true)]
    file: Option<PathBuf>,

    /// Template of a text: `{name}` is a field of the line, `{passage}` the text of a list item, `{client}` the client's
    /// number, `\n` a line feed. Several templates are assigned to the clients in turn. Default: `{text}`
    #[arg(long)]
    template: Vec<String>,

    /// Template from a file, in which `\n` is literal and a final line feed is dropped
    #[arg(long, value_name = "FILE")]
    template_file: Vec<PathBuf>,

    /// Template by name: text, chat-embedding, qwen3-embedding, qwen3-reranker
    #[arg(long, value_parser = Template::preset)]
    preset: Vec<Template>,

    /// Clients that send in turn, each from its own slice of the file
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,

    /// Maximum texts per request. Default: 1; for rankings all texts of a line
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    texts: Option<u32>,
}

/// Flags for the load and its duration.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Closed loop: requests in flight; several values mean several runs
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "rate")]
    concurrency: Vec<u32>,

    /// Open loop: requests per second, arriving as a Poisson process; several values mean several runs
    #[arg(long, value_delimiter = ',', value_parser = parse_rate)]
    rate: Vec<f64>,

    /// Seed of the arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,

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

/// Flags for results besides the table.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Name of this series in plots. Default: the URL
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
    /// The workload file, required unless there is a subcommand.
    pub(crate) fn file(&self) -> Result<&PathBuf> {
        self.file.as_ref().context("--file is missing")
    }

    pub(crate) fn plan(&self, target: &TargetArgs, model: Option<String>) -> Result<Plan> {
        Ok(Plan {
            api: target.api,
            templates: self.templates()?,
            clients: self.clients as usize,
            texts_per_request: self.texts.map(|texts| texts as usize),
            model,
            base64: target.encoding_format == Encoding::Base64,
        })
    }

    fn templates(&self) -> Result<Vec<Template>> {
        let mut templates: Vec<_> =
            self.template.iter().map(|text| Template::new(&text.replace("\\n", "\n"))).collect();
        for path in &self.template_file {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            templates.push(Template::new(text.strip_suffix('\n').unwrap_or(&text)));
        }
        templates.extend(self.preset.iter().cloned());
        if templates.is_empty() {
            templates.push(Template::new("{text}"));
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
    /// One load per run; by default a closed loop with one request.
    pub(crate) fn loads(&self) -> Vec<Load> {
        if !self.rate.is_empty() {
            return self.rate.iter().map(|&rate| Load::Open { rate, seed: self.seed }).collect();
        }
        let concurrency = if self.concurrency.is_empty() { &[1][..] } else { &self.concurrency };
        concurrency.iter().map(|&concurrency| Load::Closed { concurrency: concurrency as usize }).collect()
    }

    pub(crate) fn length(&self) -> Length {
        let duration = match (self.duration, self.requests) {
            (None, None) => Some(Duration::from_secs_f64(DURATION)),
            (duration, _) => duration,
        };
        Length { requests: self.requests, duration }
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

fn parse_key(key: &str) -> Result<HeaderValue> {
    ensure!(!key.is_empty(), "must not be empty");
    let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {key}")) else {
        bail!("has a character that is invalid in a header")
    };
    value.set_sensitive(true);
    Ok(value)
}

fn parse_rate(rate: &str) -> Result<f64> {
    let rate: f64 = rate.parse()?;
    ensure!(rate.is_finite() && rate > 0.0, "must be greater than 0");
    Ok(rate)
}

fn parse_seconds(seconds: &str) -> Result<Duration> {
    let duration = parse_seconds_or_none(seconds)?;
    ensure!(!duration.is_zero(), "must be greater than 0");
    Ok(duration)
}

fn parse_seconds_or_none(seconds: &str) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(seconds.parse()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        bench: Bench,
    }

    fn read(line: &str) -> Result<Bench, clap::Error> {
        Cli::try_parse_from(std::iter::once("bench").chain(line.split_whitespace())).map(|cli| cli.bench)
    }

    #[test]
    fn the_command_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults() {
        let bench = read("--file f").unwrap();
        assert_eq!(bench.load.loads(), [Load::Closed { concurrency: 1 }]);
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(bench.load.length(), Length { requests: None, duration: seconds(10) });
        assert_eq!(bench.load.warmup(), Some(Length { requests: None, duration: seconds(2) }));
        let plan = bench.workload.plan(&bench.target, None).unwrap();
        assert_eq!((plan.api, plan.clients, plan.texts_per_request, plan.base64), (Api::Openai, 1, None, true));
        assert_eq!(plan.templates, [Template::new("{text}")]);
    }

    #[test]
    fn several_loads_are_several_runs() {
        let bench = read("--file f --rate 0.5,20 --seed 3 --requests 5 --warmup-requests 0").unwrap();
        assert_eq!(bench.load.loads(), [Load::Open { rate: 0.5, seed: 3 }, Load::Open { rate: 20.0, seed: 3 }]);
        assert_eq!(bench.load.length(), Length { requests: Some(5), duration: None });
        assert_eq!(bench.load.warmup(), None);
        let bench = read("--file f --concurrency 1,8 --duration 1.5 --warmup 0").unwrap();
        assert_eq!(bench.load.loads(), [1, 8].map(|concurrency| Load::Closed { concurrency }));
        assert_eq!(bench.load.length().duration, Some(Duration::from_millis(1500)));
        assert_eq!(bench.load.warmup(), None);
    }

    #[test]
    fn templates_come_from_everywhere() {
        let bench = read(r"--file f --template a\n{text} --preset text --clients 3").unwrap();
        let plan = bench.workload.plan(&bench.target, None).unwrap();
        assert_eq!(plan.templates, [Template::new("a\n{text}"), Template::new("{text}")]);
        let bench = read("--file f --template a --template b").unwrap();
        let error = bench.workload.plan(&bench.target, None).unwrap_err();
        assert!(error.to_string().contains("2 templates exceed --clients 1"), "{error}");
    }

    #[test]
    fn a_plot_needs_no_workload_and_a_run_does() {
        assert!(matches!(read("plot a.json b.json --svg c.svg").unwrap().other, Some(Other::Plot(_))));
        for (line, words) in [
            ("", "--file"),
            ("plot --svg c.svg", "JSON"),
            ("--file f plot a.json --svg c.svg", "cannot be used with"),
            ("--file f --rate 1 --concurrency 1", "cannot be used with"),
            ("--file f --rate 0", "greater than 0"),
            ("--file f --rate nan", "greater than 0"),
            ("--file f --concurrency 0", "0 is not in"),
            ("--file f --duration -1", "-1"),
            ("--file f --duration 0", "greater than 0"),
            ("--file f --duration inf", "inf"),
            ("--file f --preset nix", "chat-embedding"),
            ("--file f --api grpc", "cohere-rerank"),
            ("--file f --clients 0", "0 is not in"),
        ] {
            let error = read(line).expect_err(line).to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        let bench = read("--file f --api-key hunter2").unwrap();
        assert!(!format!("{bench:?}").contains("hunter2"));
        assert_eq!(bench.target.config().authorization.unwrap().to_str().unwrap(), "Bearer hunter2");
    }
}
