use super::*;
use serde_json::json;

/// A report of runs (load, texts/s, p50, N'/N).
fn report(mode: &str, runs: &[(f64, f64, f64, f64)]) -> Report {
    let run = |&(load, texts, p50, ratio): &(f64, f64, f64, f64)| {
        json!({
            "load": load, "elapsed_s": 1.0, "interrupted": false, "sent": 10, "answered": 10, "failed": 0,
            "requests_per_s": 1, "texts_per_s": texts, "tokens_per_s": null,
            "latency_ms": { "mean": 1, "p50": p50, "p90": 1, "p99": 1, "max": 9 },
            "start_delay_ms": { "p99": 0, "max": 0 }, "errors": [],
            "server": { "source": "metrics", "compaction_ratio": ratio }
        })
    };
    let runs: Vec<_> = runs.iter().map(run).collect();
    serde_json::from_value(json!({
        "label": "l", "version": "0", "url": "u", "model": null, "file": "f", "clients": 1, "texts_per_request": null,
        "different_requests": 20, "mode": mode, "runs": runs
    }))
    .unwrap()
}

fn text(report: &Report) -> String {
    lines(report).join("\n")
}

#[test]
fn columns_are_explained_and_the_ends_of_the_sweep_compared() {
    let text = text(&report("concurrency", &[(1.0, 100.0, 10.0, 0.9), (8.0, 250.0, 30.5, 0.6)]));
    for words in [
        "concurrency: requests in flight",
        "N'/N: fraction of the tokens that the server computed; the rest repeats the beginning of another text of the batch",
        "With 1 request in flight the server reached 100.0 texts/s with a p50 of 10.0 ms,\nwith 8 requests in flight 250.0 texts/s \
         with a p50 of 30.5 ms (2.50 times the throughput).",
        "With 8 requests in flight 40.0% of the tokens needed no computation",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("failed") && !text.contains("cache") && !text.contains("Hardly"), "{text}");
}

#[test]
fn a_single_run_is_compared_to_nothing() {
    let text = text(&report("rate", &[(0.5, 5.0, 7.0, 0.5)]));
    assert!(
        text.contains("With 0.5 arrivals per second the server reached 5.0 texts/s with a p50 of 7.0 ms."),
        "{text}"
    );
    assert!(text.contains("scheduled start") && !text.contains("times the throughput"), "{text}");
}

#[test]
fn little_sharing_is_explained() {
    let text = text(&report("concurrency", &[(1.0, 1.0, 1.0, 1.0), (2.0, 1.0, 1.0, 0.97)]));
    assert!(text.contains("Hardly anything was shared (N'/N 0.9700)") && text.contains("--texts 10"), "{text}");
}

#[test]
fn failures_and_repeats_are_said() {
    let mut failing = report("concurrency", &[(1.0, 1.0, 1.0, 0.5), (2.0, 1.0, 1.0, 0.5), (3.0, 1.0, 1.0, 0.5)]);
    failing.runs[0].failed = 2;
    let text = text(&failing);
    assert!(text.contains("2 of 30 requests failed"), "{text}");
    assert!(text.contains("30 requests for 20 distinct requests"), "{text}");
}

#[test]
fn without_the_ratio_there_is_nothing_about_it() {
    let mut other = report("concurrency", &[(1.0, 1.0, 1.0, 1.0)]);
    other.runs[0].server = None;
    let text = text(&other);
    assert!(!text.contains("N'/N"), "{text}");
    assert_eq!(lines(&report("concurrency", &[])), Vec::<String>::new());
}

#[test]
fn queries_are_compared_with_and_without_the_bulk() {
    let mut mixed = report(
        "mixed",
        &[(1.0, 1.0, 3.0, 0.9), (1.0, 100.0, 90.0, 0.9), (1.0, 1.0, 50.0, 0.9), (1.0, 95.0, 90.0, 0.9)],
    );
    let parts = [LoadPart::QueriesAlone, LoadPart::BulkAlone, LoadPart::QueriesBesideBulk, LoadPart::BulkBesideQueries];
    mixed.runs.iter_mut().zip(parts).for_each(|(run, part)| run.part = Some(part));
    let text = text(&mixed);
    let words = "With 1 bulk client, half of the queries took at most 50.0 ms, alone 3.0 ms; the bulk kept 95.0% of its throughput.";
    assert!(text.contains(words), "{text}");
    assert!(text.contains("With 1 bulk client 10.0% of the tokens"), "{text}");
}

#[test]
fn an_encoder_gets_advice_about_its_time_instead_of_sharing() {
    let encoder = |inference: f64, dtype: &str| {
        let mut report = report("concurrency", &[(1.0, 1.0, 1.0, 1.0), (8.0, 1.0, 1.0, 1.0)]);
        (report.shares_prefixes, report.dtype) = (Some(false), Some(dtype.to_owned()));
        for run in &mut report.runs {
            let server = json!({
                "source": "metrics", "compaction_ratio": 1.0,
                "batch_ms": { "planning": 0.0, "inference": inference, "idle": 10.0 - inference }
            });
            run.server = serde_json::from_value(server).unwrap();
        }
        text(&report)
    };
    let idle = encoder(4.0, "float32");
    assert!(
        idle.contains("With 8 requests in flight the model computed 40% of the time: more texts per request"),
        "{idle}"
    );
    assert!(idle.contains("N'/N: 1 unless texts of a batch are equal") && !idle.contains("Hardly anything"), "{idle}");
    for (dtype, advice) in [
        ("float32", "cores or servers, or a smaller type (--dtype bfloat16 or int8;"),
        ("bfloat16", "cores or servers, or a smaller type (--dtype int8;"),
        ("int8", "takes more cores or servers."),
    ] {
        let busy = encoder(9.0, dtype);
        assert!(busy.contains("computed 90% of the time: more throughput") && busy.contains(advice), "{busy}");
    }
}
