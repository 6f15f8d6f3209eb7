//! Texts of a body in which something that is not Unicode was replaced. The response and the log name them.

use axum::http::{HeaderName, HeaderValue};
use std::sync::{Arc, OnceLock};

/// Header with the first of these texts.
pub(crate) const REPLACED: HeaderName = HeaderName::from_static("x-replaced-unicode");

/// Replaced texts of one request. Clones are handles to the same place.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplacedText(Arc<OnceLock<String>>);

impl ReplacedText {
    /// Records the first of `texts` texts, by its path in the body.
    pub(crate) fn set(&self, first: String, texts: usize) {
        let more = texts.saturating_sub(1);
        // A body is parsed once.
        let _ = self.0.set(if more == 0 { first } else { format!("{first} and {more} more") });
    }

    pub(crate) fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        self.get().and_then(|names| HeaderValue::from_str(names).ok())
    }
}
