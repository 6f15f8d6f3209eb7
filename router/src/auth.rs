//! The API keys: from the command line, and from a file that may change while the server runs.

use crate::app::App;
use crate::error::ApiError;
use crate::secret::{self, Secret};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use subtle::{Choice, ConstantTimeEq};
use tokio::signal::unix::Signal;

/// How often the file is looked at.
const PERIOD: Duration = Duration::from_secs(2);

/// A file of keys is not larger than this: what is, is another file.
const MAX_FILE: u64 = 1 << 20;

/// The keys that are good. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys {
    given: Vec<Secret>,
    file: Option<Arc<KeyFile>>,
}

#[derive(Debug)]
struct KeyFile {
    path: PathBuf,
    read: RwLock<ReadKeys>,
}

/// What a file said when it was last read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReadKeys {
    keys: Arc<[Secret]>,
    modified: SystemTime,
}

impl Keys {
    /// The keys that were given and those in the file, one in a line; empty lines and what begins with `#` do not count.
    ///
    /// # Errors
    /// The file cannot be read, or has no keys.
    pub(crate) fn new(given: Vec<Secret>, file: Option<PathBuf>) -> io::Result<Self> {
        let open = |path: PathBuf| Ok::<_, io::Error>(Arc::new(KeyFile { read: RwLock::new(read(&path)?), path }));
        Ok(Self { given, file: file.map(open).transpose()? })
    }

    /// Whether a key must be sent.
    pub(crate) fn are_needed(&self) -> bool {
        !self.given.is_empty() || self.file.is_some()
    }

    /// Whether this is one of them. Takes the same time whichever it is and wherever it differs; only the keys'
    /// lengths can be measured.
    fn have(&self, given: &[u8]) -> bool {
        let from_file = self.file.as_ref().map(|file| file.keys());
        let keys = self.given.iter().chain(from_file.iter().flat_map(|keys| keys.iter()));
        keys.fold(Choice::from(0), |found, key| found | given.ct_eq(key.expose().as_bytes())).into()
    }

    /// Reads the file again whenever it has changed, and whenever `hangup` comes. Never ends.
    pub(crate) async fn keep_up(self, mut hangup: Signal) {
        loop {
            let was_asked = tokio::select! {
                () = tokio::time::sleep(PERIOD) => false,
                _ = hangup.recv() => true,
            };
            if let Some(file) = &self.file {
                file.refresh(was_asked);
            }
        }
    }
}

impl KeyFile {
    fn keys(&self) -> Arc<[Secret]> {
        Arc::clone(&self.read.read().unwrap_or_else(PoisonError::into_inner).keys)
    }

    /// Keys that cannot be read anew stay good: a file that is being written must not lock everybody out.
    fn refresh(&self, always: bool) {
        let known = self.read.read().unwrap_or_else(PoisonError::into_inner).modified;
        if !always && modified(&self.path).is_ok_and(|modified| modified == known) {
            return;
        }
        let path = self.path.display();
        match read(&self.path) {
            Ok(read) => {
                tracing::info!(keys = read.keys.len(), "{path} (--api-key-file) was read again");
                *self.read.write().unwrap_or_else(PoisonError::into_inner) = read;
            }
            Err(error) => tracing::error!("{path} (--api-key-file): {error}; the keys it had before stay good"),
        }
    }
}

fn modified(path: &Path) -> io::Result<SystemTime> {
    path.metadata()?.modified()
}

fn read(path: &Path) -> io::Result<ReadKeys> {
    // Before the text: what changes in between is seen as a change the next time.
    let metadata = path.metadata()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("is not a file of at most {MAX_FILE} bytes")));
    }
    let text = std::fs::read_to_string(path)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Arc<[Secret]> = lines.filter_map(|line| secret::api_key(line).ok()).collect();
    match keys.is_empty() {
        true => Err(io::Error::new(ErrorKind::InvalidData, "has no keys")),
        false => Ok(ReadKeys { keys, modified: metadata.modified()? }),
    }
}

/// Lets a request through when it brings a key, or when none is asked for.
pub(crate) async fn require_key(State(app): State<App>, request: Request, next: Next) -> Result<Response, ApiError> {
    let keys = &app.http.api_keys;
    if keys.are_needed() {
        let given = request.headers().get(header::AUTHORIZATION).and_then(bearer).unwrap_or_default();
        if !keys.have(given) {
            return Err(ApiError::Unauthorized);
        }
    }
    Ok(next.run(request).await)
}

/// What follows the scheme `Bearer`, whose case does not matter.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, credentials) = value.as_bytes().split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| credentials.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn secrets(keys: &[&str]) -> Vec<Secret> {
        keys.iter().map(|key| key.parse().unwrap()).collect()
    }

    #[test]
    fn the_scheme_is_bearer() {
        for (value, expected) in [
            ("Bearer key", Some(&b"key"[..])),
            ("bearer  key ", Some(b"key")),
            ("Bearer ", Some(b"")),
            ("Bearer", None),
            ("Basic key", None),
            ("key", None),
            ("", None),
        ] {
            assert_eq!(bearer(&HeaderValue::from_static(value)), expected, "{value}");
        }
    }

    #[test]
    fn each_of_several_keys_is_good_and_no_part_of_one() {
        let keys = Keys::new(secrets(&["first", "second"]), None).unwrap();
        assert!(keys.are_needed() && !Keys::default().are_needed());
        for (given, good) in [("first", true), ("second", true), ("firs", false), ("firsts", false), ("", false)] {
            assert_eq!(keys.have(given.as_bytes()), good, "{given}");
        }
    }

    #[test]
    fn a_file_is_read_again_and_a_broken_one_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        assert!(Keys::new(Vec::new(), Some(path.clone())).is_err());
        fs::write(&path, "# nobody\n\n").unwrap();
        assert!(Keys::new(Vec::new(), Some(path.clone())).unwrap_err().to_string().contains("has no keys"));
        assert!(Keys::new(Vec::new(), Some(directory.path().to_owned())).is_err());

        fs::write(&path, "# ours\n old \nother\n").unwrap();
        let keys = Keys::new(secrets(&["given"]), Some(path.clone())).unwrap();
        let good = |key: &str| keys.have(key.as_bytes());
        assert!(good("old") && good("other") && good("given") && !good("# ours") && !good("new"));
        let file = keys.file.as_ref().unwrap();
        for broken in ["", "# none\n"] {
            fs::write(&path, broken).unwrap();
            file.refresh(true);
            assert!(good("old"), "{broken:?}");
        }
        fs::write(&path, "new").unwrap();
        file.refresh(true);
        assert!(good("new") && good("given") && !good("old") && !good("other"));
    }
}
