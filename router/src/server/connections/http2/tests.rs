//! Limits of streams of HTTP/2, over real sockets.

use super::*;
use crate::server::connections::{self, ConnectionLimits};
use crate::testing::{Setup, embedding};
use axum::routing::{any, get, post};
use futures::future::join_all;
use futures::stream;
use h2::client::{self, ResponseFuture, SendRequest};
use std::future::pending;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(300);

/// Counts the values of a kind that are there.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn until(count: &AtomicUsize, wanted: usize) {
    while count.load(Ordering::SeqCst) != wanted {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
    unfinished: Arc<AtomicUsize>,
}

async fn start(routes: Router, connections: usize, client_timeout: Duration) -> Running {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = ConnectionLimits { connections, client_timeout };
    let (stop, stopped) = oneshot::channel::<()>();
    let unfinished = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&unfinished);
    let served = tokio::spawn(connections::serve(listener.into(), move || routes.clone(), limits, counted, stopped));
    Running { address, stop, served, unfinished }
}

/// A client's connection, and how it ends.
async fn connect(address: SocketAddr) -> (SendRequest<Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let (client, connection) = client::handshake(TcpStream::connect(address).await.unwrap()).await.unwrap();
    (client.ready().await.unwrap(), tokio::spawn(connection))
}

fn request(method: &str, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("http://host.test{path}")).body(()).unwrap()
}

fn send_get(client: &mut SendRequest<Bytes>, path: &str) -> ResponseFuture {
    client.send_request(request("GET", path), true).unwrap().0
}

/// The status and the text of an answer.
async fn read(response: ResponseFuture) -> Result<(u16, String), h2::Error> {
    let response = response.await?;
    let (status, mut body, mut text) = (response.status().as_u16(), response.into_body(), Vec::new());
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        text.extend_from_slice(&piece);
    }
    Ok((status, String::from_utf8(text).unwrap()))
}

/// `/` answers at once; `/never` does not, and counts in `waiting`; `/endless` makes pieces as long as they are taken, and counts them.
fn routes(waiting: &Arc<AtomicUsize>, pieces: &Arc<AtomicUsize>) -> Router {
    let waits = Arc::clone(waiting);
    let never = async move || {
        let _counted = Counted::new(&waits);
        pending::<()>().await;
    };
    let made = Arc::clone(pieces);
    let endless = async move || {
        Body::from_stream(stream::repeat_with(move || {
            made.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(Bytes::from(vec![b'x'; 1 << 16]))
        }))
    };
    Router::new().route("/", get(async || "hello")).route("/never", any(never)).route("/endless", get(endless))
}

fn hello() -> Router {
    routes(&Arc::default(), &Arc::default())
}

