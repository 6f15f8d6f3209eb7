//! Arrival of a body: limits, decoding, and memory that is counted.

use crate::error::ApiError;
use crate::wire::content_coding::ContentCoding;
use axum::body::BodyDataStream;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use futures::{AsyncReadExt, StreamExt, TryStreamExt};
use prefold_core::{Error, Share};
use std::io;
use std::sync::Arc;

/// Bytes beyond the limit that are read and discarded, so that a client that is still sending gets its 413 instead of a
/// reset connection.
pub(super) const MAX_DISCARDED: usize = 64 << 20;

/// Bytes that are decoded before other connections of the thread have their turn.
const DECODED_AT_ONCE: usize = 1 << 14;

/// Reads the body. The head is checked and dropped first, so that a request whose body never arrives holds little.
pub(super) fn read_body(request: Request, limit: usize) -> impl Future<Output = Result<Vec<u8>, ApiError>> + Send {
    let coding = check_head(request.headers(), limit);
    let declared = if matches!(coding, Ok(None)) { declared(request.headers()) } else { 0 };
    let held = request.extensions().get::<Arc<Share>>().cloned();
    let arriving = Arriving { limit, declared, held, bytes: Vec::new() };
    let body = request.into_body().into_data_stream();
    async move {
        match coding? {
            None => arriving.read(body).await,
            Some(coding) => arriving.read_encoded(coding, body).await,
        }
    }
}

/// Bytes that the head announces; 0 without a length.
pub(super) fn declared(headers: &HeaderMap) -> usize {
    let number = |value: &HeaderValue| value.to_str().ok()?.parse::<usize>().ok();
    headers.get(header::CONTENT_LENGTH).and_then(number).unwrap_or(0)
}

/// The body's coding. Refuses bodies by their headers alone.
///
/// # Errors
/// [`ApiError::Encoded`]; [`ApiError::PayloadTooLarge`] if the client has not sent the body yet, or would send more than is
/// worth reading.
fn check_head(headers: &HeaderMap, limit: usize) -> Result<Option<ContentCoding>, ApiError> {
    let coding = ContentCoding::of(headers)?;
    let excess = declared(headers).saturating_sub(limit);
    if excess > 0 && (headers.contains_key(header::EXPECT) || excess > MAX_DISCARDED) {
        return Err(ApiError::PayloadTooLarge { limit });
    }
    Ok(coding)
}

/// A body that is arriving. Memory is allocated for bytes that have arrived, not for a declared length, and is counted.
struct Arriving {
    limit: usize,
    declared: usize,
    held: Option<Arc<Share>>,
    bytes: Vec<u8>,
}

impl Arriving {
    async fn read(mut self, mut chunks: BodyDataStream) -> Result<Vec<u8>, ApiError> {
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| ApiError::Unreadable(error.to_string()))?;
            if let Err(error) = self.take(&chunk) {
                return Err(self.give_up(error, chunks).await);
            }
        }
        Ok(self.bytes)
    }

    /// Decodes the body as it arrives. The limit holds for the encoded and for the decoded bytes.
    async fn read_encoded(mut self, coding: ContentCoding, mut chunks: BodyDataStream) -> Result<Vec<u8>, ApiError> {
        match self.decode(coding, &mut chunks).await {
            Ok(decoder_bytes) => {
                self.held.iter().for_each(|held| held.shrink_to(held.held().saturating_sub(decoder_bytes)));
                Ok(self.bytes)
            }
            Err(error) => Err(self.give_up(error, chunks).await),
        }
    }

    /// Reads and decodes `chunks`. The result is the bytes that are held for the decoder.
    async fn decode(&mut self, coding: ContentCoding, chunks: &mut BodyDataStream) -> Result<usize, ApiError> {
        let mut decoder_bytes = coding.state_bytes();
        self.hold(decoder_bytes)?;
        let (limit, mut arrived) = (self.limit, 0);
        let encoded = chunks.map(move |chunk| {
            let chunk = chunk.map_err(|error| io::Error::other(ApiError::Unreadable(error.to_string())))?;
            arrived += chunk.len();
            if arrived > limit { Err(io::Error::other(ApiError::PayloadTooLarge { limit })) } else { Ok(chunk) }
        });
        let mut decoder = coding.decoder(encoded.into_async_read());
        let mut piece = vec![0; DECODED_AT_ONCE];
        loop {
            let decoded = decoder.read(&mut piece).await;
            let decoded = decoded.map_err(|error| {
                let damaged = |error: io::Error| ApiError::Unreadable(coding.problem(&error));
                error.downcast::<ApiError>().unwrap_or_else(damaged)
            })?;
            if decoded == 0 {
                return Ok(decoder_bytes);
            }
            // The decoder keeps its last output, up to the size of its window.
            let window = decoded.min(coding.window_bytes().saturating_sub(self.bytes.len()));
            self.hold(window)?;
            decoder_bytes += window;
            self.take(&piece[..decoded])?;
            tokio::task::yield_now().await;
        }
    }

    /// Releases what is held, and reads on for the client's sake.
    async fn give_up(mut self, error: ApiError, chunks: BodyDataStream) -> ApiError {
        self.bytes = Vec::new();
        self.held.iter().for_each(|held| held.shrink_to(0));
        discard(chunks).await;
        error
    }

    fn hold(&self, bytes: usize) -> Result<(), Error> {
        self.held.as_ref().map_or(Ok(()), |held| held.grow(bytes))
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), ApiError> {
        if self.bytes.len() + chunk.len() > self.limit {
            return Err(ApiError::PayloadTooLarge { limit: self.limit });
        }
        let hold = |bytes| self.held.as_ref().map_or(Ok(()), |held| held.grow(bytes));
        reserve(&mut self.bytes, chunk.len(), self.declared, hold)?;
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }
}

/// Reads on for the client's sake, up to a limit.
async fn discard(mut chunks: BodyDataStream) {
    let mut discarded = 0;
    while discarded <= MAX_DISCARDED
        && let Some(Ok(chunk)) = chunks.next().await
    {
        discarded += chunk.len();
    }
}

/// Makes room for `arrived` more bytes, which `hold` counts. Capacity doubles up to the declared length, so that half
/// of it has arrived.
///
/// # Errors
/// As `hold`; nothing is reserved then.
fn reserve(
    body: &mut Vec<u8>,
    arrived: usize,
    declared: usize,
    hold: impl Fn(usize) -> Result<(), Error>,
) -> Result<(), ApiError> {
    let len = body.len() + arrived;
    if len <= body.capacity() {
        return Ok(());
    }
    let most = if declared >= len { declared } else { usize::MAX };
    let capacity = (2 * body.len()).min(most).max(len);
    hold(capacity - body.capacity())?;
    body.reserve_exact(capacity - body.len());
    Ok(())
}
