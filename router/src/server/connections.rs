//! Connections: a limited number at once, each with limits on the size of a request's head and on how long its client
//! may take. A stream of HTTP/2 has the limits of a connection.

mod exchange;
mod http2;
mod shared;
mod stream;

use self::exchange::Exchange;
pub(crate) use self::shared::ConnectionLimits;
use self::shared::{MAX_HEAD, Shared};
use self::stream::ClientStream;
use super::byte_stream::ByteStream;
use super::listening::Listener;
use super::tls::Tls;
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

/// Limit of `--max-connections`: Linux lets no process open more files. Far below the most that a semaphore counts.
pub(crate) const MAX_CONNECTIONS: usize = i32::MAX as usize;

/// Pause after a failed accept, most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Time at shutdown for heads that have begun to arrive.
pub(super) const LAST_HEADS: Duration = Duration::from_millis(500);

/// Serves connections until `stop`, then finishes the open ones. Each request is answered by the `routes` of the
/// moment. `unfinished` counts the requests whose answers are not completely written.
pub(crate) async fn serve(
    listener: Listener,
    routes: impl Fn() -> Router + Clone + Send + 'static,
    limits: ConnectionLimits,
    unfinished: Arc<AtomicUsize>,
    stop: impl Future,
) {
    let permits = Arc::new(Semaphore::new(limits.connections));
    let shared = Shared { routes, limits, permits, unfinished };
    let (stop_open, _) = watch::channel(());
    let mut stop = pin!(stop);
    loop {
        let (permit, stream) = tokio::select! {
            accepted = accept(&listener, &shared.permits) => accepted,
            _ = &mut stop => break,
        };
        let served = serve_connection(stream, listener.tls(), shared.clone(), stop_open.subscribe());
        tokio::spawn(async move {
            if let Err(error) = served.await {
                tracing::debug!(target: "connection", "a connection ended early: {error}");
            }
            drop(permit);
        });
    }
    drop(listener);
    stop_open.send_replace(());
    tokio::select! {
        () = stop_open.closed() => {}
        // The remaining connections have not sent a whole head: no request was accepted from them.
        () = all_answered(&shared.unfinished) => {}
    }
}

/// Serves a connection in the protocol that it begins with, until it ends or, after `stop`, its requests are answered.
async fn serve_connection(
    stream: Box<dyn ByteStream>,
    tls: Option<Tls>,
    shared: Shared<impl Fn() -> Router + Clone + Send + 'static>,
    mut stop: watch::Receiver<()>,
) -> io::Result<()> {
    let client_timeout = shared.limits.client_timeout;
    let mut stream = match tls {
        Some(tls) => tls.accept(stream, client_timeout).await?,
        None => stream,
    };
    let begun = timeout(client_timeout, http2::read_preface(&mut stream, stop.clone())).await;
    let begun = begun.map_err(|_| ErrorKind::TimedOut)??;
    if begun == http2::PREFACE {
        // Boxed, because the larger state would count for all connections.
        return Box::pin(http2::serve(stream, begun, shared, stop)).await;
    }
    let Shared { routes, unfinished, .. } = shared;
    let exchange = Exchange::new(unfinished, client_timeout);
    let stream = ClientStream::new(stream, begun, Arc::clone(&exchange));
    let service = service_fn(move |request| Arc::clone(&exchange).answer(routes(), request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(client_timeout).max_buf_size(MAX_HEAD);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // The bytes that have come count as a begun request.
        biased;
        ended = connection.as_mut() => return ended.map_err(io::Error::other),
        _ = stop.changed() => connection.as_mut().graceful_shutdown(),
    }
    connection.await.map_err(io::Error::other)
}

/// Resolves when no request has been in progress for a while.
async fn all_answered(unfinished: &AtomicUsize) {
    let mut since = Instant::now();
    while since.elapsed() < LAST_HEADS {
        tokio::time::sleep(LAST_HEADS / 10).await;
        if unfinished.load(Ordering::Relaxed) > 0 {
            since = Instant::now();
        }
    }
}

/// The next connection, once fewer than the limit are open.
async fn accept(listener: &Listener, permits: &Arc<Semaphore>) -> (Option<OwnedSemaphorePermit>, Box<dyn ByteStream>) {
    // The semaphore is never closed.
    let permit = Arc::clone(permits).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok(stream) => return (permit, stream),
            Err(error) if client_left(&error) => {}
            Err(error) => {
                tracing::error!("cannot accept connections: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn client_left(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests;
