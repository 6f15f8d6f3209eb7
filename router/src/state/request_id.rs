//! Id of a request: in the response's header, in its body where the API has one, and in the log.

use super::random_id;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::{Arc, OnceLock};

/// Header with the id, in requests of clients and proxies and in every response.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum characters of a client's id; a longer one is replaced.
const MAX_ID: usize = 128;

/// Id of one request: the header's, else the body's, else a random one. Clones are handles to the same id.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(Arc<Id>);

#[derive(Debug)]
struct Id {
    /// Of the header, or random.
    of_head: HeaderValue,
    is_given: bool,
    of_body: OnceLock<HeaderValue>,
}

impl RequestId {
    /// The header's id if it is short and readable, or a random one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(REQUEST_ID).filter(|&id| is_good(id)).cloned();
        let is_given = given.is_some();
        let random = || HeaderValue::from_str(&random_id()).unwrap_or(HeaderValue::from_static("-"));
        Self(Arc::new(Id { of_head: given.unwrap_or_else(random), is_given, of_body: OnceLock::new() }))
    }

    /// Takes over the body's id, vLLM's field `request_id`, unless the head had one or this one is too long or unreadable.
    pub(crate) fn or_of_body(&self, id: Option<&str>) {
        let id = id.filter(|_| !self.0.is_given).and_then(|id| HeaderValue::from_str(id).ok());
        if let Some(id) = id.filter(is_good) {
            // A body is read once.
            let _ = self.0.of_body.set(id);
        }
    }

    pub(crate) fn header(&self) -> &HeaderValue {
        self.0.of_body.get().unwrap_or(&self.0.of_head)
    }

    pub(crate) fn as_str(&self) -> &str {
        self.header().to_str().unwrap_or_default()
    }
}

fn is_good(id: &HeaderValue) -> bool {
    (1..=MAX_ID).contains(&id.len()) && id.to_str().is_ok()
}
