//! From a request's body to a typed value, once for all routes: the size limit, the JSON, and inputs that may be one
//! or many.

use crate::app::App;
use crate::buffered::Held;
use crate::error::ApiError;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use futures::StreamExt;
use prefold_core::{EncodeOptions, Error, Input, TruncationDirection};
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::sync::Arc;
use utoipa::ToSchema;

/// Bytes beyond the limit that are read and thrown away, so that a client which is still sending gets its 413
/// instead of a reset connection.
const MAX_DISCARDED: usize = 64 << 20;

/// Memory set aside because a header says so, before the bytes are there.
const MAX_TRUSTED_LEN: usize = 1 << 20;

/// Strings, lists and objects in a body: eight times as many as the default limits let through.
const MAX_VALUES: usize = 1 << 20;

/// Token ids in one list: longer than any model's context, and as many as `/decode` takes. A list grows by being copied,
/// so that what one takes while it is read depends on its length.
const MAX_IDS: usize = 1 << 20;

/// The body as JSON, whatever its content type says. Unknown fields are ignored.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        parse(&RawBody::from_request(request, app).await?.0).map(Self)
    }
}

/// The body's bytes, for a route that must look at them before it knows their type.
#[derive(Debug)]
pub(crate) struct RawBody(pub(crate) Vec<u8>);

impl FromRequest<App> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let timeout = app.http.client_timeout;
        let read = tokio::time::timeout(timeout, read_body(request, app.http.payload_limit)).await;
        read.unwrap_or(Err(ApiError::Slow(timeout))).map(Self)
    }
}

async fn read_body(request: Request, limit: usize) -> Result<Vec<u8>, ApiError> {
    if let Some(coding) = request.headers().get(header::CONTENT_ENCODING).filter(|coding| *coding != "identity") {
        return Err(ApiError::Encoded(String::from_utf8_lossy(coding.as_bytes()).into_owned()));
    }
    let number = |value: &axum::http::HeaderValue| value.to_str().ok()?.parse::<usize>().ok();
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(number).unwrap_or(0);
    // Such a client has not sent the body yet, or would send more than is worth reading.
    if declared > limit && (request.headers().contains_key(header::EXPECT) || declared - limit > MAX_DISCARDED) {
        return Err(ApiError::PayloadTooLarge { limit });
    }
    let held = request.extensions().get::<Arc<Held>>().cloned();
    let hold = |bytes| held.as_ref().map_or(Ok(()), |held| held.grow(bytes));
    let mut body = Vec::with_capacity(declared.min(limit).min(MAX_TRUSTED_LEN));
    let mut refused = None;
    let mut discarded = 0;
    let mut chunks = request.into_body().into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| ApiError::Incomplete(error.to_string()))?;
        if refused.is_none() {
            refused = match body.len() + chunk.len() > limit {
                true => Some(ApiError::PayloadTooLarge { limit }),
                false => hold(chunk.len()).err().map(ApiError::from),
            };
        }
        if refused.is_none() {
            body.extend_from_slice(&chunk);
            continue;
        }
        body = Vec::new();
        held.iter().for_each(|held| held.release());
        discarded += chunk.len();
        if discarded > MAX_DISCARDED {
            break;
        }
    }
    refused.map_or(Ok(body), Err)
}

/// A body as JSON.
///
/// # Errors
/// [`ApiError::Syntax`] or [`ApiError::Body`]
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    check_values(body)?;
    check_object(body)?;
    serde_json::from_slice(body).map_err(|error| explain::<T>(body, error))
}

/// A value that is read takes more memory than the three bytes that can say it, so their number is limited too.
///
/// # Errors
/// [`ApiError::TooManyValues`]
fn check_values(body: &[u8]) -> Result<(), ApiError> {
    if body.len() < 3 * MAX_VALUES {
        return Ok(());
    }
    let (mut values, mut in_text, mut escaped) = (0, false, false);
    for &byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => {
                in_text = !in_text;
                values += usize::from(in_text);
            }
            b'[' | b'{' if !in_text => values += 1,
            _ => {}
        }
    }
    if values > MAX_VALUES { Err(ApiError::TooManyValues { limit: MAX_VALUES }) } else { Ok(()) }
}

