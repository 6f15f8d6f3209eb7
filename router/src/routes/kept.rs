//! Texts of a request that its response repeats.

use crate::error::ApiError;
use crate::state::call::Call;
use crate::wire::many::Many;
use std::sync::Arc;

/// Bytes of a text in addition to its characters: the `String` and the allocator's overhead.
const TEXT_BYTES: usize = size_of::<String>() + 32;

/// The texts, and a copy for the response if requested. The copy is counted, and made on a thread that serves no connections.
pub(super) async fn keep(
    call: &Call,
    texts: Many<String>,
    is_asked: bool,
) -> Result<(Many<String>, Option<Arc<[String]>>), ApiError> {
    // More texts than a request may have are refused later.
    if !is_asked || texts.len() > call.engine.config().max_request_inputs() {
        return Ok((texts, None));
    }
    let texts = texts.into_vec();
    call.share.grow(texts.iter().map(|text| TEXT_BYTES + text.len()).sum())?;
    let copy = move || {
        let kept: Arc<[String]> = texts.as_slice().into();
        (texts.into(), Some(kept))
    };
    tokio::task::spawn_blocking(copy).await.map_err(|_| ApiError::Panic)
}

/// One of the texts that are kept of a request.
pub(super) struct Kept {
    pub(super) texts: Arc<[String]>,
    pub(super) index: usize,
}

impl AsRef<str> for Kept {
    fn as_ref(&self) -> &str {
        &self.texts[self.index]
    }
}
