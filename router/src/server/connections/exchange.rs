//! Requests and answers of a connection or of a stream of HTTP/2, as far as their bytes have come.

use crate::server::protocol;
use crate::state::holding::{Holding, Route};
use crate::state::request_id::REQUEST_ID;
use crate::telemetry::metrics::{SLOW_READERS, UNMATCHED};
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use axum::response::Response;
use futures::future::{Either, ready};
use hyper::body::{Frame, SizeHint};
use metrics::counter;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{BoxError, ServiceExt};

/// Bytes of an answer for which its client gets one more second. JSON text is up to three times as long as the values:
/// a client with 1 Mbit/s gets 11 MB within the default `--client-timeout`, and a client with 6 Mbit/s gets any answer.
const HELD_BYTES_PER_SECOND: u64 = 1 << 18;

/// State of the requests of a connection, which are answered one after the other, or of a stream of HTTP/2, which has
/// one request.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The handler waits for more of the request's body.
    is_body_awaited: AtomicBool,
    /// The answer was made without the rest of the request's body.
    is_body_left: AtomicBool,
    /// Requests whose answers are not completely passed to the kernel.
    begun: AtomicUsize,
    /// Requests of `begun` whose answers only wait for the kernel.
    made: AtomicUsize,
    /// Time for the client to take part of an answer.
    timeout: Duration,
    /// Microseconds for which the client may still delay the answer.
    patience: AtomicU64,
    sent: Mutex<Sent>,
    /// Sum of `begun` over all connections.
    unfinished: Arc<AtomicUsize>,
}

/// The answer that is sent, as the log names it.
#[derive(Debug, Default)]
struct Sent {
    route: Option<Route>,
    /// Copied: the header may borrow from the connection's read buffer.
    id: Option<Box<str>>,
    holding: Option<Holding>,
}

/// A request's body, which records whether its reader waits for more.
struct RequestBody<B> {
    body: B,
    is_over: bool,
    exchange: Arc<Exchange>,
}

/// An answer's body, empty until there is an answer. Dropping it counts the answer as made.
struct Making {
    body: Body,
    exchange: Arc<Exchange>,
}

impl Exchange {
    pub(super) fn new(unfinished: Arc<AtomicUsize>, timeout: Duration) -> Arc<Self> {
        Self::with_patience(microseconds(timeout), unfinished, timeout)
    }

    /// The state of a connection whose streams each have their own state: only the time between two bytes is limited.
    pub(super) fn of_streams(timeout: Duration) -> Arc<Self> {
        Self::with_patience(u64::MAX, Arc::default(), timeout)
    }

    fn with_patience(patience: u64, unfinished: Arc<AtomicUsize>, timeout: Duration) -> Arc<Self> {
        let [begun, made] = [0, 0].map(AtomicUsize::new);
        let [is_body_awaited, is_body_left] = [(); 2].map(|()| AtomicBool::new(false));
        let (patience, sent) = (AtomicU64::new(patience), Mutex::default());
        Arc::new(Self { is_body_awaited, is_body_left, begun, made, timeout, patience, sent, unfinished })
    }

    /// Records the bytes that the current answer holds until it is read: the more, the faster its client must read.
    pub(super) fn answer_holds(&self, bytes: usize) {
        let reading = (bytes as u64).saturating_mul(1_000_000) / HELD_BYTES_PER_SECOND;
        self.patience.store(microseconds(self.timeout).saturating_add(reading), Ordering::Relaxed);
    }