/// Fields have names: a list of their values would be taken for them by position.
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
    match serde_json::from_slice::<IgnoredAny>(body) {
        Ok(_) => Err(ApiError::Body {
            field: None,
            problem: format!("the request body is {kind}, it must be a JSON object"),
        }),
        Err(error) => Err(ApiError::Syntax(error.to_string())),
    }
}

/// Parses again to learn which field is at fault: the good case does not pay for keeping track of the path.
fn explain<T: DeserializeOwned>(body: &[u8], error: serde_json::Error) -> ApiError {
    if !error.is_data() {
        return ApiError::Syntax(error.to_string());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let path = serde_path_to_error::deserialize::<_, T>(&mut deserializer).err().map(|error| error.path().to_string());
    ApiError::Body { field: path.filter(|path| path != "."), problem: error.to_string() }
}

/// A string, a token id, or a list, as clients nest them.
enum Loose {
    Text(String),
    Id(u32),
    Ids(Vec<u32>),
    List(Vec<Loose>),
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a token id or a list of them")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Loose, E> {
        Ok(Loose::Text(text.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Loose, E> {
        Ok(Loose::Text(text))
    }

    fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<Loose, E> {
        let id = u32::try_from(id).map_err(|_| E::invalid_value(Unexpected::Unsigned(id), &"a token id"))?;
        Ok(Loose::Id(id))
    }

    fn visit_i64<E: serde::de::Error>(self, id: i64) -> Result<Loose, E> {
        Err(E::invalid_value(Unexpected::Signed(id), &"a token id"))
    }

    /// What the first element is decides: ids make one flat vector, which matters for their millions.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Loose, A::Error> {
        let Some(first) = seq.next_element()? else { return Ok(Loose::List(Vec::new())) };
        if let Loose::Id(first) = first {
            let mut ids = vec![first];
            while let Some(id) = seq.next_element()? {
                if ids.len() == MAX_IDS {
                    return Err(A::Error::custom(format_args!("more than {MAX_IDS} token ids in one list")));
                }
                ids.push(id);
            }
            return Ok(Loose::Ids(ids));
        }
        let mut list = vec![first];
        while let Some(item) = seq.next_element()? {
            if matches!(item, Loose::Id(_)) {
                return Err(A::Error::custom("a single token id beside texts or lists; put token ids in a list"));
            }
            list.push(item);
        }
        Ok(Loose::List(list))
    }
}

/// What to run through the model: a string, a list of strings, a list of token ids, a list of such lists, or a list
/// of strings and such lists.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "Loose")]
pub(crate) struct Inputs(pub(crate) Vec<Input>);

impl TryFrom<Loose> for Inputs {
    type Error = &'static str;

    fn try_from(loose: Loose) -> Result<Self, &'static str> {
        const EXPECTED: &str = "expected a string, a list of strings, a list of token ids or a list of such lists";
        let item = |item| match item {
            Loose::Text(text) => Ok(Input::Text(text)),
            Loose::Ids(ids) => Ok(Input::Ids(ids)),
            Loose::List(list) if list.is_empty() => Ok(Input::Ids(Vec::new())),
            Loose::Id(_) | Loose::List(_) => Err(EXPECTED),
        };
        let inputs = match loose {
            Loose::List(list) => list.into_iter().map(item).collect::<Result<_, _>>()?,
            one => vec![item(one)?],
        };
        Ok(Self(inputs))
    }
}

/// A string or a list of strings.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "Loose")]
pub(crate) struct Texts(pub(crate) Vec<String>);

impl TryFrom<Loose> for Texts {
    type Error = &'static str;

    fn try_from(loose: Loose) -> Result<Self, &'static str> {
        let text = |item| match item {
            Loose::Text(text) => Ok(text),
            Loose::Id(_) | Loose::Ids(_) | Loose::List(_) => Err("expected a string or a list of strings"),
        };
        Ok(Self(match loose {
            Loose::List(list) => list.into_iter().map(text).collect::<Result<_, _>>()?,
            one => vec![text(one)?],
        }))
    }
}

/// A list of token ids or a list of such lists.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "Loose")]
pub(crate) struct IdLists(pub(crate) Vec<Vec<u32>>);

