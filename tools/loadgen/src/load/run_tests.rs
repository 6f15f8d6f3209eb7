use super::*;
use crate::http::api::Api;
use crate::http::client::{Kind, TargetConfig};
use crate::http::test_server::{Behaviour, Server, target};
use crate::workload::{Plan, Source};
use prefold_tools::template::Template;
use reqwest::header::HeaderValue;
use std::io::Write;
use tokio::sync::Barrier;

/// Sends these texts, one per request.
fn driver(target: Target, texts: &[&str]) -> Arc<Driver> {
    let plan = Plan {
        api: Api::Embed,
        templates: vec![Template::new("{text}")],
        clients: 1,
        texts_per_request: None,
        model: None,
        base64: false,
        priority: None,
    };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    texts.iter().for_each(|text| writeln!(file, "{text}").unwrap());
    Driver::new(target, Workload::from_source(&Source::File(file.path().to_owned()), &plan).unwrap())
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("text {i}")).collect()
}

fn requests(count: u64) -> Length {
    Length { requests: Some(count), duration: None }
}

async fn run(driver: &Arc<Driver>, load: Load, length: Length) -> Finished {
    let never = std::pin::pin!(std::future::pending());
    run_until(driver, load, length, never).await
}

async fn run_until(driver: &Arc<Driver>, load: Load, length: Length, stop: Stop<'_>) -> Finished {
    super::run(&[Stream { driver: driver.clone(), load }], length, "test", stop).await.remove(0)
}

#[tokio::test]
async fn a_closed_loop_keeps_its_requests_in_flight() {
    let (server, url) = Server::start(Behaviour::Together(Barrier::new(4))).await;
    let texts = texts(3);
    let driver = driver(target(&url), &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let finished = run(&driver, Load::Closed { concurrency: 4 }, requests(20)).await;
    assert_eq!((finished.sent, finished.record.answered, finished.record.failed()), (20, 20, 0));
    assert_eq!((finished.record.texts, finished.record.tokens), (20, Some(140)));
    assert!(!finished.interrupted && server.max_in_flight.load(Ordering::SeqCst) == 4);
    // The next run continues after the last text, number 19.
    run(&driver, Load::Closed { concurrency: 4 }, requests(4)).await;
    let mut sent = server.texts.lock().unwrap().split_off(20);
    sent.sort();
    assert_eq!(sent, ["text 0", "text 1", "text 2", "text 2"]);
}

#[tokio::test]
async fn a_closed_loop_of_one_sends_in_order() {
    let (server, url) = Server::start(Behaviour::Answer).await;
    let length = Length { requests: None, duration: Some(Duration::from_millis(100)) };
    let finished = run(&driver(target(&url), &["a", "b", "c"]), Load::Closed { concurrency: 1 }, length).await;
    let sent = server.texts.lock().unwrap().clone();
    assert!(finished.sent > 1 && finished.sent == finished.record.answered && sent.len() as u64 == finished.sent);
    assert!(sent.iter().zip(["a", "b", "c"].iter().cycle()).all(|(sent, expected)| sent == expected), "{sent:?}");
    assert!(finished.elapsed >= Duration::from_millis(100));
}

#[tokio::test]
async fn an_open_loop_does_not_wait_for_answers() {
    // Never ends if connections or other limits hold requests back.
    let (_, url) = Server::start(Behaviour::Together(Barrier::new(300))).await;
    let load = Load::Open { rate: 5000.0, seed: 1 };
    let finished = run(&driver(target(&url), &["a"]), load, requests(300)).await;
    assert_eq!((finished.sent, finished.record.answered), (300, 300), "{:?}", finished.record.errors);
}

#[tokio::test]
async fn a_stall_is_seen_by_all_who_arrive_meanwhile() {
    let (stall, rate, seed, count) = (Duration::from_millis(600), 200.0, 3, 100);
    let waited = Duration::from_millis(200);
    let texts = texts(count);
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();

    let (_, url) = Server::start(Behaviour::Stall(stall)).await;
    let open = run(&driver(target(&url), &texts), Load::Open { rate, seed }, requests(count as u64)).await;
    let first = Arrivals::new(rate, seed).next().unwrap();
    let in_stall = Arrivals::new(rate, seed).take(count).filter(|time| *time + waited <= first + stall).count();
    assert!(in_stall > count / 2, "{in_stall}");
    // All latencies but `count - in_stall`.
    let least = open.record.latency.quantile(1.0 - (in_stall as f64 - 0.5) / count as f64);
    assert!(least >= waited.as_secs_f64() * 999.0, "{least} ms at {in_stall} of {count}");
    assert!(open.record.latency.max() >= stall.as_secs_f64() * 999.0);

    // A closed loop sends nothing during the stall, so only one of a hundred latencies shows it.
    let (_, url) = Server::start(Behaviour::Stall(stall)).await;
    let closed = run(&driver(target(&url), &texts), Load::Closed { concurrency: 1 }, requests(count as u64)).await;
    assert!(closed.record.latency.max() >= stall.as_secs_f64() * 999.0);
    assert!(closed.record.latency.quantile(0.5) < open.record.latency.quantile(0.5));
}

#[tokio::test]
async fn errors_are_told_apart() {
    let (_, url) = Server::start(Behaviour::Obey).await;
    let texts = ["refuse", "good", "redirect", "cut", "null", "less", "refuse"];
    let finished = run(&driver(target(&url), &texts), Load::Closed { concurrency: 2 }, requests(7)).await;
    let errors = &finished.record.errors;
    let counts: Vec<_> = errors.iter().map(|(kind, errors)| (*kind, errors.count)).collect();
    let expected = [(Kind::Status(302), 1), (Kind::Status(429), 2), (Kind::Connection, 1), (Kind::BadBody, 2)];
    assert_eq!(counts, expected, "{errors:?}");
    assert_eq!((finished.record.answered, finished.record.failed()), (1, 6));
    assert_eq!(errors[&Kind::Status(429)].example, "come back later");

    let (_, url) = Server::start(Behaviour::Obey).await;
    let timeout = Duration::from_millis(100);
    let config = TargetConfig { base: url, api: Api::Embed, path: None, authorization: None, timeout };
    let target = Target::new(config).unwrap();
    let finished = run(&driver(target, &["hang", "good"]), Load::Closed { concurrency: 1 }, requests(2)).await;
    assert_eq!((finished.record.answered, finished.record.errors[&Kind::Timeout].count), (1, 1));
    assert!(finished.record.latency.max() >= 100.0);
}

#[tokio::test]
async fn nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let finished = run(&driver(target(&url), &["a"]), Load::Closed { concurrency: 1 }, requests(2)).await;
    let errors = &finished.record.errors[&Kind::Connection];
    assert!(errors.count == 2 && errors.example.to_lowercase().contains("refused"), "{errors:?}");
}

