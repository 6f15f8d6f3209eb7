//! Facts from the hub about a repository and its files, checked before they become parts of paths and requests.

use super::failure::Failure;
use crate::formats::lora;
use crate::source::licence::Licence;
use crate::source::names::check_inside;
use reqwest::header::{CONTENT_LENGTH, ETAG, HeaderMap};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// Maximum bytes of a list of files. Large repositories have some hundred kilobytes, with benchmark results some megabytes.
pub(super) const MAX_LISTING_BYTES: u64 = 16 << 20;
/// Maximum files of a repository; large ones have some hundred.
const MAX_NAMES: usize = 20_000;
/// Maximum adapters of tasks; jina-embeddings-v5 has four.
const MAX_TASKS: usize = 64;
/// Maximum bytes of a file's name in the cache; the hub's own names are hashes of 40 or 64. A name on disk may have 255.
const MAX_ETAG_BYTES: usize = 200;

/// Commit and files of a repository.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) commit: String,
    pub(super) files: BTreeSet<String>,
    /// The licence in the model card.
    pub(super) licence: Licence,
    /// The list is the cached commit's; files outside it are not requested.
    pub(super) is_cached: bool,
}

/// The hub's response.
#[derive(Deserialize)]
struct Info {
    sha: Option<String>,
    siblings: Option<Vec<Sibling>>,
    #[serde(default, rename = "cardData")]
    card: Option<Card>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

#[derive(Deserialize)]
struct Card {
    #[serde(default)]
    license: Text,
    #[serde(default)]
    license_name: Text,
}

impl Listing {
    /// # Errors
    /// It is malformed, too long, or names no commit.
    pub(super) fn parse(answer: &[u8]) -> Result<Self, Failure> {
        let problem = |problem: String| Failure::Answer(problem);
        let info: Info = serde_json::from_slice(answer)
            .map_err(|error| problem(format!("the response is not a list of files: {error}")))?;
        let names = info.siblings.unwrap_or_default();
        if names.len() > MAX_NAMES {
            return Err(problem(format!("it names {} files, more than the limit of {MAX_NAMES}", names.len())));
        }
        // A file whose name leads elsewhere does not belong to the model.
        let is_inside = |name: &String| check_inside(name).is_ok() && !name.contains(char::is_control);
        let files = names.into_iter().map(|file| file.rfilename).filter(is_inside).collect();
        let licence = info.card.map_or(Licence::Unread, |card| match (card.license.0, card.license_name.0) {
            (Some(licence), Some(name)) if licence == "other" => Licence::Named(name),
            (licence, _) => licence.map_or(Licence::NotNamed, Licence::Named),
        });
        match info.sha {
            // Checked because it becomes part of paths.
            Some(commit) if is_commit(&commit) => Ok(Self { commit, files, licence, is_cached: false }),
            Some(other) => {
                Err(problem(format!("the response names the commit {other:.60?}, which is not a commit hash")))
            }
            None => Err(problem("the response does not name the commit".to_owned())),
        }
    }

    /// The files of a cached commit.
    ///
    /// # Errors
    /// Its folder cannot be read, or has too many files.
    pub(super) fn of_folder(commit: &str, folder: &Path) -> io::Result<Self> {
        let mut files = BTreeSet::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(inner) = folders.pop() {
            for entry in fs::read_dir(inner)? {
                let entry = entry?;
                let path = entry.path();
                if entry.file_type()?.is_dir() {
                    folders.push(path);
                } else if path.is_file()
                    && let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str)
                {
                    files.insert(name.to_owned());
                }
                if files.len() + folders.len() > MAX_NAMES {
                    return Err(io::Error::other(format!("more than {MAX_NAMES} files")));
                }
            }
        }
        Ok(Self { commit: commit.to_owned(), files, licence: Licence::Unread, is_cached: true })
    }

    /// Folders of the LoRA adapters of tasks, each with a slash at the end.
    pub(super) fn folders_of_tasks(&self) -> Vec<String> {
        let configs = self.files.iter().filter_map(|file| file.strip_suffix(lora::CONFIG));
        let is_of_task =
            |folder: &&str| folder.strip_prefix(lora::TASKS).is_some_and(|it| it.find('/') == Some(it.len() - 1));
        configs.filter(is_of_task).take(MAX_TASKS).map(str::to_owned).collect()
    }

    /// `true` if there is such a file in a folder, which ends with a slash or is empty for the top.
    pub(super) fn has(&self, folder: &str, file: &str) -> bool {
        self.files.contains(&format!("{folder}{file}"))
    }
}

