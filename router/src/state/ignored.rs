//! Fields of a body that nothing reads. The response names them, or with `--strict-fields` they are an error.

use super::field_names::SentName;
use axum::http::{HeaderName, HeaderValue};
use serde_ignored::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Header with the names of ignored fields.
pub(crate) const IGNORED: HeaderName = HeaderName::from_static("x-ignored-fields");

/// Fields that say nothing about the answer, which are never refused.
const HARMLESS: [&str; 1] = ["user"];

/// Maximum names in a response.
const MAX_NAMES: usize = 16;

/// Maximum bytes of a name.
const MAX_NAME: usize = 64;

/// Ignored fields of one request. Clones are handles to the same list.
#[derive(Debug, Clone, Default)]
pub(crate) struct IgnoredFields(Arc<Mutex<Names>>);

impl IgnoredFields {
    /// Adds the fields at these paths.
    pub(crate) fn add(&self, names: Names) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.0.into_iter().for_each(|name| all.insert(name));
    }

    /// The names for the header, as they were `sent`; `None` if there are none.
    pub(crate) fn header(&self, sent: &[SentName]) -> Option<HeaderValue> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sent_name = |name: &String| sent.iter().find(|(field, _)| field == name).map(|(_, sent)| *sent);
        let names: Vec<&str> = names.0.iter().map(|name| sent_name(name).unwrap_or(name)).collect();
        if names.is_empty() { None } else { HeaderValue::from_str(&names.join(", ")).ok() }
    }
}

/// Names of fields as responses show them: cut, in ASCII, each once.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<String>);

impl Names {
    /// The names of some fields.
    pub(crate) fn of(name: &str) -> Self {
        Self(vec![name.to_owned()])
    }

    /// Adds the field at `path`; items of a list have the same name.
    pub(crate) fn push(&mut self, path: &Path<'_>) {
        if self.0.len() < MAX_NAMES {
            let mut name = String::new();
            write(path, &mut name);
            // All of it is ASCII.
            name.truncate(MAX_NAME);
            // Nested names may have grown it to more than a thousand times as much.
            name.shrink_to_fit();
            self.insert(name);
        }
    }

    /// The first of them that matters.
    pub(crate) fn first_refused(&self) -> Option<&str> {
        self.0.iter().map(String::as_str).find(|name| !HARMLESS.contains(name))
    }

    /// The fields that a body has instead of one that is missing, as a clause; empty if there are none.
    pub(crate) fn instead(&self) -> String {
        let named = self.0.iter().filter(|name| !HARMLESS.contains(&name.as_str()));
        let names: Vec<String> = named.map(|name| format!("`{name}`")).collect();
        if names.is_empty() {
            String::new()
        } else {
            format!("; the body has {}, which this route does not read", names.join(", "))
        }
    }

    fn insert(&mut self, name: String) {
        if self.0.len() < MAX_NAMES && !self.0.contains(&name) {
            self.0.push(name);
        }
    }
}

/// Writes `field`, `outer.field` or `list[].field`.
fn write(path: &Path<'_>, out: &mut String) {
    match path {
        Path::Root => {}
        Path::Seq { parent, .. } => {
            write(parent, out);
            out.push_str("[]");
        }
        Path::Map { parent, key } => {
            write(parent, out);
            if !out.is_empty() {
                out.push('.');
            }
            out.extend(key.chars().take(MAX_NAME).flat_map(char::escape_default));
        }
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => write(parent, out),
    }
}
