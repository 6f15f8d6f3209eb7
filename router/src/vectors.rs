//! How vectors are written into a body: as JSON numbers, as base64, or as the bytes themselves.

use crate::error::ApiError;
use crate::wire::{write_base64, write_floats};
use axum::extract::FromRequestParts;
use axum::http::{HeaderValue, header, request::Parts};
use half::{bf16, f16};
use prefold_core::Error;
use serde::Deserialize;
use utoipa::ToSchema;

const BINARY: &str = "application/octet-stream";

/// The type of a value in base64 and binary vectors, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ElementType {
    /// Four bytes.
    #[default]
    Float32,
    /// Two bytes, values up to 65504.
    Float16,
    /// Two bytes, the range of `float32`.
    Bfloat16,
}

/// How a vector is written into JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EncodingFormat {
    /// A list of numbers.
    #[default]
    Float,
    /// A string; what OpenAI's own clients ask for.
    Base64,
}

impl ElementType {
    /// The name that requests use.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
        }
    }

    /// Bytes of a value.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Float32 => 4,
            Self::Float16 | Self::Bfloat16 => 2,
        }
    }

    /// Writes values as little-endian bytes. `bytes` has [`size`](Self::size) for each of them.
    pub(crate) fn fill(self, bytes: &mut [u8], values: &[f32]) {
        match self {
            Self::Float32 => fill(bytes, values, f32::to_le_bytes),
            Self::Float16 => fill(bytes, values, |value| f16::from_f32(value).to_le_bytes()),
            Self::Bfloat16 => fill(bytes, values, |value| bf16::from_f32(value).to_le_bytes()),
        }
    }

    /// Whether the type can hold every value: what overflows would become infinite.
    ///
    /// # Errors
    /// [`Error::Validation`]
    pub(crate) fn check(self, vectors: &[Vec<f32>]) -> Result<(), ApiError> {
        let fits = |value: &f32| match self {
            Self::Float32 => true,
            Self::Float16 => f16::from_f32(*value).is_finite(),
            Self::Bfloat16 => bf16::from_f32(*value).is_finite(),
        };
        match vectors.iter().flatten().find(|value| !fits(value)) {
            None => Ok(()),
            Some(value) => {
                let problem = format!("{} cannot hold the value {value} of a vector; ask for float32", self.as_str());
                Err(Error::Validation { field: "embed_dtype", problem }.into())
            }
        }
    }
}

fn fill<const N: usize>(bytes: &mut [u8], values: &[f32], encode: impl Fn(f32) -> [u8; N]) {
    let (slots, _) = bytes.as_chunks_mut::<N>();
    slots.iter_mut().zip(values).for_each(|(slot, &value)| *slot = encode(value));
}

/// The rows of vectors, one after another.
pub(crate) fn binary_rows(vectors: &[Vec<f32>], element: ElementType) -> Vec<u8> {
    let mut body = vec![0; vectors.iter().map(Vec::len).sum::<usize>() * element.size()];
    let mut rest = body.as_mut_slice();
    for vector in vectors {
        let (row, after) = std::mem::take(&mut rest).split_at_mut(vector.len() * element.size());
        element.fill(row, vector);
        rest = after;
    }
    body
}

/// Writes vectors into JSON as a request asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonVectors {
    pub(crate) format: EncodingFormat,
    /// Of base64.
    pub(crate) element: ElementType,
}

impl JsonVectors {
    /// Bytes to set aside for the vectors, so that a large body is not copied while it grows.
    pub(crate) fn capacity(self, vectors: &[Vec<f32>]) -> usize {
        /// Around each vector.
        const FRAME: usize = 64;
        /// Most digits, sign, point and comma of a value of a unit vector.
        const FLOAT: usize = 14;
        let values: usize = vectors.iter().map(Vec::len).sum();
        let bytes = match self.format {
            EncodingFormat::Float => values * FLOAT,
            EncodingFormat::Base64 => (values * self.element.size()).div_ceil(3) * 4,
        };
        bytes + (vectors.len() + 4) * FRAME
    }

    pub(crate) fn write(self, out: &mut String, vector: &[f32]) {
        match self.format {
            EncodingFormat::Float => write_floats(out, vector),
            EncodingFormat::Base64 => write_base64(out, vector, self.element),
        }
    }
}