#[tokio::test]
async fn an_interrupted_run_still_has_its_result() {
    // A closed loop stalls once all three requests hang and has then read every response; an open loop keeps reading.
    for (load, arrivals) in [(Load::Closed { concurrency: 3 }, 4), (Load::Open { rate: 1000.0, seed: 1 }, 300)] {
        let (server, url) = Server::start(Behaviour::Obey).await;
        let driver = driver(target(&url), &["good", "hang", "hang"]);
        let stop = std::pin::pin!(async move {
            while server.in_flight.load(Ordering::SeqCst) < 3 || server.texts.lock().unwrap().len() < arrivals {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let finished = run_until(&driver, load, Length::default(), stop).await;
        assert!(finished.interrupted && finished.record.answered >= 1, "{load:?}");
        assert!(finished.sent >= finished.record.answered + 2 && finished.record.failed() == 0, "{load:?}");
    }
}

#[tokio::test]
async fn the_first_model_is_asked_for_with_the_key() {
    let (_, url) = Server::start(Behaviour::Answer).await;
    let config = |key: Option<&'static str>| TargetConfig {
        base: format!("{url}/"),
        api: Api::Openai,
        path: Some("embeddings".to_owned()),
        authorization: key.map(HeaderValue::from_static),
        timeout: Duration::from_secs(60),
    };
    let target = Target::new(config(Some("Bearer key"))).unwrap();
    assert_eq!(target.url(), format!("{url}/embeddings"));
    assert_eq!(target.first_model().await.as_deref(), Some("first"));
    assert_eq!(target.metrics().await, None);
    assert_eq!(Target::new(config(None)).unwrap().first_model().await, None);
    for base in ["127.0.0.1:3000", ""] {
        assert!(Target::new(TargetConfig { base: base.to_owned(), ..config(None) }).is_err(), "{base}");
    }
}
