//! The listening socket, and enough file descriptors for its connections.

use std::io::ErrorKind;
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
    TcpListener::bind((hostname, port)).await.map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::AddrInUse => ": another process listens there; choose another port with --port",
            ErrorKind::PermissionDenied => ": ports below 1024 need privileges; choose another with --port",
            ErrorKind::AddrNotAvailable => ": it is not an address of this machine; see --hostname",
            _ => return anyhow::Error::from(error).context(format!("cannot listen on {hostname}:{port}")),
        };
        anyhow::anyhow!("cannot listen on {hostname}:{port}{advice}")
    })
}