/// `true` for a commit hash.
pub(super) fn is_commit(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Headers of the hub's responses to HEAD.
pub(super) struct Heads {
    /// Headers of the file; or scheme, host and port of the other server that has it.
    pub(super) file: Result<HeaderMap, String>,
    /// Headers of the redirects, the last first.
    pub(super) redirects: Vec<HeaderMap>,
}

/// Facts about a file, from the headers of the hub's responses.
#[derive(Debug, PartialEq)]
pub(super) struct FileFacts {
    /// Name of the content in the cache.
    pub(super) etag: String,
    /// Bytes, if they are stated.
    pub(super) size: Option<u64>,
    /// Hash in the hub's storage for large files, if it is there.
    pub(super) xet: Option<String>,
}

impl FileFacts {
    /// # Errors
    /// The headers lack the content's name, the name is a path, or the commit is another one.
    pub(super) fn read(heads: &Heads, commit: &str) -> Result<Self, Failure> {
        let problem = |problem: String| Err(Failure::Answer(problem));
        let own = |name: &str| heads.file.as_ref().ok().and_then(|headers| text(headers, name));
        // The length and ETag of a redirect describe the redirect, not the file; the `x-linked-` headers describe the file.
        let linked = |name: &str| own(name).or_else(|| heads.redirects.iter().find_map(|headers| text(headers, name)));
        let last =
            |name: &str| own(name).or_else(|| text(heads.redirects.first().filter(|_| heads.file.is_err())?, name));
        let etag = linked("x-linked-etag").or_else(|| last(ETAG.as_str()));
        let Some(etag) = etag.map(|etag| etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"')) else {
            return problem(match &heads.file {
                Ok(_) => "the response has no ETag header".to_owned(),
                Err(elsewhere) => format!(
                    "it redirects to {elsewhere} without an ETag header; if that is the hub, set --hf-endpoint to its URL"
                ),
            });
        };
        let etag = blob_name(etag);
        if etag.is_empty() || etag.len() > MAX_ETAG_BYTES {
            return problem(format!("the ETag header {etag:.60?} of the response cannot be used as a file name"));
        }
        match linked("x-repo-commit") {
            Some(other) if other == commit => {}
            Some(other) => {
                return problem(format!("the response is of the commit {other:.60?} instead of {commit}"));
            }
            None => {
                return problem(
                    "the response has no X-Repo-Commit header, so it is not from a Hugging Face hub or mirror"
                        .to_owned(),
                );
            }
        }
        let size = linked("x-linked-size").or_else(|| own(CONTENT_LENGTH.as_str()));
        let xet = linked("x-xet-hash");
        if let Some(hash) = xet.filter(|hash| hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            return problem(format!("the X-Xet-Hash header {hash:.80?} of the response is not a hash"));
        }
        Ok(Self { etag, size: size.and_then(|size| size.parse().ok()), xet: xet.map(str::to_owned) })
    }
}

/// Name in the cache of the content with this ETag: the ETag itself, as in Hugging Face's tools, unless it has characters that could
/// lead elsewhere, which some mirrors send.
fn blob_name(etag: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+=:".contains(&byte);
    if !etag.starts_with('.') && etag.bytes().all(is_plain) {
        return etag.to_owned();
    }
    let encoded = etag.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("_{byte:02x}"),
    });
    format!("etag-{}", encoded.collect::<String>())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A string; empty for a value of another type, which is skipped.
#[derive(Default)]
struct Text(Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(Some(text.to_owned())))
            }

            fn visit_unit<E>(self) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Text, A::Error> {
                while values.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Text(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut values: A) -> Result<Text, A::Error> {
                while values.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text(None))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use tempfile::TempDir;

    #[test]
    fn facts_of_a_file_are_of_the_commit_and_fit_into_names() {
        let (commit, hash) = ("0".repeat(40), "a".repeat(64));
        let with = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            for (name, value) in
                [("etag", "\"x\""), ("x-repo-commit", commit.as_str()), ("x-xet-hash", hash.as_str()), (name, value)]
            {
                headers.insert(name, value.parse().unwrap());
            }
            if value.is_empty() {
                headers.remove(name);
            }
            FileFacts::read(&Heads { file: Ok(headers), redirects: vec![] }, &commit)
                .map_err(|problem| problem.to_string())
        };
        let facts = FileFacts { etag: "x".to_owned(), size: Some(7), xet: Some(hash.clone()) };
        assert_eq!(with("content-length", "7").unwrap(), facts);
        assert_eq!(with("etag", &"a".repeat(200)).unwrap().etag.len(), 200);
        for (name, value, words) in [
            ("etag", "", "no ETag header"),
            ("etag", "\"\"", "cannot be used as a file name"),
            ("etag", "a".repeat(201).as_str(), "cannot be used as a file name"),
            ("x-repo-commit", "", "no X-Repo-Commit header"),
            ("x-repo-commit", "1".repeat(40).as_str(), "is of the commit \"11"),
            ("x-xet-hash", &hash[1..], "is not a hash"),
            ("x-xet-hash", "/".repeat(64).as_str(), "is not a hash"),
        ] {
            let refused = with(name, value).unwrap_err();
            assert!(refused.contains(words), "{refused}\nlacks {words}");
        }
    }

    #[test]
    fn a_folder_of_the_cache_has_a_limited_number_of_files() {
        let dir = TempDir::new().unwrap();
        (0..=MAX_NAMES).for_each(|name| drop(File::create(dir.path().join(name.to_string())).unwrap()));
        let refused = Listing::of_folder("x", dir.path()).unwrap_err().to_string();
        assert_eq!(refused, "more than 20000 files");
        fs::remove_file(dir.path().join("0")).unwrap();
        assert_eq!(Listing::of_folder("x", dir.path()).unwrap().files.len(), MAX_NAMES);
    }

    #[test]
    fn a_tag_with_characters_of_paths_gets_a_name_of_its_own() {
        for plain in ["0a1b", "W-1:2", "a.b_c"] {
            assert_eq!(blob_name(plain), plain);
        }
        for (etag, name) in [
            ("{SHA1{0a}}", "etag-_7bSHA1_7b0a_7d_7d"),
            ("../x", "etag-_2e_2e_2fx"),
            ("..", "etag-_2e_2e"),
            ("a/b", "etag-a_2fb"),
            ("a b_", "etag-a_20b_5f"),
        ] {
            assert_eq!(blob_name(etag), name);
        }
    }
}
