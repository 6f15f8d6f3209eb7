//! Shutdown, over a real socket.

use super::ServingConfig;
use super::{Signals, Stopped, serve};
use crate::server::connections::{ConnectionLimits, LAST_HEADS};
use crate::state::App;
use crate::testing::{Gate, Setup, embedding, get};
use prefold_core::testing::Fate;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const LONG: Duration = Duration::from_secs(600);

struct Running {
    address: SocketAddr,
    app: App,
    gate: Arc<Gate>,
    signals: mpsc::Sender<&'static str>,
    server: tokio::task::JoinHandle<anyhow::Result<Stopped>>,
}

async fn start(timeout: Duration) -> Running {
    start_with(|_, config| config.shutdown_timeout = timeout).await
}

/// A server with the settings that `change` makes of the usual ones.
async fn start_with(change: impl FnOnce(&mut Setup, &mut ServingConfig)) -> Running {
    let gate = Arc::new(Gate::default());
    let mut setup = Setup { gate: Some(Arc::clone(&gate)), ..Setup::new(embedding()) };
    let mut config = ServingConfig {
        connections: ConnectionLimits { connections: 100, client_timeout: LONG },
        exit_on_stuck: false,
        shutdown_delay: Duration::ZERO,
        shutdown_timeout: LONG,
    };
    change(&mut setup, &mut config);
    let app = setup.build();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (signals, receiver) = mpsc::channel(2);
    let (loading, unfinished) = (std::future::ready(Ok(app.clone())), Arc::clone(&app.unfinished));
    let server = tokio::spawn(serve(listener.into(), loading, Signals(receiver), config, unfinished));
    Running { address, app, gate, signals, server }
}

/// Sends a request and reads until the server closes the connection.
fn request(address: SocketAddr) -> JoinHandle<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = r#"{"inputs":"a"}"#;
    write!(stream, "POST /embed HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    std::thread::spawn(move || {
        let mut response = String::new();
        stream.read_to_string(&mut response).map_or_else(|error| error.to_string(), |_| response)
    })
}

async fn until_unfinished(app: &App, requests: usize) {
    while app.unfinished.load(Ordering::Relaxed) < requests {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn join(client: JoinHandle<String>) -> String {
    tokio::task::spawn_blocking(|| client.join().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_is_answered() {
    let running = start(LONG).await;
    let clients: Vec<_> = (0..50).map(|_| request(running.address)).collect();
    // No wait until they are in flight: a request sent before the signal counts.
    running.signals.send("SIGTERM").await.unwrap();
    while running.app.unfinished.load(Ordering::Relaxed) < 50 {
        assert!(!clients.iter().any(JoinHandle::is_finished), "a connection was cut off");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Longer than the server waits for heads that have begun to arrive.
    tokio::time::sleep(2 * LAST_HEADS).await;
    running.gate.open();
    for client in clients {
        let response = join(client).await;
        assert!(response.starts_with("HTTP/1.1 200 OK"), "{response:?}");
        assert!(response.ends_with("]]"), "{response:?}");
    }
    assert_eq!(running.server.await.unwrap().unwrap(), Stopped::Drained);
    assert!(TcpStream::connect(running.address).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_do_not_hold_the_server() {
    for begun in ["", "GET / HT"] {
        let running = start(LONG).await;
        running.gate.open();
        let mut idle = TcpStream::connect(running.address).unwrap();
        idle.write_all(begun.as_bytes()).unwrap();
        running.signals.send("SIGTERM").await.unwrap();
        assert_eq!(running.server.await.unwrap().unwrap(), Stopped::Drained, "{begun}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_served_while_the_stop_is_delayed() {
    let running = start_with(|_, config| config.shutdown_delay = Duration::from_secs(1)).await;
    running.gate.open();
    assert_eq!(get(&running.app, "/ready").await.status, 200);
    running.signals.send("SIGTERM").await.unwrap();
    while !running.app.is_stopping.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let ready = get(&running.app, "/ready").await;
    assert!(ready.status == 503 && ready.body.contains("stopping"), "{}", ready.body);
    assert_eq!(get(&running.app, "/health").await.status, 200);
    // Longer than connections are accepted without a delay.
    tokio::time::sleep(2 * super::BACKLOG_GRACE).await;
    let response = join(request(running.address)).await;
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{response:?}");
    assert_eq!(running.server.await.unwrap().unwrap(), Stopped::Drained);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_to_stop_is_bounded() {
    let running = start(Duration::from_millis(300)).await;
    let _client = request(running.address);
    until_unfinished(&running.app, 1).await;
    running.signals.send("SIGTERM").await.unwrap();
    assert_eq!(running.server.await.unwrap().unwrap(), Stopped::TimedOut { requests: 1 });
    running.gate.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_stops_at_once() {
    let running = start(LONG).await;
    let _client = request(running.address);
    until_unfinished(&running.app, 1).await;
    // The first signals count as one; a later one counts again.
    while !running.server.is_finished() {
        let _ = running.signals.try_send("SIGINT");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(running.server.await.unwrap().unwrap(), Stopped::Interrupted);
    running.gate.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_that_come_together_are_one() {
    let running = start(LONG).await;
    let client = request(running.address);
    until_unfinished(&running.app, 1).await;
    for _ in 0..2 {
        running.signals.try_send("SIGTERM").unwrap();
    }
    // Opened only after the second signal has left the channel.
    while running.signals.capacity() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    running.gate.open();
    assert!(join(client).await.starts_with("HTTP/1.1 200 OK"));
    assert_eq!(running.server.await.unwrap().unwrap(), Stopped::Drained);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forward_pass_that_never_ends_ends_the_server_when_it_should() {
    let running = start_with(|setup, config| {
        setup.http.stall_timeout = Duration::from_millis(20);
        config.exit_on_stuck = true;
    })
    .await;
    let _client = request(running.address);
    assert_eq!(running.server.await.unwrap().unwrap(), Stopped::Stuck);
    running.gate.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_device_is_told_and_ends_the_server() {
    let running = start_with(|setup, _| (setup.gate, setup.fate) = (None, Fate::Lose)).await;
    assert!(get(&running.app, "/health").await.status.is_success());
    let told = join(request(running.address)).await;
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("the device has failed"), "{told}");
    assert_eq!(get(&running.app, "/health").await.status.as_u16(), 503);
    assert_eq!(running.server.await.unwrap().unwrap(), Stopped::DeviceLost);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forward_pass_that_takes_long_ends_nothing_by_default() {
    let running = start_with(|setup, _| setup.http.stall_timeout = Duration::from_millis(1)).await;
    let client = request(running.address);
    running.gate.reached().await;
    while crate::routes::health::stuck(&running.app).is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    running.gate.open();
    running.signals.send("SIGTERM").await.unwrap();
    assert!(join(client).await.starts_with("HTTP/1.1 200 OK"));
    assert_eq!(running.server.await.unwrap().unwrap(), Stopped::Drained);
}
