//! Drives a running server with the rerank workload as an embedding client would, and reports throughput.
//!
//! Every request carries `--queries` queries with their ten passages each, a text a pair, in the chat
//! template of `tests/workloads/README.md`. Requests go out one after another, so that two servers, or one
//! server with two thresholds, can be compared on the same batches.
//!
//! `prefold-bench workload --url http://127.0.0.1:3000 --requests 10`

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server's address.
    #[arg(long, default_value = "http://127.0.0.1:3000")]
    url: String,
    /// Lines of `{"query", "passages": [{"text"}]}`.
    #[arg(long, default_value = "tests/workloads/docs-rerank.jsonl")]
    file: PathBuf,
    /// Queries in a request; each brings all its passages.
    #[arg(long, default_value_t = 4)]
    queries: usize,
    /// Requests to measure; as many as the file gives when absent.
    #[arg(long)]
    requests: Option<usize>,
    /// Requests before the measurement.
    #[arg(long, default_value_t = 1)]
    warmup: usize,
}

#[derive(Deserialize)]
struct Line {
    query: String,
    passages: Vec<Passage>,
}

#[derive(Deserialize)]
struct Passage {
    text: String,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<serde::de::IgnoredAny>,
    usage: Usage,
}

#[derive(Deserialize)]
struct Usage {
    total_tokens: usize,
}

#[derive(Default)]
struct Totals {
    texts: usize,
    tokens: usize,
    ratios: Vec<f64>,
    latencies: Vec<Duration>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let requests = read_requests(args)?;
    let agent: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(600))).build().into();
    let url = format!("{}/v1/embeddings", args.url.trim_end_matches('/'));

    let mut unmeasured = Totals::default();
    for texts in requests.iter().take(args.warmup) {
        send(&agent, &url, texts, &mut unmeasured)?;
    }
    let mut totals = Totals::default();
    let count = args.requests.unwrap_or(requests.len());
    let start = Instant::now();
    for texts in requests.iter().cycle().take(count) {
        send(&agent, &url, texts, &mut totals)?;
    }
    report(totals, start.elapsed());
    Ok(())
}

fn read_requests(args: &Args) -> Result<Vec<Vec<String>>> {
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    let lines = text.lines().map(serde_json::from_str::<Line>).collect::<Result<Vec<_>, _>>()?;
    let requests: Vec<Vec<String>> =
        lines.chunks_exact(args.queries.max(1)).map(|lines| lines.iter().flat_map(texts).collect()).collect();
    ensure!(!requests.is_empty(), "{} has fewer than {} queries", args.file.display(), args.queries);
    Ok(requests)
}

fn texts(line: &Line) -> impl Iterator<Item = String> + '_ {
    line.passages.iter().map(|passage| {
        format!(
            "<|im_start|>system\nYou are a helpful assistant specialized in embedding text for retrieval \
             tasks.<|im_end|>\n<|im_start|>user\n{} embed the following sentences that is part of bing query dataset, \
             with target to help find relevant web documents. {}<|im_end|>\n<|im_start|>assistant\n",
            line.query, passage.text
        )
    })
}

fn send(agent: &ureq::Agent, url: &str, texts: &[String], totals: &mut Totals) -> Result<()> {
    let body = serde_json::json!({ "input": texts, "encoding_format": "base64", "model": "prefold" });
    let start = Instant::now();
    let mut response = agent.post(url).send_json(&body).with_context(|| format!("POST {url}"))?;
    let ratio = response.headers().get("x-compaction-ratio").and_then(|value| value.to_str().ok()?.parse::<f64>().ok());
    let answer: Answer = response.body_mut().with_config().limit(1 << 30).read_json()?;
    totals.latencies.push(start.elapsed());
    ensure!(answer.data.len() == texts.len(), "{} texts, {} embeddings", texts.len(), answer.data.len());
    totals.texts += texts.len();
    totals.tokens += answer.usage.total_tokens;
    totals.ratios.extend(ratio);
    Ok(())
}

fn report(mut totals: Totals, elapsed: Duration) {
    let seconds = elapsed.as_secs_f64();
    totals.latencies.sort_unstable();
    let median = totals.latencies[totals.latencies.len() / 2].as_secs_f64();
    println!("requests   {} in {seconds:.2} s, median {:.1} ms", totals.latencies.len(), median * 1e3);
    println!("texts/s    {:.1}", totals.texts as f64 / seconds);
    println!("tokens/s   {:.0}", totals.tokens as f64 / seconds);
    if !totals.ratios.is_empty() {
        let mean = totals.ratios.iter().sum::<f64>() / totals.ratios.len() as f64;
        println!("compaction {mean:.4} of the rows computed");
    }
}
