use super::*;
use crate::http::client::{Answer, Failure, Kind};
use crate::load::record::{Record, Start};
use crate::load::run::{Finished, Load};
use std::time::{Duration, Instant};

/// A run of ten seconds with answers of four texts after the given milliseconds.
fn run(part: LoadPart, latencies_ms: &[u64], pass_ms: Option<f64>) -> RunReport {
    let (mut record, begin) = (Record::new(), Instant::now());
    for &ms in latencies_ms {
        let answer = Answer { arrived: begin + Duration::from_millis(ms), tokens: Some(20), folded: None };
        record.add(Start { intended: begin, actual: begin }, 4, Ok(answer));
    }
    if part == LoadPart::QueriesBesideBulk {
        let failure = Failure { kind: Kind::Status(429), message: "full".to_owned() };
        record.add(Start { intended: begin, actual: begin }, 4, Err(failure));
    }
    let sent = record.answered + record.failed();
    let finished = Finished { record, sent, elapsed: Duration::from_secs(10), interrupted: false };
    let server = pass_ms.map(|ms| {
        serde_json::json!({ "source": "metrics", "batches": 7, "texts_per_batch": 2.5,
                            "batch_ms": { "planning": 0, "inference": ms, "idle": 0 } })
    });
    let server = server.map(|server| serde_json::from_value(server).unwrap());
    RunReport { part: Some(part), ..RunReport::new(Load::Closed { concurrency: 2 }, &finished, server) }
}

/// The parts in the order of their phases.
fn runs(pass_ms: Option<f64>) -> Vec<RunReport> {
    let mut beside = run(LoadPart::BulkBesideQueries, &[600, 600, 900], pass_ms);
    beside.rounds_texts_per_s = vec![1.0, 1.4];
    let mut alone = run(LoadPart::BulkAlone, &[600, 600, 600, 610], pass_ms);
    alone.rounds_texts_per_s = vec![1.6, 1.6];
    let queries = run(LoadPart::QueriesAlone, &[12], pass_ms);
    vec![queries, alone, run(LoadPart::QueriesBesideBulk, &[400, 600, 800, 12], pass_ms), beside]
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn every_part_has_its_line_in_every_table() {
    let lines = lines(&runs(Some(200.0)));
    let at = |begin: &str| lines.iter().filter(|line| line.starts_with(begin)).cloned().collect::<Vec<_>>();
    assert_eq!(words(&at("2 bulk clients")[0])[3..6], ["answered", "failed", "requests/s"]);
    let queries = at("queries during bulk ");
    assert_eq!(queries.len(), 2, "{lines:#?}");
    let of = ["queries", "during", "bulk"];
    let row = ["4", "1", "0.40", "1.6", "8", "400.1", "800.3", "800.3", "800.3", "-"];
    assert_eq!(words(&queries[0]), [&of[..], &row].concat());
    assert_eq!(words(&queries[1]), [&of[..], &["7", "2.5", "200.0", "2.0", "4.0", "4.0", "4.0"]].concat());
    assert_eq!(at("queries during bulk:"), ["queries during bulk: 1 x status 429, first: full"]);
    let order = ["queries alone", "queries during bulk", "bulk alone", "bulk during queries"];
    let first = lines.iter().position(|line| line.starts_with("queries alone")).unwrap();
    assert!(order.iter().zip(&lines[first..]).all(|(name, line)| line.starts_with(name)), "{lines:#?}");
}

#[test]
fn without_prefolds_metrics_there_are_no_forward_passes() {
    let lines = lines(&runs(None));
    assert!(lines.iter().all(|line| !line.contains("forward passes")), "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("bulk alone")).count(), 1);
}

#[test]
fn histograms_share_their_intervals() {
    let lines = histograms(&runs(None).iter().map(|run| (run.part.unwrap(), run)).collect::<Vec<_>>());
    let rows: Vec<_> = lines[2..].iter().map(|line| words(line).join(" ")).collect();
    assert_eq!(
        rows,
        [
            format!("10 - 15 ms 1 {} 1 {}", "#".repeat(12), "#".repeat(12)),
            format!("300 - 500 ms 1 {}", "#".repeat(12)),
            format!("500 - 700 ms 4 {0} 1 {0} 2 {0}", "#".repeat(12)),
            format!("700 - 1000 ms 1 {} 1 {}", "#".repeat(12), "#".repeat(6)),
        ]
    );
    // Columns are aligned with their names.
    let column = |line: &str, text: &str| line.find(text).unwrap();
    assert_eq!(column(&lines[4], "4 #"), column(&lines[1], "bulk alone") + 5);
}

#[test]
fn the_bulks_throughput_is_compared_whole_and_by_round() {
    assert_eq!(
        bulk_throughput(&runs(None)).unwrap(),
        "bulk throughput during queries: 0.750 of bulk alone (texts/s 1.2 of 1.6, tokens/s 6 of 8; by round 0.625, 0.875)"
    );
    assert_eq!(bulk_throughput(&runs(None)[..2]), None);
}