impl TryFrom<Loose> for IdLists {
    type Error = &'static str;

    fn try_from(loose: Loose) -> Result<Self, &'static str> {
        let ids = |item| match item {
            Loose::Ids(ids) => Ok(ids),
            Loose::List(list) if list.is_empty() => Ok(Vec::new()),
            Loose::Text(_) | Loose::Id(_) | Loose::List(_) => {
                Err("expected a list of token ids or a list of such lists")
            }
        };
        Ok(Self(match loose {
            Loose::List(list) => list.into_iter().map(ids).collect::<Result<_, _>>()?,
            one => vec![ids(one)?],
        }))
    }
}

/// What to classify: a string, a pair (a flat list of two!), or a list of lists with one or two strings each.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "Loose")]
pub(crate) struct Sequences {
    pub(crate) inputs: Vec<Input>,
    /// Whether the answer is a list of answers.
    pub(crate) is_batch: bool,
}

impl TryFrom<Loose> for Sequences {
    type Error = String;

    fn try_from(loose: Loose) -> Result<Self, String> {
        let is_batch = match &loose {
            Loose::List(list) => !list.iter().any(|item| matches!(item, Loose::Text(_))),
            Loose::Text(_) | Loose::Id(_) | Loose::Ids(_) => false,
        };
        let inputs = match loose {
            Loose::List(list) if is_batch => {
                let sequences = list.into_iter().enumerate();
                let numbered = |(index, item)| sequence(item).map_err(|problem| format!("sequence {index}: {problem}"));
                sequences.map(numbered).collect::<Result<_, _>>()?
            }
            one => vec![sequence(one)?],
        };
        Ok(Self { inputs, is_batch })
    }
}

/// One text or a pair.
fn sequence(loose: Loose) -> Result<Input, String> {
    let Texts(mut texts) = loose.try_into().map_err(|_| "expected a string or a list of one or two strings")?;
    match (texts.pop(), texts.pop(), texts.len()) {
        (Some(text), None, _) => Ok(Input::Text(text)),
        (Some(second), Some(first), 0) => Ok(Input::Pair(first, second)),
        (None, ..) => Err("expected one or two strings, found none".to_owned()),
        (_, _, more) => Err(format!(
            "a flat list is one text (of one string) or a pair (of two), found {}; for many texts use a list of lists",
            more + 2
        )),
    }
}

/// Which end of a too long text is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
pub(crate) enum Direction {
    #[serde(rename = "right", alias = "Right")]
    Right,
    #[serde(rename = "left", alias = "Left")]
    Left,
}

/// The fields that say how texts become tokens, each absent when the client did not send it.
#[derive(Debug, Default)]
pub(crate) struct EncodeFields {
    pub(crate) truncate: Option<bool>,
    /// Cut to so many tokens; -1 to what the model takes.
    pub(crate) truncate_prompt_tokens: Option<i64>,
    pub(crate) truncation_direction: Option<Direction>,
    pub(crate) prompt_name: Option<String>,
    pub(crate) add_special_tokens: Option<bool>,
}

impl EncodeFields {
    /// Options for the inputs in `field`.
    ///
    /// # Errors
    /// [`Error::Validation`]
    pub(crate) fn for_field(self, field: &'static str) -> Result<EncodeOptions, ApiError> {
        let (truncate, max_tokens) = match self.truncate_prompt_tokens {
            None => (self.truncate, None),
            Some(-1) => (Some(true), None),
            Some(tokens) => match usize::try_from(tokens) {
                Ok(tokens) => (Some(true), Some(tokens)),
                Err(_) => {
                    let problem = format!("is {tokens}; it must be -1 (the model's limit) or a number of tokens");
                    return Err(Error::Validation { field: "truncate_prompt_tokens", problem }.into());
                }
            },
        };
        Ok(EncodeOptions {
            truncate,
            max_tokens,
            direction: match self.truncation_direction {
                Some(Direction::Left) => TruncationDirection::Left,
                Some(Direction::Right) | None => TruncationDirection::Right,
            },
            prompt_name: self.prompt_name,
            add_special_tokens: self.add_special_tokens.unwrap_or(true),
            field,
        })
    }
}

#[cfg(test)]
#[path = "extract_tests.rs"]
mod tests;
