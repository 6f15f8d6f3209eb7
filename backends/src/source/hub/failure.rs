//! Reasons for a failed request or download.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Setting of the timeout, for messages.
const SETTING: &str = "--download-timeout, HF_HUB_DOWNLOAD_TIMEOUT";

/// Reason for a failed request or download.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request or its response did not get through.
    Request {
        problem: String,
        /// There was no connection, or it timed out.
        is_unreachable: bool,
    },
    /// A response with a status other than success.
    Status {
        status: u16,
        /// Message of the response.
        message: String,
        /// The response is from the hub itself, not from a host that it redirected to.
        is_hub: bool,
        /// The hub says in its own headers that the repository or revision does not exist, or that access is denied.
        is_verdict: bool,
    },
    /// A response that cannot be used.
    Answer(String),
    /// The cache cannot be written to.
    Cache(io::Error),
    /// No progress for this time.
    Stalled(Duration),
    /// The download is below the minimum rate.
    Slow { bytes: u64, time: Duration },
    /// A small response was not complete after this time.
    Unfinished(Duration),
    /// More bytes arrived or were announced than this limit.
    TooLong(u64),
    /// The hub's storage for large files failed.
    Xet(String),
    /// Another process downloads the file and made no progress for this time.
    Locked {
        /// The lock file.
        lock: PathBuf,
        silence: Duration,
    },
}

impl Failure {
    /// An error of the HTTP client.
    pub(super) fn request(error: &reqwest::Error) -> Self {
        let is_unreachable = error.is_connect() || error.is_timeout();
        Self::Request { problem: chain(error), is_unreachable }
    }

    /// `true` if the hub cannot be reached, or has trouble of its own.
    pub(crate) fn is_unreachable(&self) -> bool {
        match self {
            Self::Request { is_unreachable, .. } => *is_unreachable,
            Self::Status { status, .. } => *status == 429 || *status >= 500,
            Self::Stalled(_) | Self::Slow { .. } | Self::Unfinished(_) => true,
            _ => false,
        }
    }

    /// `true` if the hub itself says that the repository or revision does not exist, or that access is denied.
    pub(crate) fn is_verdict(&self) -> bool {
        matches!(self, Self::Status { is_verdict: true, .. })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { problem, .. } => write!(f, "HTTP request error: {problem}"),
            Self::Status { status: 429, message, .. } => write!(f, "Rate limited (HTTP status 429){message}"),
            Self::Status { status, message, .. } => write!(f, "HTTP status {status}{message}"),
            Self::Answer(problem) => f.write_str(problem),
            Self::Cache(error) => error.fmt(f),
            Self::Stalled(silence) => write!(f, "no data was received for {} s ({SETTING})", silence.as_secs_f64()),
            Self::Slow { bytes, time } => {
                write!(f, "only {bytes} bytes were received in {} s ({SETTING})", time.as_secs_f64())
            }
            Self::Unfinished(time) => {
                write!(f, "the response was not complete after {} s ({SETTING})", time.as_secs_f64())
            }
            Self::TooLong(limit) => write!(f, "it exceeds the limit of {limit} bytes"),
            Self::Xet(problem) => write!(f, "Xet download failed: {problem}"),
            Self::Locked { lock, silence } => write!(
                f,
                "another process is downloading it and has made no progress for {} s ({SETTING}); it holds the lock {}",
                silence.as_secs_f64(),
                lock.display()
            ),
        }
    }
}

/// An error with its causes; the outermost message often names none.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = cause.source();
    }
    text
}
