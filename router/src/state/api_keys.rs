//! API keys from the command line and from a file that is reloaded while the server runs.

use super::reloading::{FileIdentity, LastProblem, invalid, read};
use super::secret::{self, Secret};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use subtle::{ConditionallySelectable, ConstantTimeEq};

/// The valid keys. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys {
    given: Vec<Key>,
    file: Option<Arc<KeyFile>>,
}

/// A valid key, and its owner.
#[derive(Debug, Clone)]
struct Key {
    secret: Secret,
    owner: KeyOwner,
}

/// Identity of a key in logs and quotas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyOwner {
    /// Never 0.
    pub(crate) number: u32,
    /// The name after the key in the file, or the number.
    pub(crate) name: Arc<str>,
}

#[derive(Debug)]
struct KeyFile {
    path: PathBuf,
    read: RwLock<ReadKeys>,
    /// Digest and identity when it was last looked at.
    seen: Mutex<Option<(u64, FileIdentity)>>,
    problem: LastProblem,
    hasher: RandomState,
}

/// Content of a file when it was last read.
#[derive(Debug, Clone)]
struct ReadKeys {
    keys: Arc<[Key]>,
    /// Hash of the text.
    digest: u64,
    identity: FileIdentity,
}

impl Keys {
    /// The given keys and those in the file, one per line; empty lines and lines that start with `#` are ignored. ` # NAME` after
    /// a key names it.
    ///
    /// # Errors
    /// The file cannot be read, or has no keys.
    pub(crate) fn new(given: Vec<Secret>, file: Option<PathBuf>) -> io::Result<Self> {
        let given = given.into_iter().map(|secret| Key::new(secret, None, &[])).collect();
        Ok(Self { given, file: file.map(|path| KeyFile::open(path).map(Arc::new)).transpose()? })
    }

    /// True if requests need a key.
    pub(crate) fn are_required(&self) -> bool {
        !self.given.is_empty() || self.file.is_some()
    }

    /// The owner of a valid key. Takes the same time for every key and position of a difference; only the keys' lengths can be
    /// measured.
    pub(crate) fn owner_of(&self, given: &[u8]) -> Option<KeyOwner> {
        let from_file = self.file.as_ref().map(|file| file.keys());
        let keys = || self.given.iter().chain(from_file.iter().flat_map(|keys| keys.iter()));
        let mut number = 0;
        for key in keys() {
            number.conditional_assign(&key.owner.number, given.ct_eq(key.secret.expose().as_bytes()));
        }
        keys().map(|key| &key.owner).find(|owner| owner.number == number).cloned()
    }

    /// Reads the file again.
    pub(crate) fn refresh(&self, was_asked: bool) {
        if let Some(file) = &self.file {
            file.refresh(was_asked);
        }
    }
}

impl Key {
    /// A key with its number among the known ones, or with a new number.
    fn new(secret: Secret, name: Option<&str>, known: &[Self]) -> Self {
        static NUMBERS: AtomicU32 = AtomicU32::new(1);
        let same = known.iter().find(|key| key.secret == secret).map(|key| key.owner.number);
        let number = same.unwrap_or_else(|| NUMBERS.fetch_add(1, Ordering::Relaxed));
        let name = name.map_or_else(|| number.to_string().into(), Into::into);
        Self { secret, owner: KeyOwner { number, name } }
    }
}

impl KeyFile {
    fn open(path: PathBuf) -> io::Result<Self> {
        let hasher = RandomState::new();
        let (text, identity) = read(&path)?;
        let keys = parse(&text, &[])?;
        let read = RwLock::new(ReadKeys { keys, digest: hasher.hash_one(text), identity });
        Ok(Self { path, read, seen: Mutex::default(), problem: LastProblem::of("api_keys"), hasher })
    }

    fn keys(&self) -> Arc<[Key]> {
        Arc::clone(&self.read.read().unwrap_or_else(PoisonError::into_inner).keys)
    }

    /// Keeps the previous keys if the file cannot be read: a file in the middle of a write must not lock everybody out.
    fn refresh(&self, was_asked: bool) {
        let path = self.path.display();
        let problem = match self.read_again(was_asked) {
            Ok(Some(keys)) => {
                tracing::info!(keys, "{path} (--api-key-file) was reloaded");
                None
            }
            Ok(None) => None,
            Err(problem) => Some(problem.to_string()),
        };
        self.problem.record(format_args!("{path} (--api-key-file)"), problem, was_asked, "the previous keys");
    }

    /// Takes over the file's keys and returns their number; `None` if the file is unchanged.
    fn read_again(&self, was_asked: bool) -> io::Result<Option<usize>> {
        let known = self.read.read().unwrap_or_else(PoisonError::into_inner).clone();
        let (text, identity) = read(&self.path)?;
        let digest = self.hasher.hash_one(&text);
        let is_settled = self.seen.lock().unwrap_or_else(PoisonError::into_inner).replace((digest, identity))
            == Some((digest, identity));
        if digest == known.digest && !was_asked {
            self.read.write().unwrap_or_else(PoisonError::into_inner).identity = identity;
            return Ok(None);
        }
        // A replaced file is complete once it no longer changes; a file that is overwritten in place may be incomplete.
        if !text.is_empty() && !text.ends_with('\n') && (identity == known.identity || !is_settled) {
            return Err(invalid("its last line has no line feed; it may be incomplete"));
        }
        let keys = parse(&text, &known.keys)?;
        let count = keys.len();
        *self.read.write().unwrap_or_else(PoisonError::into_inner) = ReadKeys { keys, digest, identity };
        Ok(Some(count))
    }
}

