//! Responses: a body in pieces, what it holds, and the cost if the model ran.

use super::cost::Cost;
use super::element::{BinaryPieces, Layout};
use super::pieces::{JsonText, PIECE, write_value};
use crate::error::ApiError;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use prefold_core::{Response as Answered, Share, drop_aside};
use serde::Serialize;
use std::convert::Infallible;
use std::num::NonZero;
use std::sync::Arc;

/// Element type of a binary response.
pub(crate) const DTYPE: HeaderName = HeaderName::from_static("x-embedding-dtype");

/// `rows,values` of a binary response.
pub(crate) const SHAPE: HeaderName = HeaderName::from_static("x-embedding-shape");

/// Value for which 127 stands in int8 vectors, and 255 in uint8.
pub(crate) const RANGE: HeaderName = HeaderName::from_static("x-embedding-range");

/// Description of a binary response, by vLLM's name.
const METADATA: HeaderName = HeaderName::from_static("metadata");

/// Pieces of a body, in order. The upper bound of the size hint is 0 as soon as the end is known.
type Pieces = Box<dyn Iterator<Item = Vec<u8>> + Send>;

/// Bytes of the pieces of a long answer that are in memory at once: one with the connection, one on its way there.
const PIECES_HELD: usize = 2 * PIECE;

/// A body, and its cost if the model ran.
pub(crate) struct Answer {
    pieces: Pieces,
    form: Form,
    cost: Option<Cost>,
    /// Bytes that the request holds, given back when the last piece is written.
    share: Option<Arc<Share>>,
    /// Value for which 127 stands in int8 vectors.
    range: Option<f32>,
}

/// Content type of the body.
enum Form {
    Json,
    /// Rows of vectors.
    Binary {
        rows: usize,
        dim: usize,
        layout: Layout,
        /// Value of the header [`METADATA`].
        metadata: Option<HeaderValue>,
    },
}

impl Answer {
    /// A JSON body that `write` makes from the results.
    pub(crate) fn json<T>(answered: Answered<T>, write: impl FnOnce(Vec<T>) -> JsonText) -> Self {
        let cost = Some(Cost::of(&answered));
        let Answered { results, share, .. } = answered;
        Self { pieces: Box::new(write(results)), form: Form::Json, cost, share, range: None }
    }

    /// The same with the range of its int8 or uint8 vectors.
    pub(crate) fn with_range(self, range: Option<f32>) -> Self {
        Self { range, ..self }
    }

    /// The vectors as bytes, row by row. With `width` the values of an input are rows of `width` values.
    ///
    /// # Errors
    /// The element type cannot hold a value.
    pub(crate) async fn binary(
        answered: Answered<Vec<f32>>,
        layout: Layout,
        width: Option<NonZero<usize>>,
        metadata: Option<HeaderValue>,
    ) -> Result<Self, ApiError> {
        let cost = Some(Cost::of(&answered));
        let Answered { results: vectors, share, .. } = answered;
        layout.element.check(&vectors).await?;
        let (rows, dim) = match width {
            Some(width) => (vectors.iter().map(|values| values.len() / width).sum(), width.get()),
            None => (vectors.len(), vectors.first().map_or(0, Vec::len)),
        };
        let form = Form::Binary { rows, dim: layout.element.elements_of(dim), layout, metadata };
        let pieces = Box::new(BinaryPieces::new(vectors, layout));
        Ok(Self { pieces, form, cost, share, range: layout.element.range() })
    }

    /// A small value as a JSON body of a request for which the model did not run.
    pub(crate) fn free(value: &impl Serialize) -> Self {
        let mut body = String::new();
        write_value(&mut body, value);
        Self {
            pieces: Box::new(std::iter::once(body.into_bytes())),
            form: Form::Json,
            cost: None,
            share: None,
            range: None,
        }
    }

