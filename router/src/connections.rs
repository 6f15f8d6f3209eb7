//! Connections: as many as there may be at once, each with limits on what its client may send before anybody reads it
//! and on how long it may take for it.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;

/// Bytes in a request's head, the URL included; hyper answers what is longer, by as much as came with one read, with status 431.
const MAX_HEAD: usize = 1 << 16;

/// Bytes of an answer that the system takes before the client can: a client makes progress when it takes half of them, not
/// a part of the megabytes that the system's own buffer may grow to.
const UNSENT: u32 = 1 << 17;

/// How long to wait when the system has no connection to give, most often for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// What connections may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Open at once; others wait in the system's queue.
    pub(crate) connections: usize,
    /// A client has so long to send a request's head, and to take a part of an answer.
    pub(crate) client_timeout: Duration,
}

/// Serves every connection until `stop`, then until those that are open have been answered.
pub(crate) async fn serve(listener: TcpListener, routes: Router, limits: ConnectionLimits, stop: impl Future) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.client_timeout).max_buf_size(MAX_HEAD);
    let open = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        let (place, stream) = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            _ = &mut stop => break,
        };
        let service = TowerToHyperService::new(routes.clone());
        let connection = http.serve_connection(TokioIo::new(timed(stream, limits.client_timeout)), service);
        let connection = open.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(target: "connection", "a connection ended early: {error}");
            }
            drop(place);
        });
    }
    drop(listener);
    open.shutdown().await;
}

/// The next connection, when there is a place for it.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (Option<OwnedSemaphorePermit>, TcpStream) {
    // The semaphore is never closed.
    let place = Arc::clone(places).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (place, stream),
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                tracing::error!("no connection can be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The client left before it was accepted.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}

/// A stream that fails when nothing of what is written is taken for `timeout`. Reads have no such limit: a client that
/// waits for its answer sends nothing.
fn timed(stream: TcpStream, timeout: Duration) -> std::pin::Pin<Box<TimeoutStream<TcpStream>>> {
    // Small answers must not wait for an acknowledgement; where it cannot be set, they do. Nor can the other be set everywhere.
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(timeout));
    Box::pin(stream)
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
