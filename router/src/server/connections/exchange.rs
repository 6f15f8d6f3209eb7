//! Requests and answers of a connection, as far as their bytes have come.

use crate::server::protocol;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use axum::response::Response;
use futures::future::{Either, ready};
use hyper::body::{Frame, Incoming, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tower::ServiceExt;

/// State of a connection's requests. They are answered one after the other.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The handler waits for more of the request's body.
    is_body_awaited: AtomicBool,
    /// Requests whose answers are not with the kernel to their last byte.
    begun: AtomicUsize,
    /// Those of them whose answers wait for the kernel only.
    made: AtomicUsize,
    /// Sum of `begun` over all connections.
    unfinished: Arc<AtomicUsize>,
}

/// A request's body, which tells whether its reader waits for more.
struct RequestBody {
    body: Incoming,
    exchange: Arc<Exchange>,
}

/// An answer's body, empty before the answer is there. Dropped, the answer is made.
struct Making {
    body: Body,
    exchange: Arc<Exchange>,
}

impl Exchange {
    pub(super) fn new(unfinished: Arc<AtomicUsize>) -> Arc<Self> {
        let [begun, made] = [0, 0].map(AtomicUsize::new);
        Arc::new(Self { is_body_awaited: AtomicBool::new(false), begun, made, unfinished })
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

    /// Answers a request, which goes on to the routes before anything waits.
    pub(super) fn answer(
        self: Arc<Self>,
        routes: Router,
        request: hyper::Request<Incoming>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send {
        let mut making = Making::new(&self);
        let response = match protocol::refuse(&request) {
            Some(refusal) => Either::Left(ready(Ok(refusal))),
            None => Either::Right(routes.oneshot(self.received(request))),
        };
        async move {
            Ok(response.await?.map(|body| {
                making.body = body;
                Body::new(making)
            }))
        }
    }

    fn received(self: Arc<Self>, request: hyper::Request<Incoming>) -> Request {
        let (mut head, body) = request.into_parts();
        if !body.is_end_stream() {
            release_buffer(&mut head);
        }
        Request::from_parts(head, Body::new(RequestBody::new(body, self)))
    }
}

/// Copies what a head has borrowed from the connection's read buffer, so that the body is read into the same buffer instead
/// of a second one: half of what a connection takes that sends its body slowly.
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

impl RequestBody {
    fn new(body: Incoming, exchange: Arc<Exchange>) -> Self {
        exchange.is_body_awaited.store(false, Ordering::Relaxed);
        Self { body, exchange }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.exchange.is_body_awaited.store(frame.is_pending(), Ordering::Relaxed);
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
