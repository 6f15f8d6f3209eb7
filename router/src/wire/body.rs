//! Request bodies: size limits, JSON, and errors that name the field.

use super::content_coding::ContentCoding;
use super::guarded::Guarded;
use super::invalid_text::{self, GROWTH, Rewritten};
use super::parsed_size::parsed_size;
use crate::error::ApiError;
use crate::state::ignored::{IgnoredFields, Names};
use crate::state::replaced::ReplacedText;
use crate::state::{App, InvalidUnicode};
use axum::body::{BodyDataStream, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use futures::{AsyncReadExt, StreamExt, TryStreamExt};
use prefold_core::{Error, Share};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::io;
use std::sync::Arc;

/// Bytes beyond the limit that are read and discarded, so that a client that is still sending gets its 413 instead of a
/// reset connection.
const MAX_DISCARDED: usize = 64 << 20;

/// Bytes of a body that is parsed where it arrives: less than half a millisecond's work.
const PARSED_AT_ONCE: usize = 1 << 16;

/// Bytes that are decoded before other connections of the thread have their turn.
const DECODED_AT_ONCE: usize = 1 << 14;

/// The body as JSON, whatever its content type. The response names unknown fields; with `--strict-fields` they are an error.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Json<T> {
    type Rejection = ApiError;

    fn from_request(request: Request, app: &App) -> impl Future<Output = Result<Self, ApiError>> + Send {
        let body = RawBody::from_request(request, app);
        async move { body.await?.parse().await.map(Self) }
    }
}

/// The body's bytes, for routes that inspect them to choose a type.
#[derive(Debug)]
pub(crate) struct RawBody {
    bytes: Bytes,
    /// Share of the request, and the bytes that it held once the body had arrived.
    held: Option<(Arc<Share>, usize)>,
    ignored: IgnoredFields,
    replaced: ReplacedText,
    /// Unknown fields are an error.
    is_strict: bool,
    invalid_unicode: InvalidUnicode,
}

/// A value of a body.
struct Parsed<T> {
    value: T,
    /// Fields that the type does not have.
    ignored: Names,
    /// Path of the first text in which something was replaced, and the number of these texts.
    replaced: Option<(String, usize)>,
}

impl RawBody {
    /// The body as JSON, whose bytes are counted instead of the body's.
    ///
    /// # Errors
    /// [`ApiError::Syntax`], [`ApiError::Body`] or [`ApiError::TooManyValues`]; [`Error::Overloaded`] where there is no room for its
    /// values. The body can still be [probed](Self::probe) then.
    pub(crate) async fn parse<T: DeserializeOwned + Send + 'static>(&mut self) -> Result<T, ApiError> {
        let Parsed { value, ignored, replaced } = self.read().await?;
        if self.is_strict
            && let Some(name) = ignored.first_refused()
        {
            return Err(ApiError::UnknownField(name.to_owned()));
        }
        self.bytes = Bytes::new();
        if let Some((held, arrived)) = &self.held {
            held.shrink_to(held.held().saturating_sub(*arrived));
        }
        self.ignored.add(ignored);
        if let Some((first, texts)) = replaced {
            self.replaced.set(first, texts);
        }
        Ok(value)
    }

    /// A part of the body, to choose a type for the whole.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub(crate) async fn probe<T: DeserializeOwned + Send + 'static>(&self) -> Result<T, ApiError> {
        self.read().await.map(|parsed| parsed.value)
    }

    /// A large body is parsed on a thread that serves no connections. Parsing goes on if the client leaves, and holds the share.
    async fn read<T: DeserializeOwned + Send + 'static>(&self) -> Result<Parsed<T>, ApiError> {
        let (body, held, invalid_unicode) = (self.bytes.clone(), self.held.clone(), self.invalid_unicode);
        let read = move || {
            let admitted = admit(&body, 0, held.as_ref());
            let parsed = admitted.and_then(|()| parse(&body));
            let parsed = match parsed {
                Ok((value, ignored)) => Ok(Parsed { value, ignored, replaced: None }),
                // Only texts that are not Unicode can make another parse of the body succeed.
                Err(error @ ApiError::Syntax(_)) => parse_invalid(&body, error, held.as_ref(), invalid_unicode),
                Err(error) => Err(error),
            };
            (parsed, held)
        };
        if self.bytes.len() <= PARSED_AT_ONCE {
            return read().0;
        }
        tokio::task::spawn_blocking(read).await.map_or(Err(ApiError::Panic), |(parsed, _)| parsed)
    }
}

