//! Limits of connections, over real sockets.

use super::{ConnectionLimits, serve};
use crate::testing::{Setup, embedding};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use futures::stream;
use std::convert::Infallible;
use std::future::pending;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(200);

async fn start(routes: Router, connections: usize, client_timeout: Duration) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = ConnectionLimits { connections, client_timeout };
    tokio::spawn(serve(listener.into(), move || routes.clone(), limits, Arc::default(), pending::<()>()));
    address
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

/// Sends `text` and reads until the server closes the connection, on a thread of its own.
async fn exchange(address: SocketAddr, text: impl Into<Vec<u8>>) -> io::Result<String> {
    let text = text.into();
    let run = move || {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(&text)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_come_ends_the_connection() {
    let address = start(hello(), 10, SHORT).await;
    for head in ["", "G", "GET / HTTP/1.1\r\nhost: a\r\n"] {
        let answer = exchange(address, head).await.unwrap();
        assert!(!answer.contains("200 OK"), "{head:?}: {answer}");
    }
    let whole = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    // Two requests, then the idle connection ends too.
    assert_eq!(exchange(address, whole.repeat(2)).await.unwrap().matches("200 OK").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_head_is_refused() {
    let address = start(hello(), 10, LONG).await;
    for head in [
        format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "a".repeat(1_000_000)),
        format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "a".repeat(1_000_000)),
        format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: a\r\n".repeat(200)),
    ] {
        // The server does not read a rejected head to its end, so a reset may lose the response.
        let answer = exchange(address, head.clone()).await;
        let refused = |answer: &String| answer.starts_with("HTTP/1.1 431") || answer.starts_with("HTTP/1.1 414");
        assert!(answer.as_ref().map_or(true, refused), "{answer:?} to {}", &head[..40]);
    }
    let answer = exchange(address, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(answer.ends_with("hello"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_limit_connections_wait() {
    let address = start(hello(), 1, LONG).await;
    let first = TcpStream::connect(address).unwrap();
    let second = tokio::spawn(exchange(address, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"));
    tokio::time::sleep(SHORT).await;
    assert!(!second.is_finished());
    drop(first);
    assert!(second.await.unwrap().unwrap().ends_with("hello"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_nothing_is_let_go() {
    struct Answer(Arc<AtomicUsize>);
    impl Drop for Answer {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let alive = Arc::new(AtomicUsize::new(0));
    let endless = {
        let alive = Arc::clone(&alive);
        async move || {
            alive.fetch_add(1, Ordering::SeqCst);
            let answer = Answer(alive);
            let chunk = Bytes::from(vec![b'x'; 1 << 16]);
            Body::from_stream(stream::repeat_with(move || {
                let _held = &answer;
                Ok::<_, Infallible>(chunk.clone())
            }))
        }
    };
    let address = start(Router::new().route("/", get(endless)), 10, SHORT).await;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    while alive.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while alive.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_told_so() {
    let mut setup = Setup::new(embedding());
    setup.http.client_timeout = SHORT;
    let address = start(crate::server::routing::router(setup.build()), 10, LONG).await;
    let head = "POST /embed HTTP/1.1\r\nhost: a\r\ncontent-length: 14\r\nconnection: close\r\n\r\n";
    let answer = exchange(address, format!("{head}{{\"inp")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("--client-timeout"), "{answer}");
    let answer = exchange(address, format!("{head}{{\"inputs\":\"a\"}}")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_share_a_limit() {
    let mut setup = Setup::new(embedding());
    setup.http.payload_limit = 100;
    setup.limits.max_buffered_bytes = 100;
    let app = setup.build();
    let address = start(crate::server::routing::router(app.clone()), 10, LONG).await;
    let request = |body: &str| {
        format!("POST /embed HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let small = format!("{{\"inputs\":\"{}\"}}", "a".repeat(30));
    // Most of a body that never ends; a new one each time, because the small request may have been in its way.
    let body = format!("{{\"inputs\":\"{}\"}}", "a".repeat(80));
    let mut slow = Vec::new();
    let answer = loop {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&request(&body).as_bytes()[..request(&body).len() - 10]).unwrap();
        slow.push(stream);
        let answer = exchange(address, request(&small)).await.unwrap();
        if !answer.starts_with("HTTP/1.1 200") {
            break answer;
        }
    };
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: 1"), "{answer}");
    assert!(answer.contains("--max-buffered-bytes"), "{answer}");
    drop(slow);
    while app.quotas.buffered().held() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(exchange(address, request(&small)).await.unwrap().starts_with("HTTP/1.1 200"));
}
