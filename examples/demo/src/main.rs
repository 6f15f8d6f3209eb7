//! Demonstrates prefold on real text over HTTP: embeds a hundred passages, answers questions by similarity, reranks
//! a question's candidates, and compares the same work with compaction off and on.

mod client;
mod report;
mod server;
mod workload;

use anyhow::{Context, Result};
use clap::Parser;
use client::Client;
use prefold_tools::demo_texts::DemoTexts;
use server::Server;
use std::path::PathBuf;
use std::time::Instant;

/// Starts a prefold server on a free port and demonstrates it on real text.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Server binary. Default: the `prefold` next to this program.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Rounds of the comparison. Each sends every workload to a server without compaction and to one with it.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

/// Flag that admits all hundred passages in one request.
const COMMON_FLAGS: [&str; 2] = ["--max-client-batch-size", "128"];
const THRESHOLD_ON: &str = "0.95";
const THRESHOLD_OFF: &str = "0";

fn main() -> Result<()> {
    let args = Args::parse();
    let binary = match args.server {
        Some(path) => path,
        None => std::env::current_exe()?.with_file_name(format!("prefold{}", std::env::consts::EXE_SUFFIX)),
    };
    let texts = DemoTexts::load()?;
    let workloads = [workload::passages(&texts), workload::pairs(&texts)];

    let (server_on, client_on) = start(&binary, THRESHOLD_ON)?;
    search(&client_on, &texts)?;
    report::heading("Compaction off and on: the same texts, each workload in one request");
    let (server_off, client_off) = start(&binary, THRESHOLD_OFF)?;
    for workload in &workloads {
        let [off, on] = workload.measure([&client_off, &client_on], args.rounds)?;
        report::comparison(workload, (THRESHOLD_OFF, &off), (THRESHOLD_ON, &on))?;
    }
    server_on.stop()?;
    server_off.stop()?;
    report::line("Both servers were stopped with SIGTERM and exited with status 0.");
    Ok(())
}

/// Starts a server and prints its command line.
fn start(binary: &std::path::Path, threshold: &str) -> Result<(Server, Client)> {
    let begun = Instant::now();
    let mut flags = COMMON_FLAGS.to_vec();
    flags.extend(["--radix-mlp-threshold", threshold]);
    let server = Server::start(binary, &flags)?;
    let client = Client::new(server.address());
    server.wait_until_healthy(&client)?;
    report::started(&flags, server.address(), begun.elapsed(), &client.info()?);
    Ok((server, client))
}

/// Embeds the passages, answers the questions by similarity, and reranks the candidates of one.
fn search(client: &Client, demo: &DemoTexts) -> Result<()> {
    report::heading("Embed a hundred passages (POST /embed)");
    let passages = client.embed(&workload::passages(demo).inputs)?;
    report::embedded(&passages);

    report::heading("Answer ten questions by similarity, out of all hundred passages");
    let texts: Vec<String> = demo.questions.iter().map(|q| workload::instructed(&q.query)).collect();
    let questions = client.embed(&texts)?;
    let rankings: Vec<Vec<(usize, f32)>> =
        questions.body.iter().map(|question| workload::rank(question, &passages.body)).collect();
    report::answers(demo, &rankings, questions.wall);

    let question = demo.questions.first().context("the demo has no question")?;
    report::heading("Rerank the ten candidates of a question (POST /rerank)");
    let candidates = demo.candidates(question);
    let texts: Vec<&str> = candidates.iter().map(|passage| passage.text.as_str()).collect();
    let ranked = client.rerank(&question.query, &texts)?;
    report::reranked(question, &candidates, &ranked)
}
