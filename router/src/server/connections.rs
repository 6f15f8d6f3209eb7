//! Connections: a limited number at once, each with limits on the size of a request's head and on how long its client
//! may take.

mod exchange;
mod stream;

use self::exchange::Exchange;
use self::stream::ClientStream;
use super::byte_stream::ByteStream;
use super::listening::Listener;
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum bytes of a request's head, URL included. hyper answers longer heads (by up to one read) with status 431.
/// Incomplete heads count towards no quota, because strangers could exhaust it: a connection holds at most this.
const MAX_HEAD: usize = 1 << 14;

/// Limit of `--max-connections`: Linux lets no process open more files. Far below the most that a semaphore counts.
pub(crate) const MAX_CONNECTIONS: usize = i32::MAX as usize;

/// Pause after a failed accept, most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Time at shutdown for heads that have begun to arrive.
pub(super) const LAST_HEADS: Duration = Duration::from_millis(500);

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Open connections; further ones wait in the kernel's backlog.
    pub(crate) connections: usize,
    /// Time for a client to send a request's head, and to take part of a response.
    pub(crate) client_timeout: Duration,
}

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
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.client_timeout).max_buf_size(MAX_HEAD);
    let open = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        let (permit, stream) = tokio::select! {
            accepted = accept(&listener, &permits) => accepted,
            _ = &mut stop => break,
        };
        let exchange = Exchange::new(Arc::clone(&unfinished), limits.client_timeout);
        let (tls, http, watcher, routes) = (listener.tls(), http.clone(), open.watcher(), routes.clone());
        tokio::spawn(async move {
            let ended = async {
                let stream = match tls {
                    Some(tls) => tls.accept(stream, limits.client_timeout).await?,
                    None => stream,
                };
                let stream = ClientStream::new(stream, Arc::clone(&exchange));
                let service = service_fn(move |request| Arc::clone(&exchange).answer(routes(), request));
                watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await.map_err(io::Error::other)
            };
            if let Err(error) = ended.await {
                tracing::debug!(target: "connection", "a connection ended early: {error}");
            }
            drop(permit);
        });
    }
    drop(listener);
    tokio::select! {
        () = open.shutdown() => {}
        // The remaining connections have not sent a whole head: no request was accepted from them.
        () = all_answered(&unfinished) => {}
    }
}

/// Resolves when no request is being answered, and none has begun to be for a while.
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
