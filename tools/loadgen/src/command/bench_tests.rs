use super::*;
use crate::http::test_server::{Behaviour, Server};
use axum::routing::get;
use axum::{Json, Router};
use clap::Parser;
use serde_json::json;
use std::time::Duration;
use tokio::sync::Barrier;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    bench: Bench,
}

#[tokio::test]
async fn a_killed_sweep_leaves_its_finished_runs() {
    let (_server, url) = Server::start(Behaviour::Together(Barrier::new(2))).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.json");
    let line =
        format!("bench --url {url} --api embed --random 8 --concurrency 2,1 --requests 4 --warmup 0 --texts 3 --json");
    let arguments = line.split(' ').map(std::ffi::OsString::from).chain([path.clone().into()]);
    let bench = Cli::try_parse_from(arguments).unwrap().bench;
    // A request of the second run waits for another in vain.
    let report = tokio::select! {
        ended = bench.send_all() => panic!("the second run cannot end: {ended:?}"),
        report = finished_runs(&path) => report,
    };
    let [run] = &report.runs[..] else { panic!("one run has ended: {:?}", report.runs) };
    assert_eq!((run.load, run.answered, run.texts, run.tokens), (2.0, 4, 11, Some(4 * 7)));
}

#[tokio::test]
async fn a_model_that_only_ranks_is_not_asked_for_embeddings() {
    let info = get(async || Json(json!({ "answers": ["rerank"], "model_type": { "reranker": {} } })));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/info", info)).await.unwrap() });
    let prepare = async |api: &str| {
        let line = format!("bench --url http://{address} --api {api} --random 8 --requests 1");
        let bench = Cli::try_parse_from(line.split(' ')).unwrap().bench;
        bench.prepare().await.err().map(|error| error.to_string())
    };
    let refused = prepare("embed").await.unwrap();
    assert_eq!(refused, "the served model ranks texts and embeds none: use --api rerank");
    assert_eq!(prepare("rerank").await, None);
}

/// The report, once it has a run.
async fn finished_runs(path: &std::path::Path) -> Report {
    loop {
        match Report::read(path) {
            Ok(report) if !report.runs.is_empty() => return report,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
