//! The listening socket, and enough file descriptors for its connections.

use anyhow::Context;
use tokio::net::TcpListener;

/// Raises the process's limit of open files as far as the system grants; each connection takes one, and the default is
/// often low.
pub(crate) fn allow_files(connections: usize) {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) if limit > connections as u64 => {}
        Ok(limit) => tracing::warn!(limit, connections, "the system grants fewer files than connections are allowed"),
        Err(error) => tracing::warn!("the limit of open files stays as it is: {error}"),
    }
}

pub(crate) async fn listen(hostname: &str, port: u16) -> anyhow::Result<TcpListener> {
    TcpListener::bind((hostname, port)).await.with_context(|| format!("cannot listen on {hostname}:{port}"))
}