impl FromRequest<App> for RawBody {
    type Rejection = ApiError;

    fn from_request(request: Request, app: &App) -> impl Future<Output = Result<Self, ApiError>> + Send {
        let (timeout, limit) = (app.http.client_timeout, app.http.payload_limit);
        let is_too_large = declared(request.headers()) > limit;
        let ignored = request.extensions().get::<IgnoredFields>().cloned().unwrap_or_default();
        let replaced = request.extensions().get::<ReplacedText>().cloned().unwrap_or_default();
        let (is_strict, invalid_unicode) = (app.http.strict_fields, app.http.invalid_unicode);
        let held = request.extensions().get::<Arc<Share>>().cloned();
        let body = tokio::time::timeout(timeout, read_body(request, limit));
        let late = move || if is_too_large { ApiError::PayloadTooLarge { limit } } else { ApiError::Slow(timeout) };
        async move {
            let bytes = body.await.unwrap_or_else(|_| Err(late()))?.into();
            let held = held.map(|held| {
                let arrived = held.held();
                (held, arrived)
            });
            Ok(Self { bytes, held, ignored, replaced, is_strict, invalid_unicode })
        }
    }
}

/// Reads the body. The head is checked and dropped first, so that a request whose body never arrives holds little.
fn read_body(request: Request, limit: usize) -> impl Future<Output = Result<Vec<u8>, ApiError>> + Send {
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
fn declared(headers: &HeaderMap) -> usize {
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
                let damaged = |error: io::Error| ApiError::Unreadable(format!("{}: {error}", coding.name()));
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

/// Counts the memory of the parsed body before parsing: up to sixty times its size, and `copies` bytes of its copies. Counted once,
/// however often it is parsed.
///
/// # Errors
/// [`ApiError::TooManyValues`], [`Error::Overloaded`]
fn admit(body: &[u8], copies: usize, held: Option<&(Arc<Share>, usize)>) -> Result<(), ApiError> {
    let parsed = parsed_size(body)?.saturating_add(copies);
    held.map_or(Ok(()), |(held, arrived)| held.grow_to(arrived.saturating_add(parsed)))?;
    Ok(())
}

/// Parses a body again whose parsing ended with `error`, with U+FFFD in place of what is not Unicode.
///
/// # Errors
/// `error` if all of it is Unicode; [`ApiError::Body`] if such texts are refused and `T` reads one; as [`parse`] and [`admit`].
fn parse_invalid<T: DeserializeOwned>(
    body: &[u8],
    error: ApiError,
    held: Option<&(Arc<Share>, usize)>,
    invalid_unicode: InvalidUnicode,
) -> Result<Parsed<T>, ApiError> {
    if invalid_text::are_unicode(body) {
        return Err(error);
    }
    // A text and the body, rewritten. Its values are counted with both, and never twice.
    let copies = body.len().saturating_mul(2 * GROWTH);
    admit(body, copies, held)?;
    // None if all of these texts are in fields that `T` does not have, or if the other parse fails too.
    let first = match parse::<T>(&invalid_text::as_numbers(body)) {
        Err(ApiError::Body { field, .. }) => Some(field.unwrap_or_else(|| "body".to_owned())),
        Ok(_) | Err(_) => None,
    };
    let Rewritten { body: replaced, texts } = invalid_text::replace(body);
    admit(&replaced, copies, held)?;
    let (value, ignored) = parse(&replaced)?;
    let parsed = parsed_size(&replaced)?;
    drop(replaced);
    held.iter().for_each(|(held, arrived)| held.shrink_to(arrived.saturating_add(parsed)));
    match (first, invalid_unicode) {
        (Some(field), InvalidUnicode::Refuse) => {
            let problem = "not Unicode: it has half of a surrogate pair, such as half of an emoji, or bytes that are not UTF-8 \
                           (--invalid-unicode)";
            Err(ApiError::Body { field: Some(field), problem: problem.to_owned() })
        }
        (first, _) => Ok(Parsed { value, ignored, replaced: first.map(|first| (first, texts)) }),
    }
}

/// Parses a body as JSON; the names are of the fields that `T` does not have.
///
/// # Errors
/// [`ApiError::Syntax`] or [`ApiError::Body`]
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<(T, Names), ApiError> {
    check_object(body)?;
    let mut json = serde_json::Deserializer::from_slice(body);
    let mut names = Names::default();
    let mut ignore = |path: serde_ignored::Path<'_>| names.push(&path);
    let parsed = T::deserialize(serde_ignored::Deserializer::new(Guarded(&mut json), &mut ignore));
    match parsed.and_then(|parsed| json.end().map(|()| parsed)) {
        Ok(parsed) => Ok((parsed, names)),
        Err(error) => Err(explain::<T>(body, &error)),
    }
}

/// Rejects bodies that are not objects: serde would read a list as the fields by position.
///
/// # Errors
/// [`ApiError::Syntax`] or [`ApiError::Body`]
fn check_object(body: &[u8]) -> Result<(), ApiError> {
    let kind = match body.trim_ascii_start().first() {
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b'0'..=b'9' | b'-') => "a number",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => return Ok(()),
    };
    let mut json = serde_json::Deserializer::from_slice(body);
    match IgnoredAny::deserialize(Guarded(&mut json)).and_then(|_| json.end()) {
        Ok(()) => Err(ApiError::Body {
            field: None,
            problem: format!("the request body is {kind}, it must be a JSON object"),
        }),
        Err(error) => Err(ApiError::Syntax(error.to_string())),
    }
}

/// Parses again to find the field at fault, so that valid bodies do not pay for tracking the path.
fn explain<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> ApiError {
    if !error.is_data() {
        return ApiError::Syntax(error.to_string());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let again = serde_path_to_error::deserialize::<_, T>(Guarded(&mut deserializer));
    let path = again.err().map(|error| error.path().to_string()).filter(|path| path != ".");
    let problem = plain(&error.to_string());
    match problem.strip_prefix("missing field `").and_then(|rest| rest.split_once('`')) {
        // The path ends with the object that lacks the field.
        Some((name, place)) => {
            let field = path.map_or_else(|| name.to_owned(), |path| format!("{path}.{name}"));
            ApiError::Body { field: Some(field), problem: format!("missing field{place}") }
        }
        None => ApiError::Body { field: path, problem },
    }
}

/// serde's message in the terms of JSON instead of Rust's.
fn plain(message: &str) -> String {
    const TERMS: [(&str, &str); 15] = [
        ("expected usize", "expected a whole number, at least 0"),
        ("expected u64", "expected a whole number, at least 0"),
        ("expected u32", "expected a whole number, at least 0"),
        ("expected i64", "expected a whole number"),
        ("expected f32", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("expected a sequence", "expected a list"),
        ("expected map", "expected an object"),
        ("unknown variant", "unknown value"),
        ("invalid type: map", "invalid type: object"),
        ("invalid type: sequence", "invalid type: list"),
        ("invalid type: unit value", "invalid type: null"),
        ("invalid type: floating point", "invalid type: number"),
        ("invalid value: integer", "invalid value:"),
        ("invalid value: floating point", "invalid value:"),
    ];
    let message = match message.split_once("expected struct ") {
        // The type's name comes next.
        Some((before, after)) => {
            format!("{before}expected an object{}", after.trim_start_matches(char::is_alphanumeric))
        }
        None => message.to_owned(),
    };
    TERMS.iter().fold(message, |message, (term, plain)| message.replacen(term, plain, 1))
}

#[cfg(test)]
mod tests;