    /// This answer is sent from now on.
    pub(super) fn send(&self, response: &mut Response) {
        let extensions = response.extensions_mut();
        let (route, holding) = (extensions.remove::<Route>(), extensions.remove::<Holding>());
        self.answer_holds(holding.as_ref().map_or(0, Holding::bytes));
        let id = response.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok()).map(Box::from);
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = Sent { route, id, holding };
    }

    /// Counts and logs that the client is let go, with the bytes that it has not read.
    pub(super) fn let_go(&self, unread_bytes: usize) {
        counter!(SLOW_READERS).increment(1);
        let Sent { route, id, holding } = &*self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        tracing::info!(
            target: "connection",
            route = route.as_ref().map_or(UNMATCHED, |route| route.0.as_str()),
            id,
            unread_bytes,
            held_bytes = holding.as_ref().map_or(0, Holding::bytes),
            "let go a client that did not read its answer in time (--client-timeout {} s, and 1 s for each 256 KiB that \
             the answer holds)",
            self.timeout.as_secs_f32(),
        );
    }

    /// Time for the client to take more bytes, before it counts as stalled or has delayed the answer for too long in total.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_micros(self.patience.load(Ordering::Relaxed)).min(self.timeout)
    }

    /// Records that the client has delayed the answer.
    pub(super) fn has_waited(&self, time: Duration) {
        let left = self.patience.load(Ordering::Relaxed).saturating_sub(microseconds(time));
        self.patience.store(left, Ordering::Relaxed);
    }

    /// The kernel has all bytes of the answers made so far.
    pub(super) fn flushed(&self) {
        let made = self.made.swap(0, Ordering::Relaxed);
        self.begun.fetch_sub(made, Ordering::Relaxed);
        self.unfinished.fetch_sub(made, Ordering::Relaxed);
    }

    /// A request is being answered, and does not wait for more of its body.
    pub(super) fn is_answer_due(&self) -> bool {
        self.begun.load(Ordering::Relaxed) > 0 && !self.is_body_awaited.load(Ordering::Relaxed)
    }

    /// Bytes of a request may come that nobody needs: the rest of a body, or of a head that was refused.
    pub(super) fn has_left_bytes(&self) -> bool {
        self.is_body_left.load(Ordering::Relaxed)
    }

    /// Records an answer that is sent without a whole head.
    pub(super) fn refuse_head(&self) {
        if self.begun.load(Ordering::Relaxed) == 0 {
            self.is_body_left.store(true, Ordering::Relaxed);
        }
    }

    /// Answers a request, which goes on to the routes before anything waits.
    pub(super) fn answer<B>(
        self: Arc<Self>,
        routes: Router,
        request: hyper::Request<B>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let mut making = Making::new(&self);
        self.is_body_left.store(!request.body().is_end_stream(), Ordering::Relaxed);
        let response = match protocol::refuse(&request) {
            Some(refusal) => Either::Left(ready(Ok(refusal))),
            None => Either::Right(routes.oneshot(self.received(request))),
        };
        async move {
            let mut response = response.await?;
            making.exchange.send(&mut response);
            Ok(response.map(|body| {
                making.body = body;
                Body::new(making)
            }))
        }
    }

    fn received<B>(self: Arc<Self>, request: hyper::Request<B>) -> Request
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let (mut head, body) = request.into_parts();
        if !body.is_end_stream() {
            release_buffer(&mut head);
        }
        Request::from_parts(head, Body::new(RequestBody::new(body, self)))
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Copies the parts of a head that borrow from the connection's read buffer, so that the body is read into the same
/// buffer instead of a second one. This halves the memory of a connection that sends its body slowly.
fn release_buffer(head: &mut Parts) {
    for value in head.headers.values_mut() {
        if let Ok(copy) = HeaderValue::from_bytes(value.as_bytes()) {
            *value = copy;
        }
    }
    if let Ok(copy) = head.uri.to_string().parse() {
        head.uri = copy;
    }
}

impl<B: HttpBody> RequestBody<B> {
    fn new(body: B, exchange: Arc<Exchange>) -> Self {
        exchange.is_body_awaited.store(false, Ordering::Relaxed);
        let is_over = body.is_end_stream();
        Self { body, is_over, exchange }
    }
}

impl<B> Drop for RequestBody<B> {
    fn drop(&mut self) {
        self.exchange.is_body_left.store(!self.is_over, Ordering::Relaxed);
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.exchange.is_body_awaited.store(frame.is_pending(), Ordering::Relaxed);
        self.is_over = matches!(frame, Poll::Ready(None)) || self.body.is_end_stream();
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.unfinished.fetch_sub(*self.begun.get_mut(), Ordering::Relaxed);
    }
}

impl Making {
    fn new(exchange: &Arc<Exchange>) -> Self {
        exchange.begun.fetch_add(1, Ordering::Relaxed);
        exchange.unfinished.fetch_add(1, Ordering::Relaxed);
        Self { body: Body::empty(), exchange: Arc::clone(exchange) }
    }
}

impl HttpBody for Making {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.exchange.made.fetch_add(1, Ordering::Relaxed);
    }
}
