//! The header `Accept`: JSON or binary vectors.

use super::element::ElementType;
use crate::error::ApiError;
use axum::extract::FromRequestParts;
use axum::http::{HeaderValue, header, request::Parts};
use prefold_core::{Error, shown};

const BINARY: &str = "application/octet-stream";

/// Content type of the response. `application/octet-stream` in `Accept`, with an optional parameter `dtype`, asks for
/// binary vectors, unless JSON has a greater weight, or the same and comes first. Anything else asks for JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accept {
    Json,
    /// Element type, if given.
    Binary(Option<ElementType>),
}

impl<S: Sync> FromRequestParts<S> for Accept {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parse_accept(parts.headers.get_all(header::ACCEPT).iter())
    }
}

fn parse_accept<'a>(values: impl Iterator<Item = &'a HeaderValue>) -> Result<Accept, ApiError> {
    let ranges = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    // RFC 9110, section 12.5.1: the greatest weight `q` wins, the first of equals.
    let mut best = (0.0, Accept::Json);
    for range in ranges {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let is_binary = media == BINARY;
        if !is_binary && !matches!(media.as_str(), "application/json" | "application/*" | "*/*") {
            continue;
        }
        let (mut weight, mut element) = (1.0, None);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.to_ascii_lowercase().as_str() {
                "q" => weight = value.parse().unwrap_or(1.0),
                "dtype" if is_binary => element = Some(value.trim_matches('"')),
                _ => {}
            }
        }
        if weight > best.0 {
            best = (
                weight,
                if is_binary { Accept::Binary(element.map(named_element).transpose()?) } else { Accept::Json },
            );
        }
    }
    Ok(best.1)
}

/// Parses the parameter `dtype`.
fn named_element(name: &str) -> Result<ElementType, ApiError> {
    match name {
        "float32" | "f32" => Ok(ElementType::Float32),
        "float16" | "f16" => Ok(ElementType::Float16),
        "bfloat16" | "bf16" => Ok(ElementType::Bfloat16),
        "fp8_e4m3" => Ok(ElementType::Fp8E4m3),
        "fp8_e5m2" => Ok(ElementType::Fp8E5m2),
        other => {
            let problem =
                format!("asks for dtype `{}`; use float32, float16, bfloat16, fp8_e4m3 or fp8_e5m2", shown(other));
            Err(Error::Validation { field: "Accept", problem }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(values: &[&'static str]) -> Result<Accept, String> {
        let values: Vec<_> = values.iter().copied().map(HeaderValue::from_static).collect();
        parse_accept(values.iter()).map_err(|error| error.to_string())
    }

    #[test]
    fn accept_headers() {
        let binary = |element| Ok(Accept::Binary(element));
        for (values, expected) in [
            (&[][..], Ok(Accept::Json)),
            (&["*/*"], Ok(Accept::Json)),
            (&["application/json, text/plain"], Ok(Accept::Json)),
            (&["application/octet-stream"], binary(None)),
            (&["text/plain;q=0.3, Application/Octet-Stream ; q=0.9"], binary(None)),
            (&["text/plain", "application/octet-stream; dtype=float16"], binary(Some(ElementType::Float16))),
            (&["application/octet-stream;dtype=\"bf16\""], binary(Some(ElementType::Bfloat16))),
            (&["application/octet-stream;DTYPE=f32"], binary(Some(ElementType::Float32))),
            (&["application/octet-stream, */*"], binary(None)),
            (&["application/json, application/octet-stream"], Ok(Accept::Json)),
            (&["application/json, application/octet-stream;q=0.1"], Ok(Accept::Json)),
            (&["application/json;q=0.1, application/octet-stream;q=0.5;dtype=f16"], binary(Some(ElementType::Float16))),
            (&["application/octet-stream;q=0"], Ok(Accept::Json)),
        ] {
            assert_eq!(accept(values), expected, "{values:?}");
        }
        assert!(accept(&["application/octet-stream;dtype=int8"]).unwrap_err().contains("int8"));
    }
}
