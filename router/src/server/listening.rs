//! Listening sockets, and enough file descriptors for their connections.

use super::byte_stream::ByteStream;
use super::tls::Tls;
use crate::state::curl::curl_by;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener};

/// Unsent bytes of a response that the kernel may hold. A client makes progress when it takes half of them, rather than
/// part of the megabytes that the kernel's buffer may grow to.
const UNSENT: u32 = 1 << 17;

/// Address that the server listens on.
#[derive(Debug, Clone)]
pub(crate) enum Address {
    Tcp {
        hostname: String,
        port: u16,
        /// Flag that sets the port.
        flag: &'static str,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// A listening socket, and TLS of its connections.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    tls: Option<Tls>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixSocket),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self { socket: Socket::Tcp(listener), tls: None }
    }
}

/// A listening Unix socket, whose file is removed at the end.
#[derive(Debug)]
struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file: a process that took over the path has another.
    identity: Option<(u64, u64)>,
}

/// Raises the process's limit of open files as far as the system allows; each connection takes one, and the default is
/// often low.
pub(crate) fn allow_files(connections: usize) {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) if limit > connections as u64 => {}
        Ok(limit) => tracing::warn!(limit, connections, "the limit of open files is lower than --max-connections"),
        Err(error) => tracing::warn!("cannot raise the limit of open files: {error}"),
    }
}

/// Listens at an address.
///
/// # Errors
/// The address is in use, not allowed or not an address of this machine; the message says what to change.
pub(crate) async fn listen(address: &Address, tls: Option<Tls>) -> anyhow::Result<Listener> {
    let socket = match address {
        Address::Tcp { hostname, port, flag } => Socket::Tcp(listen_on_port(hostname, *port, flag).await?),
        Address::Unix(path) => match UnixSocket::bind(path) {
            Ok(socket) => Socket::Unix(socket),
            Err(error) => anyhow::bail!("cannot listen on {} (--uds-path): {error}", path.display()),
        },
    };
    Ok(Listener { socket, tls })
}

async fn listen_on_port(hostname: &str, port: u16, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind((hostname, port)).await.map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::AddrInUse => format!(": another process listens there; choose another port with --{flag}"),
            ErrorKind::PermissionDenied => format!(": ports below 1024 need privileges; choose another with --{flag}"),
            ErrorKind::AddrNotAvailable => ": it is not an address of this machine; see --hostname".to_owned(),
            _ => return anyhow::Error::from(error).context(format!("cannot listen on {hostname}:{port}")),
        };
        anyhow::anyhow!("cannot listen on {hostname}:{port}{advice}")
    })
}

impl Listener {
    /// The next connection.
    ///
    /// # Errors
    /// The system has no room for it, or its client has left.
    pub(super) async fn accept(&self) -> io::Result<Box<dyn ByteStream>> {
        Ok(match &self.socket {
            Socket::Tcp(listener) => Box::new(prepared(listener.accept().await?.0)),
            Socket::Unix(socket) => Box::new(socket.listener.accept().await?.0),
        })
    }

    /// TLS of the connections.
    pub(super) fn tls(&self) -> Option<Tls> {
        self.tls.clone()
    }

    /// The address as logs show it.
    pub(crate) fn address(&self) -> String {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().map_or_else(|_| "unknown".to_owned(), |it| it.to_string()),
            Socket::Unix(socket) => socket.path.display().to_string(),
        }
    }

    /// The page to open in a browser on this machine; with a Unix socket, the command that reads it.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let address = match &self.socket {
            Socket::Tcp(listener) => listener.local_addr(),
            Socket::Unix(socket) => return format!("{} {scheme}://localhost/docs", curl_by(&socket.path)),
        };
        address.map_or_else(
            |_| "unknown".to_owned(),
            |mut address| {
                if address.ip().is_unspecified() {
                    address.set_ip(Ipv4Addr::LOCALHOST.into());
                }
                format!("{scheme}://{address}/docs")
            },
        )
    }

    /// The port on which all networks of the machine reach the server.
    pub(crate) fn public_port(&self) -> Option<u16> {
        match &self.socket {
            Socket::Tcp(listener) => {
                listener.local_addr().ok().filter(|it| it.ip().is_unspecified()).map(|it| it.port())
            }
            Socket::Unix(_) => None,
        }
    }
}

impl UnixSocket {
    /// Listens at `path`, where an ended process may have left its file.
    fn bind(path: &Path) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                if !path.symlink_metadata()?.file_type().is_socket() {
                    return Err(io::Error::new(ErrorKind::AlreadyExists, "a file that is not a socket is there"));
                }
                match std::os::unix::net::UnixStream::connect(path) {
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)?,
                    _ => return Err(io::Error::new(ErrorKind::AddrInUse, "another process listens there")),
                }
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        Ok(Self { listener, identity: identity(path), path: path.to_owned() })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// A stream with its options, which are best effort: without the first, small responses wait for an acknowledgement.
fn prepared(stream: TcpStream) -> TcpStream {
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
    stream
}
