//! Commands that reach the server.

use std::path::Path;

/// The beginning of a command that sends a request to a Unix socket.
pub(crate) fn curl_by(socket: &Path) -> String {
    let path = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned()).display().to_string();
    let is_plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let path = if is_plain { path } else { format!("'{}'", path.replace('\'', r"'\''")) };
    format!("curl --unix-socket {path}")
}