    /// A JSON body of a request for which the model did not run; `share` counts what it holds.
    pub(crate) fn free_text(text: JsonText, share: Arc<Share>) -> Self {
        Self { pieces: Box::new(text), form: Form::Json, cost: None, share: Some(share), range: None }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let Self { pieces, form, cost, share, range } = self;
        let mut response = Response::new(body(pieces, share));
        let headers = response.headers_mut();
        match form {
            Form::Json => {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            Form::Binary { rows, dim, layout, metadata } => {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
                headers.insert(DTYPE, HeaderValue::from_static(layout.element.as_str()));
                if let Ok(shape) = HeaderValue::from_str(&format!("{rows},{dim}")) {
                    headers.insert(SHAPE, shape);
                }
                if let Some(metadata) = metadata {
                    headers.insert(METADATA, metadata);
                }
            }
        }
        if let Some(range) = range.and_then(|range| HeaderValue::from_str(&range.to_string()).ok()) {
            headers.insert(RANGE, range);
        }
        if let Some(cost) = cost {
            response.extensions_mut().insert(cost);
        }
        response
    }
}

/// A body of one piece has a content length. A longer one is made as fast as the client reads it, with a pause for
/// other connections before each further piece. Empty pieces are not sent.
fn body(pieces: Pieces, share: Option<Arc<Share>>) -> Body {
    let mut making = Making { pieces, share };
    let first = making.pieces.next().unwrap_or_default();
    if making.is_over() {
        // The text is all that is left of the request and its answer.
        making.share.iter().for_each(|share| hold(share, first.len()));
        return Body::from(Bytes::from_owner(Held { bytes: first, _share: making.share.take() }));
    }
    making.share.iter().for_each(|share| share.force(PIECES_HELD));
    let state = (Some(first).filter(|first| !first.is_empty()), making);
    Body::from_stream(stream::unfold(state, async |(mut made, mut making)| {
        loop {
            if let Some(piece) = made.take() {
                return Some((Ok::<_, Infallible>(Bytes::from(piece)), (None, making)));
            }
            tokio::task::yield_now().await;
            made = Some(making.pieces.next()?).filter(|piece| !piece.is_empty());
        }
    }))
}

/// Sets the bytes that a share holds.
fn hold(share: &Share, bytes: usize) {
    match bytes.checked_sub(share.held()) {
        Some(more) => share.force(more),
        None => share.shrink_to(bytes),
    }
}

/// Pieces that are still to be made, and the share that counts their values.
struct Making {
    pieces: Pieces,
    share: Option<Arc<Share>>,
}

impl Making {
    fn is_over(&self) -> bool {
        self.pieces.size_hint().1 == Some(0)
    }
}

impl Drop for Making {
    /// An unread answer may have a million values.
    fn drop(&mut self) {
        if !self.is_over() {
            let pieces = std::mem::replace(&mut self.pieces, Box::new(std::iter::empty()));
            drop_aside((pieces, self.share.take()));
        }
    }
}

/// Bytes with the share that counts them.
struct Held {
    bytes: Vec<u8>,
    _share: Option<Arc<Share>>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::HttpBody;
    use futures::{FutureExt, StreamExt};
    use prefold_core::{Quota, Resource};
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    fn share(quota: &Arc<Quota>) -> Arc<Share> {
        let share = Arc::new(quota.share());
        share.force(10);
        share
    }

    #[tokio::test]
    async fn a_small_body_has_its_length_and_counts_until_it_is_dropped() {
        let quota = Quota::new(10, Resource::BufferedBytes);
        let body = Answer::free_text(JsonText::default().values([1, 2]), share(&quota)).into_response().into_body();
        assert_eq!(body.size_hint().exact(), Some(5));
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        assert_eq!(bytes, "[1,2]");
        assert_eq!(quota.held(), 5, "the values are gone");
        let part = bytes.slice(..1);
        drop(bytes);
        assert_eq!(quota.held(), 5, "a part of it is still there");
        drop(part);
        assert_eq!(quota.held(), 0);
    }

    #[tokio::test]
    async fn a_large_body_is_made_as_it_is_read_and_counts_until_its_end() {
        let quota = Quota::new(10, Resource::BufferedBytes);
        let items: Vec<usize> = (0..100_000).collect();
        let body =
            Answer::free_text(JsonText::default().values(items.clone()), share(&quota)).into_response().into_body();
        assert_eq!(body.size_hint().exact(), None);
        let mut stream = body.into_data_stream();
        let mut read = stream.next().await.unwrap().unwrap().to_vec();
        assert!(read.len() < 100_000, "{}", read.len());
        assert!(stream.next().now_or_never().is_none(), "other connections have their turn");
        while let Some(piece) = stream.next().await {
            assert_eq!(quota.held(), 10 + PIECES_HELD);
            read.extend(piece.unwrap());
        }
        assert_eq!(read, serde_json::to_vec(&items).unwrap());
        drop(stream);
        assert_eq!(quota.held(), 0);
    }

    #[tokio::test]
    async fn an_answer_that_a_client_leaves_is_dropped_elsewhere_and_counts_until_then() {
        /// Sends the thread that drops it.
        struct Told(mpsc::Sender<ThreadId>);
        impl Drop for Told {
            fn drop(&mut self) {
                self.0.send(thread::current().id()).ok();
            }
        }
        let quota = Quota::new(10, Resource::BufferedBytes);
        let (sender, receiver) = mpsc::channel();
        let told = Told(sender);
        let items = (0..100_000).inspect(move |_| assert!(told.0.send(thread::current().id()).is_ok()));
        let text = JsonText::default().values(items);
        let mut stream = Answer::free_text(text, share(&quota)).into_response().into_body().into_data_stream();
        assert!(stream.next().await.is_some());
        drop(stream);
        quota.all_released().await;
        assert_ne!(receiver.iter().last(), Some(thread::current().id()), "the last one is of the drop");
    }
}