fn parse(text: &str, known: &[Key]) -> io::Result<Arc<[Key]>> {
    // Editors put a byte order mark before the first line.
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut keys = Vec::new();
    let mut seen = HashMap::new();
    for (at, line) in lines {
        let number = at + 1;
        let problem = || format!("line {number} is not a key that a request can send: it has control characters");
        let (secret, name) = key_and_name(line).ok_or_else(|| invalid(&problem()))?;
        match seen.insert(secret.expose().to_owned(), (number, name)) {
            None => keys.push(Key::new(secret, name, known)),
            Some((_, same)) if same == name => {}
            Some((first, _)) => {
                return Err(invalid(&format!("lines {first} and {number} are the same key under two names")));
            }
        }
    }
    if keys.is_empty() { Err(invalid("has no keys")) } else { Ok(keys.into()) }
}

/// The key of a line of the file, `KEY` or `KEY # NAME`, and its name.
fn key_and_name(line: &str) -> Option<(Secret, Option<&str>)> {
    let (key, name) = line.split_once(" #").map_or((line, None), |(key, name)| (key, Some(name.trim())));
    let secret = secret::api_key(key).ok().filter(Secret::is_one_line)?;
    Some((secret, name.filter(|name| !name.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn secrets(keys: &[&str]) -> Vec<Secret> {
        keys.iter().map(|key| key.parse().unwrap()).collect()
    }

    #[test]
    fn each_of_several_keys_is_good_and_no_part_of_one() {
        let keys = Keys::new(secrets(&["first", "second"]), None).unwrap();
        assert!(keys.are_required() && !Keys::default().are_required());
        for (given, good) in [("first", true), ("second", true), ("firs", false), ("firsts", false), ("", false)] {
            assert_eq!(keys.owner_of(given.as_bytes()).is_some(), good, "{given}");
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

        fs::write(&path, "\u{feff}old\n# ours\n other").unwrap();
        let keys = Keys::new(secrets(&["given"]), Some(path.clone())).unwrap();
        let number = |key: &str| keys.owner_of(key.as_bytes()).map(|owner| owner.number);
        let good = |key: &str| number(key).is_some();
        assert!(good("old") && good("other") && good("given") && !good("# ours") && !good("new"));
        let (old, other) = (number("old"), number("other"));
        assert!(old != other && old != number("given"));
        let file = keys.file.as_ref().unwrap();
        let modified = path.metadata().unwrap().modified().unwrap();
        let write = |text: &str| {
            fs::write(&path, text).unwrap();
            fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        };
        for broken in ["", "# none\n", "half a k", "old\nhalf a k", "new\nk\u{7}\n"] {
            write(broken);
            file.refresh(false);
            assert!(good("old") && good("other") && !good("half a k"), "{broken:?}");
        }
        for (broken, problem) in [
            ("", "has no keys"),
            ("# none\n", "has no keys"),
            ("half a k", "no line feed"),
            ("old\n\nk\u{7}\n", "line 3 is not a key"),
            ("other # a\nnew\nother # b\n", "lines 1 and 3 are the same key under two names"),
        ] {
            write(broken);
            let said = file.read_again(false).unwrap_err().to_string();
            assert!(said.contains(problem), "{broken:?}: {said}");
        }
        write("other\nnew\nother\n");
        file.refresh(false);
        assert!(good("new") && good("given") && !good("old"));
        assert_eq!(number("other"), other, "a key that stays has its number");
        write("other # team of search\nnew\t #\n");
        file.refresh(false);
        let name = |key: &str| keys.owner_of(key.as_bytes()).map(|owner| owner.name.to_string());
        assert_eq!((number("other"), name("other").as_deref()), (other, Some("team of search")));
        assert_eq!(name("new"), number("new").map(|number| number.to_string()), "without a name");
        write("half");
        file.refresh(true);
        assert!(good("new") && !good("half"));
        let replace = |text: &str| {
            let replacement = directory.path().join("replacement");
            fs::write(&replacement, text).unwrap();
            fs::rename(replacement, &path).unwrap();
        };
        replace("whole");
        file.refresh(false);
        assert!(!good("whole"), "it may still be written");
        file.refresh(false);
        assert!(good("whole") && !good("new"));
        // Replaced by the same and then written over: no key is half there.
        replace("whole");
        file.refresh(false);
        fs::write(&path, "whole\nhal").unwrap();
        (0..2).for_each(|_| file.refresh(false));
        assert!(good("whole") && !good("hal"));
    }
}
