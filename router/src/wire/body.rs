//! Request bodies: size limits, JSON, and errors that name the field.

mod arriving;

use self::arriving::{declared, read_body};
use super::guarded::Guarded;
use super::invalid_text::{self, GROWTH, Rewritten};
use super::named::Named;
use super::null_members;
use super::parsed_size::parsed_size;
use crate::error::ApiError;
use crate::state::field_names::{BodyNames, SentNames};
use crate::state::ignored::{IgnoredFields, Names};
use crate::state::replaced::ReplacedText;
use crate::state::{App, InvalidUnicode};
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use prefold_core::Share;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::sync::Arc;

/// Maximum levels of lists and objects in each other: serde_json ends at one more.
const MAX_LEVELS: usize = 127;

/// Bytes of a body that is parsed where it arrives: less than half a millisecond's work.
const PARSED_AT_ONCE: usize = 1 << 16;

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
    sent: SentNames,
    replaced: ReplacedText,
    /// Unknown fields are an error.
    is_strict: bool,
    invalid_unicode: InvalidUnicode,
}

/// A value of a body.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    pub(crate) value: T,
    /// Fields that the type does not have.
    pub(crate) ignored: Names,
    /// The body's names of fields that have several.
    names: BodyNames,
    /// Path of the first text in which something was replaced, and the number of these texts.
    replaced: Option<(String, usize)>,
}

impl RawBody {
    /// The body as JSON, whose bytes are counted instead of the body's.
    ///
    /// # Errors
    /// [`ApiError::Syntax`], [`ApiError::Body`] or [`ApiError::TooManyValues`]; `Error::Overloaded` where there is no room for its
    /// values. The body can still be [probed](Self::probe) then.
    pub(crate) async fn parse<T: DeserializeOwned + Send + 'static>(&mut self) -> Result<T, ApiError> {
        let Parsed { value, ignored, names, replaced } = self.read().await?;
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
        self.sent.set(names);
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
                Ok(parsed) => Ok(parsed),
                // Only texts that are not Unicode can make another parse of the body succeed.
                Err(error @ ApiError::Syntax(_)) => parse_invalid(&body, error, held.as_ref(), invalid_unicode),
                Err(error @ ApiError::Body { .. }) => parse_without_nulls(&body, error, held.as_ref()),
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
        let sent = request.extensions().get::<SentNames>().cloned().unwrap_or_default();
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
            Ok(Self { bytes, held, ignored, sent, replaced, is_strict, invalid_unicode })
        }
    }
}

/// Counts the memory of the parsed body before parsing: up to sixty times its size, and `copies` bytes of its copies. Counted once,
/// however often it is parsed.
///
/// # Errors
/// [`ApiError::TooManyValues`]; `Error::Overloaded` of the quota
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
    let parsed_body = parse(&replaced)?;
    let parsed = parsed_size(&replaced)?;
    drop(replaced);
    held.iter().for_each(|(held, arrived)| held.shrink_to(arrived.saturating_add(parsed)));
    match (first, invalid_unicode) {
        (Some(field), InvalidUnicode::Refuse) => {
            let problem = "not Unicode: it has half of a surrogate pair, such as half of an emoji, or bytes that are not UTF-8 \
                           (--invalid-unicode)";
            Err(ApiError::Body { field: Some(field), problem: problem.to_owned() })
        }
        (first, _) => Ok(Parsed { replaced: first.map(|first| (first, texts)), ..parsed_body }),
    }
}

/// Parses a body again whose parsing ended with `error`, without members that are null: a field that is null under one of its names
/// may have a value under another.
///
/// # Errors
/// `error` if this fails too; as [`admit`].
fn parse_without_nulls<T: DeserializeOwned>(
    body: &[u8],
    error: ApiError,
    held: Option<&(Arc<Share>, usize)>,
) -> Result<Parsed<T>, ApiError> {
    let Some(rest) = null_members::without(body) else { return Err(error) };
    admit(body, rest.len(), held)?;
    parse(&rest).map_err(|_| error)
}

/// Parses a body as JSON.
///
/// # Errors
/// [`ApiError::Syntax`] or [`ApiError::Body`]
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<Parsed<T>, ApiError> {
    check_object(body)?;
    let mut json = serde_json::Deserializer::from_slice(body);
    let (mut ignored, mut names) = (Names::default(), BodyNames::default());
    let mut ignore = |path: serde_ignored::Path<'_>| ignored.push(&path);
    let inner = serde_ignored::Deserializer::new(Guarded(&mut json), &mut ignore);
    let parsed = T::deserialize(Named { inner, names: &mut names });
    match parsed.and_then(|parsed| json.end().map(|()| parsed)) {
        Ok(value) => Ok(Parsed { value, ignored, names, replaced: None }),
        Err(error) => Err(explain::<T>(body, &error, &names, &ignored)),
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
        Err(error) => Err(syntax(&error)),
    }
}

/// Parses again to find the field at fault, so that valid bodies do not pay for tracking the path.
fn explain<T: DeserializeOwned>(
    body: &[u8],
    error: &serde_json::Error,
    names: &BodyNames,
    ignored: &Names,
) -> ApiError {
    if !error.is_data() {
        return syntax(error);
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let again = serde_path_to_error::deserialize::<_, T>(Guarded(&mut deserializer));
    let path = again.err().map(|error| error.path().to_string()).filter(|path| path != ".");
    let problem = plain(&error.to_string());
    match problem.strip_prefix("missing field `").and_then(|rest| rest.split_once('`')) {
        // The path ends with the object that lacks the field; serde's position is the end of that object.
        Some((name, _)) => {
            let others = if path.is_none() { names.other_names(name) + &ignored.instead() } else { String::new() };
            let field = path.map_or_else(|| name.to_owned(), |path| format!("{path}.{name}"));
            ApiError::Body { field: Some(field), problem: format!("missing field{others}") }
        }
        None => ApiError::Body { field: path, problem: with_position(&problem) },
    }
}

/// The problem with serde's position in parentheses: it follows advice.
fn with_position(problem: &str) -> String {
    match problem.rsplit_once(" at line ").and_then(|(problem, at)| Some((problem, at.split_once(" column ")?))) {
        Some((problem, (line, column))) => format!("{problem} (line {line}, column {column})"),
        None => problem.to_owned(),
    }
}

/// The error of a body that is not JSON.
fn syntax(error: &serde_json::Error) -> ApiError {
    let depth = format!("lists and objects are nested more than {MAX_LEVELS} levels deep, which is the limit,");
    ApiError::Syntax(error.to_string().replacen("recursion limit exceeded", &depth, 1))
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
