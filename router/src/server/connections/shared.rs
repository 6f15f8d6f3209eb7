//! State and limits that all connections share.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Maximum bytes of a request's head, URL included. hyper and h2 answer longer heads (by up to one read) with status 431.
/// Incomplete heads count towards no quota, because strangers could exhaust it: a connection holds at most this.
pub(super) const MAX_HEAD: usize = 1 << 14;

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Open connections, with the streams of HTTP/2 beyond the first of each; further ones wait in the kernel's backlog.
    pub(crate) connections: usize,
    /// Time for a client to send a request's head, and to take part of a response.
    pub(crate) client_timeout: Duration,
}

/// State that all connections share.
#[derive(Clone)]
pub(super) struct Shared<R> {
    /// The routes of the moment.
    pub(super) routes: R,
    pub(super) limits: ConnectionLimits,
    /// Permits for open connections, and for streams of HTTP/2 beyond the first of a connection.
    pub(super) permits: Arc<Semaphore>,
    /// Requests whose answers are not completely written.
    pub(super) unfinished: Arc<AtomicUsize>,
}
