use super::*;
use crate::http::api::Api;
use crate::http::test_server::{Behaviour, Logged, Server, target};
use crate::load::run::Driver;
use crate::workload::{Plan, Source, Workload};
use prefold_tools::template::Template;
use std::sync::Arc;
use std::time::Duration;

/// Time for which the server works on a request.
const WORK: Duration = Duration::from_millis(40);

/// Random texts, `texts` per request, with a priority.
fn driver(url: &str, texts: usize, priority: i64) -> Arc<Driver> {
    let plan = Plan {
        api: Api::Embed,
        templates: vec![Template::new("{text}")],
        clients: 1,
        texts_per_request: Some(texts),
        model: None,
        base64: false,
        priority: Some(priority),
    };
    let source = Source::Random { lines: 100 * texts, words: 2, seed: priority as u64 };
    Driver::new(target(url), Workload::from_source(&source, &plan).unwrap())
}

/// Queries of one text with priority 1 at 100 a second, and three bulk clients that send four texts with priority 2.
fn mixed(url: &str, rounds: u32) -> Measurement {
    let queries = Stream { driver: driver(url, 1, 1), load: Load::Open { rate: 100.0, seed: 1 } };
    let bulk = Stream { driver: driver(url, 4, 2), load: Load::Closed { concurrency: 3 } };
    let length = Length { requests: None, duration: Some(Duration::from_millis(300)) };
    Measurement::mixed(&queries, &bulk, rounds, length, None)
}

fn is_query(logged: &Logged) -> bool {
    logged.body["priority"] == 1
}

fn never() -> impl Future<Output = ()> + Send {
    std::future::pending()
}

#[tokio::test]
async fn phases_come_in_rounds_and_none_meets_requests_of_another() {
    let (server, url) = Server::start(Behaviour::Work(WORK)).await;
    let runs = mixed(&url, 2).run(std::pin::pin!(never())).await.unwrap().unwrap();
    let mut log = server.log.lock().unwrap().clone();
    log.sort_by_key(|logged| logged.begin);

    let parts: Vec<_> = runs.iter().map(|run| run.part.unwrap()).collect();
    assert_eq!(
        parts,
        [LoadPart::QueriesAlone, LoadPart::BulkAlone, LoadPart::QueriesBesideBulk, LoadPart::BulkBesideQueries]
    );
    assert!(runs.iter().all(|run| run.load == 3.0 && run.answered == run.sent && run.failed == 0));
    let queries = log.iter().filter(|logged| is_query(logged)).count() as u64;
    assert_eq!(queries, runs[0].sent + runs[2].sent);
    assert_eq!(log.len() as u64 - queries, runs[1].sent + runs[3].sent);

    // Round 1 begins and round 2 ends with the queries alone.
    let first = log.iter().take_while(|logged| is_query(logged)).count();
    let last = log.iter().rev().take_while(|logged| is_query(logged)).count();
    assert!(first > 10 && last > 10 && (first + last) as u64 == runs[0].sent, "{first} + {last}");
    assert!(log[..first].iter().all(|query| query.end <= log[first].begin));
    let (before, after) = log.split_at(log.len() - last);
    assert!(before.iter().all(|logged| logged.end <= after[0].begin));
    // Each round has different arrivals.
    assert_ne!(first, last, "the seeds of the two rounds are expected to differ in the number of arrivals");
}

#[tokio::test]
async fn rounds_are_summed_and_latency_is_also_in_forward_passes() {
    let (server, url) = Server::start(Behaviour::Work(WORK)).await;
    let runs = mixed(&url, 3).run(std::pin::pin!(never())).await.unwrap().unwrap();
    for run in &runs {
        assert_eq!(run.rounds_texts_per_s.len(), 3);
        assert!(run.elapsed_s >= 0.9 && run.rounds_texts_per_s.iter().all(|texts| *texts > 0.0));
        let mean = run.rounds_texts_per_s.iter().sum::<f64>() / 3.0;
        assert!((run.texts_per_s / mean - 1.0).abs() < 0.2, "{} {mean}", run.texts_per_s);
        assert_eq!(run.histogram.iter().map(|interval| interval.count).sum::<u64>(), run.answered);
        assert!(run.percentiles_ms.len() == 101 && run.percentiles_ms.is_sorted());
        let (passes, ms) = (run.latency_passes.unwrap(), run.latency_ms);
        assert!((passes.p50 - ms.p50 / 10.0).abs() < 1e-6 && passes.max >= 4.0, "{passes:?}");
    }
    // The metrics of a phase count its own requests only.
    let batches = |run: &RunReport| run.server.as_ref().unwrap().batches.unwrap();
    assert_eq!((batches(&runs[0]), batches(&runs[1])), (runs[0].sent, runs[1].sent));
    assert_eq!(batches(&runs[2]), runs[2].sent + runs[3].sent);
    assert_eq!(batches(&runs[3]), batches(&runs[2]));
    assert_eq!(runs.iter().map(|run| run.sent).sum::<u64>(), server.log.lock().unwrap().len() as u64);
}

#[tokio::test]
async fn a_single_stream_is_one_phase_after_its_warm_up() {
    let (server, url) = Server::start(Behaviour::Work(Duration::from_millis(1))).await;
    let stream = Stream { driver: driver(&url, 2, 1), load: Load::Closed { concurrency: 1 } };
    let requests = |count| Length { requests: Some(count), duration: None };
    let measurement = Measurement::single(stream, requests(5), Some(requests(3)));
    let runs = measurement.run(std::pin::pin!(never())).await.unwrap().unwrap();
    assert_eq!(server.log.lock().unwrap().len(), 8);
    assert_eq!(runs.iter().map(|run| (run.part, run.sent)).collect::<Vec<_>>(), [(None, 5)]);
}

#[tokio::test]
async fn an_interrupted_measurement_has_the_phases_so_far() {
    let (server, url) = Server::start(Behaviour::Work(WORK)).await;
    let bulk_runs = async {
        while server.log.lock().unwrap().iter().all(is_query) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let stop = std::pin::pin!(bulk_runs);
    let runs = mixed(&url, 2).run(stop).await.unwrap().unwrap();
    let parts: Vec<_> = runs.iter().map(|run| (run.part.unwrap(), run.interrupted)).collect();
    assert_eq!(parts, [(LoadPart::QueriesAlone, false), (LoadPart::BulkAlone, true)]);
}
