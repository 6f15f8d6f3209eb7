//! HTTP/2 on a connection, by prior knowledge or after ALPN. A stream has the limits of a connection of HTTP/1.1: its head, the time for
//! its body and for its answer, and its place among `--max-connections`.

use super::exchange::Exchange;
use super::shared::{MAX_HEAD, Shared};
use super::stream::{ClientStream, LINGER};
use crate::server::byte_stream::ByteStream;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use hyper::body::Frame;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{self, Context, Poll};
use std::time::SystemTime;
use tokio::io::AsyncReadExt;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// Bytes with which each connection of HTTP/2 begins (RFC 9113, section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Open streams of a connection: the least that RFC 9113 recommends.
const MAX_STREAMS: u32 = 100;

/// Bytes of bodies that are on their way to their handlers: the least that RFC 9113 allows for a connection.
const WINDOW: u32 = (1 << 16) - 1;

/// Maximum number by which the streams that a connection abandons may exceed the answers that it takes, before it is
/// closed: a client can begin and reset streams faster than their requests are cancelled (CVE-2023-44487).
const MAX_LEFT: u32 = 1000;

/// Streams that a client resets before the server has seen them, and frames of closed streams that the server answers with resets.
const MAX_UNSEEN_RESETS: usize = 20;
const MAX_ERROR_RESETS: usize = 1024;

/// Reads as long as the bytes match [`PREFACE`]. After `stop` it does not wait for the first byte.
///
/// # Errors
/// The connection is broken.
pub(super) async fn read_preface(stream: &mut Box<dyn ByteStream>, mut stop: watch::Receiver<()>) -> io::Result<Bytes> {
    let (mut bytes, mut len) = ([0; PREFACE.len()], 0);
    while len < PREFACE.len() && PREFACE.starts_with(&bytes[..len]) {
        let read = tokio::select! {
            // The bytes that have come count as a begun request.
            biased;
            read = stream.read(&mut bytes[len..]) => read?,
            _ = stop.changed(), if len == 0 => break,
        };
        match read {
            0 => break,
            read => len += read,
        }
    }
    Ok(Bytes::copy_from_slice(&bytes[..len]))
}

/// Serves a connection that has begun with the bytes `begun` until it ends. After `--client-timeout` without a request,
/// or after `stop`, it asks the client to begin no more streams (GOAWAY).
///
/// # Errors
/// The connection is broken, or the client violates the protocol or a limit.
pub(super) async fn serve(
    stream: Box<dyn ByteStream>,
    begun: Bytes,
    shared: Shared<impl Fn() -> Router>,
    mut stop: watch::Receiver<()>,
) -> io::Result<()> {
    let client_timeout = shared.limits.client_timeout;
    let stream = ClientStream::new(stream, begun, Exchange::of_streams(client_timeout));
    let handshake = timeout(client_timeout, limits().handshake(stream)).await;
    let mut connection = handshake.map_err(|_| ErrorKind::TimedOut)?.map_err(io::Error::other)?;
    let mut streams = JoinSet::new();
    let (mut left, mut is_closing) = (0_u32, false);
    let mut idle = pin!(sleep(client_timeout));
    loop {
        tokio::select! {
            // Streams that the client has reset end without a part of the connection.
            accepted = connection.accept(), if streams.len() < 2 * MAX_STREAMS as usize => {
                let Some(accepted) = accepted else { return Ok(()) };
                let (request, respond) = accepted.map_err(io::Error::other)?;
                begin(request, respond, &shared, &mut streams);
            }
            Some(ended) = streams.join_next() => {
                left = if ended.unwrap_or(false) { left.saturating_sub(1) } else { left + 1 };
                if left > MAX_LEFT {
                    left = 0;
                    connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                }
                if streams.is_empty() {
                    idle.as_mut().reset(Instant::now() + if is_closing { LINGER } else { client_timeout });
                }
            }
            _ = stop.changed(), if !is_closing => {
                finish(&mut connection, idle.as_mut());
                is_closing = true;
            }
            () = idle.as_mut(), if streams.is_empty() => {
                if is_closing {
                    return Ok(());
                }
                finish(&mut connection, idle.as_mut());
                is_closing = true;
            }
        }
    }
}

/// Limits of the frames of a connection.
fn limits() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_pending_accept_reset_streams(MAX_UNSEEN_RESETS)
        .max_local_error_reset_streams(Some(MAX_ERROR_RESETS));
    builder
}

/// Tells the client to begin no more streams; the connection ends with the open ones, or when there have been none for a while.
fn finish(connection: &mut Connection<ClientStream, Bytes>, idle: Pin<&mut Sleep>) {
    connection.graceful_shutdown();
    idle.reset(Instant::now() + LINGER);
}

