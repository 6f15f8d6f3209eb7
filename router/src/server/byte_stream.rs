//! Bytes of a client, over a socket or inside TLS.

use std::os::fd::AsFd;
use tokio::io::{AsyncRead, AsyncWrite};

/// A client's bytes both ways, and the socket that they go through.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + AsFd + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + AsFd + Send + Unpin> ByteStream for T {}
