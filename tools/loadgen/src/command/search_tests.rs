use super::*;
use serde_json::json;

const GOAL: Goal = Goal { rate: 500.0, p99_ms: 50.0 };

/// A run at a load.
fn run(load: f64, requests_per_s: f64, p99: f64) -> RunReport {
    serde_json::from_value(json!({
        "load": load, "elapsed_s": 10.0, "interrupted": false, "sent": 10, "answered": 10, "failed": 0,
        "requests_per_s": requests_per_s, "texts_per_s": 1.0, "tokens_per_s": null,
        "latency_ms": { "mean": 1, "p50": 1, "p90": 1, "p99": p99, "max": 9 },
        "start_delay_ms": { "p99": 0, "max": 0 }, "errors": [],
        "server": { "source": "metrics", "batch_ms": { "planning": 0.0, "inference": 3.0, "idle": 1.0 }, "cpu_s": 19.2 }
    }))
    .unwrap()
}

/// Runs a search on a server that answers `saturated` requests per second at most, with this p99 at a rate. Returns the rates.
fn search(saturated: f64, p99: impl Fn(f64) -> f64) -> (Search, Vec<f64>) {
    let (mut search, mut rates) = (Search::new(GOAL, 7), Vec::new());
    let mut seeds = std::collections::HashSet::new();
    while let Some(load) = search.next() {
        match load {
            Load::Closed { concurrency } => search.add(&run(concurrency as f64, saturated, 1e3)),
            Load::Open { rate, seed } => {
                assert!(seeds.insert(seed), "each run has its own arrivals");
                rates.push(rate);
                search.add(&run(rate, rate, p99(rate)));
            }
        }
        assert!(rates.len() <= 1 + (MAX_PROBES + MAX_CONFIRMATIONS) as usize, "{rates:?}");
    }
    (search, rates)
}

#[test]
fn the_rate_that_a_server_carries_is_found_to_the_precision() {
    for knee in [30.0, 55.0, 90.0, 99.0, 130.0, 230.0] {
        let (search, rates) = search(100.0, |rate| if rate <= knee { 40.0 } else { 60.0 });
        let found = search.result().unwrap().carried_requests_per_s.unwrap();
        assert!(found <= knee && found > 0.93 * knee, "{found} for {knee}: {rates:?}");
    }
    // Far beyond what the closed loop reached, the number of runs ends the search, below the knee.
    let (search, _) = search(100.0, |rate| if rate <= 900.0 { 40.0 } else { 60.0 });
    assert!(search.result().unwrap().carried_requests_per_s.unwrap() > 200.0);
}

#[test]
fn a_server_that_is_too_slow_alone_needs_no_search() {
    let (search, rates) = search(100.0, |_| 51.0);
    let size = search.result().unwrap();
    assert_eq!((rates, size.servers, size.carried_requests_per_s), (vec![10.0], None, None));
}

#[test]
fn failures_count_as_too_slow() {
    let mut search = Search::new(GOAL, 1);
    search.add(&run(16.0, 100.0, 1.0));
    search.add(&RunReport { failed: 1, ..run(10.0, 10.0, 1.0) });
    assert_eq!((search.next(), search.result().unwrap().servers), (None, None));
    let mut silent = Search::new(GOAL, 1);
    silent.add(&RunReport { answered: 0, ..run(16.0, 0.0, 0.0) });
    assert_eq!((silent.next(), silent.result().unwrap().servers), (None, None));
}

#[test]
fn a_rate_that_other_arrivals_do_not_confirm_is_lowered() {
    let mut runs = 0;
    let mut search = Search::new(GOAL, 1);
    while let Some(load) = search.next() {
        let is_confirming = matches!(search.stage, Stage::Confirmation { .. });
        runs += u32::from(is_confirming);
        let p99 = if is_confirming && runs < 3 { 60.0 } else { 40.0 };
        let rate = load.value();
        search.add(&run(rate, if load.mode() == "rate" { rate } else { 100.0 }, if rate > 80.0 { 60.0 } else { p99 }));
    }
    let found = search.result().unwrap().carried_requests_per_s.unwrap();
    assert!(runs == 3 && found < 80.0 * STEP_DOWN.powi(2) && found > 70.0 * STEP_DOWN.powi(2), "{runs} {found}");
}

#[test]
fn the_result_has_the_servers_of_the_carried_rate() {
    let (search, _) = search(231.2, |rate| if rate <= 180.0 { 47.1 } else { 60.0 });
    let size = search.result().unwrap();
    assert_eq!((size.saturated_requests_per_s, size.busy, size.cores_per_server), (231.2, Some(0.75), Some(1.92)));
    assert_eq!((size.carried_p99_ms, size.servers, size.cores), (Some(47.1), Some(3), Some(6)));
}