/// Begins the answer to a stream, if it is the connection's only one or has a place among all connections. A refused request may be
/// sent again.
fn begin(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: &Shared<impl Fn() -> Router>,
    streams: &mut JoinSet<bool>,
) {
    let permit = if streams.is_empty() { None } else { Some(Arc::clone(&shared.permits).try_acquire_owned()) };
    let Ok(permit) = permit.transpose() else {
        // Not the client's fault: it does not count as left.
        respond.send_reset(Reason::REFUSED_STREAM);
        return;
    };
    let exchange = Exchange::new(Arc::clone(&shared.unfinished), shared.limits.client_timeout);
    let answering = answer(request, respond, exchange, (shared.routes)());
    streams.spawn(async move {
        let is_taken = answering.await;
        drop(permit);
        is_taken
    });
}

/// Answers a request. True if the client has taken the answer.
async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    exchange: Arc<Exchange>,
    routes: Router,
) -> bool {
    if request.headers().contains_key(header::EXPECT) && !request.body().is_end_stream() {
        let mut interim = Response::new(());
        *interim.status_mut() = StatusCode::CONTINUE;
        // A stream that was reset shows below.
        let _ = respond.send_informational(interim);
    }
    let answered = Arc::clone(&exchange).answer(routes, with_host(request).map(StreamBody));
    let response = tokio::select! {
        Ok(response) = answered => response,
        _ = poll_fn(|context| respond.poll_reset(context)) => return false,
    };
    let (mut head, mut body) = response.into_parts();
    complete(&mut head, &body);
    let is_over = body.is_end_stream();
    let Ok(mut stream) = respond.send_response(Response::from_parts(head, ()), is_over) else { return false };
    is_over || send_body(&mut stream, &mut body, &exchange).await
}

/// The request with its authority in the header that HTTP/1.1 has for it.
fn with_host(mut request: Request<RecvStream>) -> Request<RecvStream> {
    let host = request.uri().authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    if let Some(host) = host {
        request.headers_mut().entry(header::HOST).or_insert(host);
    }
    request
}

/// Adds the headers that each answer has.
fn complete(head: &mut Parts, body: &Body) {
    let insert = |headers: &mut HeaderMap, name, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.entry(name).or_insert(value);
        }
    };
    insert(&mut head.headers, header::DATE, httpdate::fmt_http_date(SystemTime::now()));
    if let Some(len) = body.size_hint().exact().filter(|_| !body.is_end_stream()) {
        insert(&mut head.headers, header::CONTENT_LENGTH, len.to_string());
    }
}

/// Sends a body piece by piece; a piece is made when the one before is taken. True if all of it is taken.
async fn send_body(stream: &mut SendStream<Bytes>, body: &mut Body, exchange: &Exchange) -> bool {
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
            None => return stream.send_data(Bytes::new(), true).is_ok(),
            Some(Ok(frame)) => {
                let Ok(bytes) = frame.into_data() else { continue };
                let is_last = body.is_end_stream();
                if !send(stream, bytes, is_last, exchange).await {
                    return false;
                }
                if is_last {
                    return true;
                }
            }
            Some(Err(error)) => {
                tracing::debug!(target: "connection", "an answer ended early: {error}");
                stream.send_reset(Reason::INTERNAL_ERROR);
                return false;
            }
        }
    }
}

/// Sends bytes and waits until they are passed to the kernel. Resets the stream if the client does not take them in time.
async fn send(stream: &mut SendStream<Bytes>, bytes: Bytes, is_last: bool, exchange: &Exchange) -> bool {
    let len = bytes.len();
    let (here, passed_on) = oneshot::channel();
    if stream.send_data(Bytes::from_owner(Passing { bytes, _here: here }), is_last).is_err() {
        return false;
    }
    let since = Instant::now();
    let is_in_time = timeout(exchange.patience(), passed_on).await.is_ok();
    exchange.has_waited(since.elapsed());
    if !is_in_time {
        exchange.let_go(len);
        stream.send_reset(Reason::CANCEL);
    }
    is_in_time
}

/// Bytes of an answer, dropped when the connection has passed them on or its stream is reset.
struct Passing {
    bytes: Bytes,
    _here: oneshot::Sender<Infallible>,
}

impl AsRef<[u8]> for Passing {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The body of a request. What is read makes room for more.
struct StreamBody(RecvStream);

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let data = task::ready!(self.0.poll_data(context));
        Poll::Ready(data.map(|data| {
            let data = data?;
            self.0.flow_control().release_capacity(data.len())?;
            Ok(Frame::data(data))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

#[cfg(test)]
mod tests;