fn reason(error: h2::Error) -> Option<Reason> {
    error.reason()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_are_served_on_one_port() {
    let host = get(async |headers: HeaderMap| headers[header::HOST].to_str().unwrap().to_owned());
    let running = start(hello().route("/host", host), 10, LONG).await;
    let (mut client, _connection) = connect(running.address).await;
    let response = send_get(&mut client, "/").await.unwrap();
    assert_eq!(
        (response.status(), &response.headers()[header::CONTENT_LENGTH]),
        (StatusCode::OK, &"5".parse().unwrap())
    );
    assert!(response.headers()[header::DATE].to_str().unwrap().ends_with("GMT"));
    assert_eq!(read(send_get(&mut client, "/host")).await.unwrap(), (200, "host.test".to_owned()));
    assert_eq!(read(send_get(&mut client, "/no")).await.unwrap().0, 404);
    // A method that begins as the preface does, byte by byte.
    let mut plain = TcpStream::connect(running.address).await.unwrap();
    plain.set_nodelay(true).unwrap();
    for byte in b"PRINT / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n" {
        plain.write_all(&[*byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
}

/// A frame with its head.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let [.., high, middle, low] = payload.len().to_be_bytes();
    [&[high, middle, low, kind, flags, 0, 0, 0, stream], payload].concat()
}

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_request_ends() {
    let running = start(hello(), 10, SHORT).await;
    let settings = frame(SETTINGS, 0, 0, b"");
    // Nothing, a part of the preface, all of it, and the beginning of a request's head.
    let begun = [
        vec![],
        b"PRI * HT".to_vec(),
        PREFACE.to_vec(),
        [PREFACE, &settings].concat(),
        [PREFACE, &settings, &frame(HEADERS, 1, 1, b"\x82")].concat(),
    ];
    let ended = begun.map(async |begun| {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(&begun).await.unwrap();
        let mut read = Vec::new();
        let ended = timeout(LINGER * 4, stream.read_to_end(&mut read)).await;
        assert!(ended.is_ok(), "{begun:?}");
        let has_goaway = read.windows(9).any(|head| head == &frame(GOAWAY, 0, 0, &[0; 8])[..9]);
        assert_eq!(has_goaway, begun.starts_with(PREFACE), "{begun:?}: {read:?}");
    });
    join_all(ended).await;
    let (mut client, connection) = connect(running.address).await;
    assert_eq!(read(send_get(&mut client, "/")).await.unwrap().0, 200);
    connection.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_head_is_refused() {
    let running = start(hello(), 10, LONG).await;
    let (mut client, _connection) = connect(running.address).await;
    let mut large = request("GET", "/");
    large.headers_mut().insert("x", HeaderValue::try_from("a".repeat(20_000)).unwrap());
    assert_eq!(client.send_request(large, true).unwrap().0.await.unwrap().status(), 431);
    let mut many = request("GET", "/");
    (0..500).for_each(|_| _ = many.headers_mut().append("x", HeaderValue::from_static("a")));
    assert_eq!(client.send_request(many, true).unwrap().0.await.unwrap().status(), 431);
    assert_eq!(read(send_get(&mut client, "/")).await.unwrap().0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_all_connections_have_a_limit() {
    let waiting = Arc::<AtomicUsize>::default();
    // Two connections, and one that would be accepted next.
    let running = start(routes(&waiting, &Arc::default()), 5, LONG).await;
    let (mut first, _connection) = connect(running.address).await;
    let (mut second, _connection) = connect(running.address).await;
    let held: Vec<_> = (0..3).map(|_| send_get(&mut first, "/never")).collect();
    until(&waiting, 3).await;
    // The server's refusals are no reason to close the connection, however many they are.
    for _ in 0..=MAX_LEFT {
        assert_eq!(read(send_get(&mut first, "/")).await.map_err(reason), Err(Some(Reason::REFUSED_STREAM)));
    }
    assert_eq!(
        read(send_get(&mut second, "/")).await.unwrap().0,
        200,
        "the first stream of a connection is part of it"
    );
    drop(held);
    until(&waiting, 0).await;
    assert_eq!(read(send_get(&mut first, "/")).await.unwrap().0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_a_connection_have_a_limit() {
    let waiting = Arc::<AtomicUsize>::default();
    let running = start(routes(&waiting, &Arc::default()), 1000, LONG).await;
    let (mut client, _connection) = connect(running.address).await;
    let held: Vec<_> = (0..MAX_STREAMS).map(|_| send_get(&mut client, "/never")).collect();
    until(&waiting, MAX_STREAMS as usize).await;
    // The client knows the limit, and waits for a place.
    let mut next = send_get(&mut client, "/");
    assert!(timeout(SHORT, &mut next).await.is_err());
    drop(held);
    assert_eq!(read(next).await.unwrap().0, 200);
    until(&waiting, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_for_a_stream_that_is_reset_is_dropped() {
    let waiting = Arc::<AtomicUsize>::default();
    let running = start(routes(&waiting, &Arc::default()), 10, LONG).await;
    let (mut client, connection) = connect(running.address).await;
    let left = send_get(&mut client, "/never");
    let kept = send_get(&mut client, "/never");
    until(&waiting, 2).await;
    assert_eq!(running.unfinished.load(Ordering::SeqCst), 2);
    drop(left);
    until(&waiting, 1).await;
    connection.abort();
    until(&waiting, 0).await;
    until(&running.unfinished, 0).await;
    drop(kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_nothing_loses_the_stream_and_holds_one_piece() {
    let pieces = Arc::<AtomicUsize>::default();
    let running = start(routes(&Arc::default(), &pieces), 10, SHORT * 2).await;
    let (mut client, _connection) = connect(running.address).await;
    let since = Instant::now();
    let response = send_get(&mut client, "/endless").await.unwrap();
    let mut body = response.into_body();
    // The stream's window is open for 65,535 bytes.
    let mut received = 0;
    let error = loop {
        match body.data().await.unwrap() {
            Ok(piece) => received += piece.len(),
            Err(error) => break error,
        }
    };
    assert_eq!((error.reason(), received), (Some(Reason::CANCEL), WINDOW as usize));
    assert!(since.elapsed() >= SHORT * 2);
    assert_eq!(pieces.load(Ordering::SeqCst), 1);
    // The window of the connection is still full.
    body.flow_control().release_capacity(received).unwrap();
    assert_eq!(read(send_get(&mut client, "/")).await.unwrap().0, 200, "other streams go on");
    until(&running.unfinished, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_no_bytes_is_disconnected() {
    let running = start(routes(&Arc::default(), &Arc::default()), 1, SHORT).await;
    let mut lazy = TcpStream::connect(running.address).await.unwrap();
    let open = [
        PREFACE.to_vec(),
        frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]),
        frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0, 0]),
        // GET http://a/endless
        frame(HEADERS, 5, 1, b"\x82\x86\x04\x08/endless\x01\x01a"),
    ];
    lazy.write_all(&open.concat()).await.unwrap();
    until(&running.unfinished, 1).await;
    // There is room for one connection.
    let (mut client, _connection) = connect(running.address).await;
    assert_eq!(read(send_get(&mut client, "/")).await.unwrap().0, 200);
    drop(lazy);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_told_so() {
    let mut setup = Setup::new(embedding());
    setup.http.client_timeout = SHORT;
    let app = setup.build();
    let running = start(crate::server::routing::router(app), 10, LONG).await;
    let (mut client, _connection) = connect(running.address).await;
    let (response, mut body) = client.send_request(request("POST", "/embed"), false).unwrap();
    body.send_data(Bytes::from_static(b"{\"inp"), false).unwrap();
    let (status, text) = read(response).await.unwrap();
    assert!(status == 408 && text.contains("--client-timeout"), "{status} {text}");
    assert_eq!(poll_fn(|context| body.poll_reset(context)).await.unwrap(), Reason::NO_ERROR);
    let mut expecting = request("POST", "/embed");
    expecting.headers_mut().insert(header::EXPECT, HeaderValue::from_static("100-continue"));
    let (mut response, mut body) = client.send_request(expecting, false).unwrap();
    let interim = poll_fn(|context| response.poll_informational(context)).await.unwrap().unwrap();
    assert_eq!(interim.status(), StatusCode::CONTINUE);
    body.send_data(Bytes::from_static(b"{\"inputs\":\"a\"}"), true).unwrap();
    assert_eq!(read(response).await.unwrap().0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_nobody_reads_fill_one_window() {
    let waiting = Arc::<AtomicUsize>::default();
    let never = {
        let waiting = Arc::clone(&waiting);
        post(async move |_unread: Body| {
            let _counted = Counted::new(&waiting);
            pending::<()>().await;
        })
    };
    let running = start(Router::new().route("/unread", never), 10, LONG).await;
    let (mut client, _connection) = connect(running.address).await;
    let mut sending: Vec<_> = (0..2).map(|_| client.send_request(request("POST", "/unread"), false).unwrap()).collect();
    until(&waiting, 2).await;
    let mut sent = 0;
    for (_, body) in &mut sending {
        body.reserve_capacity(1 << 20);
        while let Ok(Some(Ok(room))) = timeout(SHORT, poll_fn(|context| body.poll_capacity(context))).await {
            body.send_data(Bytes::from(vec![0; room]), false).unwrap();
            sent += room;
            body.reserve_capacity(1 << 20);
        }
    }
    assert_eq!(sent, WINDOW as usize);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_resets_streams_without_end_is_disconnected() {
    let waiting = Arc::<AtomicUsize>::default();
    let running = start(routes(&waiting, &Arc::default()), 1000, LONG).await;
    // Reset before the server sees the stream, and after.
    for is_seen in [false, true] {
        let (mut client, connection) = connect(running.address).await;
        let (mut begun, since) = (0, Instant::now());
        while let Ok(mut ready) = client.clone().ready().await {
            let Ok((response, _)) = ready.send_request(request("GET", "/never"), true) else { break };
            while is_seen && waiting.load(Ordering::SeqCst) == 0 && !connection.is_finished() {
                tokio::task::yield_now().await;
            }
            drop(response);
            while is_seen && waiting.load(Ordering::SeqCst) > 0 {
                tokio::task::yield_now().await;
            }
            client = ready;
            begun += 1;
            // On a busy machine, the connection's task may not have sent a stream yet that is reset here.
            tokio::task::yield_now().await;
            assert!(since.elapsed() < LONG, "the server goes on after {begun} streams");
        }
        let error = connection.await.unwrap().unwrap_err();
        assert_eq!(error.reason(), Some(Reason::ENHANCE_YOUR_CALM), "{error}");
        assert!(!is_seen || begun > MAX_LEFT, "{begun}");
        until(&running.unfinished, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_finishes_open_streams_and_refuses_new_ones() {
    let gate = Arc::new(tokio::sync::Notify::new());
    let opened = Arc::clone(&gate);
    let slow = get(async move || {
        opened.notified().await;
        "done"
    });
    let running = start(Router::new().route("/", slow), 10, LONG).await;
    let (mut client, connection) = connect(running.address).await;
    let response = send_get(&mut client, "/");
    until(&running.unfinished, 1).await;
    running.stop.send(()).unwrap();
    while client.clone().ready().await.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!running.served.is_finished());
    gate.notify_one();
    assert_eq!(read(response).await.unwrap(), (200, "done".to_owned()));
    connection.await.unwrap().unwrap();
    running.served.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_closes_connections_that_have_sent_nothing() {
    let running = start(hello(), 10, LONG).await;
    // A request that is not answered, for which open connections would be waited for.
    running.unfinished.fetch_add(1, Ordering::SeqCst);
    let mut unused = TcpStream::connect(running.address).await.unwrap();
    let (mut client, _connection) = connect(running.address).await;
    assert_eq!(read(send_get(&mut client, "/")).await.unwrap().0, 200, "both are accepted");
    running.stop.send(()).unwrap();
    assert_eq!(timeout(LINGER, unused.read(&mut [0])).await.unwrap().unwrap(), 0);
    running.served.await.unwrap();
}