/// What the header `Accept` asks for: `application/octet-stream` is binary rows, with an optional parameter `dtype`, unless
/// JSON is liked as much and named before it, or more; everything else is JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accept {
    Json,
    /// The type of the values, when it is said.
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
    // RFC 9110, section 12.5.1: the weight `q` decides. Of equals the first is taken.
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

/// A parameter `dtype`.
fn named_element(name: &str) -> Result<ElementType, ApiError> {
    match name {
        "float32" | "f32" => Ok(ElementType::Float32),
        "float16" | "f16" => Ok(ElementType::Float16),
        "bfloat16" | "bf16" => Ok(ElementType::Bfloat16),
        other => {
            let problem = format!("asks for dtype `{other}`; the types are float32, float16 and bfloat16");
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

    #[test]
    fn rows_are_little_endian() {
        let vectors = [vec![1.0, -2.5], vec![0.1, 3.0]];
        let bytes = binary_rows(&vectors, ElementType::Float32);
        let expected: Vec<u8> = vectors.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(bytes, expected);
        assert_eq!(binary_rows(&vectors, ElementType::Float16)[..4], [0x00, 0x3c, 0x00, 0xc1]);
        assert_eq!(binary_rows(&vectors, ElementType::Bfloat16)[..4], [0x80, 0x3f, 0x20, 0xc0]);
        assert!(binary_rows(&[], ElementType::Float32).is_empty());
    }

    #[test]
    fn what_a_type_cannot_hold_is_refused() {
        let vectors = [vec![1.0, 70_000.0]];
        let refused = ElementType::Float16.check(&vectors).unwrap_err().to_string();
        assert!(refused.contains("70000") && refused.contains("float32"), "{refused}");
        for element in [ElementType::Float32, ElementType::Bfloat16] {
            assert!(element.check(&vectors).is_ok());
        }
    }

    #[test]
    fn a_body_is_as_long_as_was_thought() {
        let vectors: Vec<Vec<f32>> = (0..9).map(|i| vec![-1.234_567_9e-8 * (i + 1) as f32; 384]).collect();
        for (format, element) in [
            (EncodingFormat::Float, ElementType::Float32),
            (EncodingFormat::Base64, ElementType::Float32),
            (EncodingFormat::Base64, ElementType::Float16),
        ] {
            let json = JsonVectors { format, element };
            let mut out = String::new();
            crate::wire::write_list(&mut out, &vectors, |out, vector| json.write(out, vector));
            let capacity = json.capacity(&vectors);
            assert!(out.len() <= capacity && capacity < 2 * out.len(), "{json:?}: {} of {capacity}", out.len());
        }
    }

    /// `cargo test --release -p prefold writing_vectors -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement"]
    fn writing_vectors() {
        let noise = |i: usize| (i.wrapping_mul(2_654_435_761) % 20_011) as f32 / 20_011.0 * 0.06 - 0.03;
        let vectors: Vec<Vec<f32>> = (0..512).map(|row| (0..4096).map(|i| noise(row * 4096 + i)).collect()).collect();
        let json = |format, element| {
            move |vectors: &[Vec<f32>]| {
                let json = JsonVectors { format, element };
                let mut out = String::with_capacity(json.capacity(vectors));
                crate::wire::write_list(&mut out, vectors, |out, vector| json.write(out, vector));
                out.into_bytes()
            }
        };
        type Write = Box<dyn Fn(&[Vec<f32>]) -> Vec<u8>>;
        let ways: [(&str, Write); 6] = [
            ("serde_json", Box::new(|vectors| serde_json::to_vec(vectors).unwrap())),
            ("float", Box::new(json(EncodingFormat::Float, ElementType::Float32))),
            ("base64", Box::new(json(EncodingFormat::Base64, ElementType::Float32))),
            ("base64, float16", Box::new(json(EncodingFormat::Base64, ElementType::Float16))),
            ("binary", Box::new(|vectors| binary_rows(vectors, ElementType::Float32))),
            ("binary, float16", Box::new(|vectors| binary_rows(vectors, ElementType::Float16))),
        ];
        for (name, write) in ways {
            let once = |_| {
                let start = std::time::Instant::now();
                let len = write(&vectors).len();
                (start.elapsed(), len)
            };
            let (time, len) = (0..5).map(once).min().unwrap();
            println!("512 vectors of 4096, {name}: {:.1} ms, {:.1} MB", time.as_secs_f64() * 1e3, len as f64 / 1e6);
        }
    }
}
