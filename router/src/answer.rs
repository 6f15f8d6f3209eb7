//! From an engine's answer to a response, once for all routes: the body, what it cost, and the headers that tell.

use crate::error::ApiError;
use crate::vectors::{ElementType, binary_rows};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use prefold_core::{Response as Answered, Timings, Usage};
use serde::Serialize;
use std::time::Duration;

/// The type of the values of a binary answer.
pub(crate) const DTYPE: HeaderName = HeaderName::from_static("x-embedding-dtype");

/// `rows,values` of a binary answer.
pub(crate) const SHAPE: HeaderName = HeaderName::from_static("x-embedding-shape");

/// A body and, when the model ran for it, what it cost.
#[derive(Debug)]
pub(crate) struct Answer {
    body: Vec<u8>,
    form: Form,
    cost: Option<Cost>,
}

/// What the body is.
#[derive(Debug)]
enum Form {
    Json,
    /// Rows of vectors.
    Binary {
        rows: usize,
        dim: usize,
        element: ElementType,
    },
}

/// What a request cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) usage: Usage,
    pub(crate) timings: Timings,
}

impl Answer {
    /// A body that `write` appends to an empty string.
    pub(crate) fn written<T>(answered: &Answered<T>, write: impl FnOnce(&mut String)) -> Self {
        let mut body = String::new();
        write(&mut body);
        Self { body: body.into_bytes(), form: Form::Json, cost: Some(Cost::of(answered)) }
    }

    /// The rows of vectors as they are.
    ///
    /// # Errors
    /// The type cannot hold a value.
    pub(crate) fn binary(answered: &Answered<Vec<f32>>, element: ElementType) -> Result<Self, ApiError> {
        let vectors = &answered.results;
        element.check(vectors)?;
        let form = Form::Binary { rows: vectors.len(), dim: vectors.first().map_or(0, Vec::len), element };
        Ok(Self { body: binary_rows(vectors, element), form, cost: Some(Cost::of(answered)) })
    }

    /// A value as the body.
    pub(crate) fn json<T>(answered: &Answered<T>, value: &impl Serialize) -> Self {
        Self { cost: Some(Cost::of(answered)), ..Self::free(value) }
    }

    /// A value as the body of an answer that the model did not run for.
    pub(crate) fn free(value: &impl Serialize) -> Self {
        // The values are our own structs, whose serialisation into memory cannot fail.
        Self { body: serde_json::to_vec(value).unwrap_or_default(), form: Form::Json, cost: None }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        let headers = response.headers_mut();
        match self.form {
            Form::Json => {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            Form::Binary { rows, dim, element } => {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
                headers.insert(DTYPE, HeaderValue::from_static(element.as_str()));
                if let Ok(shape) = HeaderValue::from_str(&format!("{rows},{dim}")) {
                    headers.insert(SHAPE, shape);
                }
            }
        }
        if let Some(cost) = self.cost {
            response.extensions_mut().insert(cost);
        }
        response
    }
}

impl Cost {
    fn of<T>(answered: &Answered<T>) -> Self {
        Self { usage: answered.usage, timings: answered.timings }
    }

    /// Inserts TEI's headers (milliseconds as integers) and those that tell of compaction.
    ///
    /// `x-compute-tokens` counts the request's own tokens, `x-compute-compact-tokens` those of them that were computed
    /// for it, without the prefixes that its batch had already. `x-compute-batch-tokens` and `x-compute-unique-tokens` are
    /// N and N' of the batches that it was in, which others may have shared; `x-compaction-ratio` is N'/N.
    pub(crate) fn write_headers(&self, headers: &mut HeaderMap, device: &str, elapsed: Duration) {
        let Self { usage, timings } = self;
        let milliseconds = |duration: Duration| HeaderValue::from(duration.as_millis() as u64);
        let mut insert = |name, value| headers.insert(HeaderName::from_static(name), value);
        if let Ok(device) = HeaderValue::from_str(device) {
            insert("x-compute-type", device);
        }
        insert("x-compute-time", milliseconds(elapsed));
        insert("x-total-time", milliseconds(elapsed));
        insert("x-tokenization-time", milliseconds(timings.tokenization));
        insert("x-queue-time", milliseconds(timings.queue));
        insert("x-planning-time", milliseconds(timings.planning));
        insert("x-inference-time", milliseconds(timings.inference));
        insert("x-compute-characters", HeaderValue::from(usage.characters));
        insert("x-compute-tokens", HeaderValue::from(usage.tokens));
        insert("x-compute-compact-tokens", HeaderValue::from(usage.computed_tokens));
        insert("x-compute-batch-tokens", HeaderValue::from(usage.batch_tokens));
        insert("x-compute-unique-tokens", HeaderValue::from(usage.batch_unique_tokens));
        if let Ok(ratio) = HeaderValue::from_str(&format!("{:.4}", usage.compaction_ratio())) {
            insert("x-compaction-ratio", ratio);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_milliseconds_and_counts() {
        let cost = Cost {
            usage: Usage { characters: 11, tokens: 7, computed_tokens: 5, batch_tokens: 40, batch_unique_tokens: 10 },
            timings: Timings {
                total: Duration::from_micros(9_900),
                tokenization: Duration::from_micros(1_999),
                queue: Duration::from_millis(3),
                planning: Duration::from_micros(40),
                inference: Duration::from_millis(5),
            },
        };
        let mut headers = HeaderMap::new();
        cost.write_headers(&mut headers, "cpu", Duration::from_millis(12));
        for (name, value) in [
            ("x-compute-type", "cpu"),
            ("x-compute-time", "12"),
            ("x-total-time", "12"),
            ("x-tokenization-time", "1"),
            ("x-queue-time", "3"),
            ("x-planning-time", "0"),
            ("x-inference-time", "5"),
            ("x-compute-characters", "11"),
            ("x-compute-tokens", "7"),
            ("x-compute-compact-tokens", "5"),
            ("x-compute-batch-tokens", "40"),
            ("x-compute-unique-tokens", "10"),
            ("x-compaction-ratio", "0.2500"),
        ] {
            assert_eq!(headers[name], value, "{name}");
        }
    }
}
