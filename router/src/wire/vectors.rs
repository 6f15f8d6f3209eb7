//! Forms of vectors in responses: JSON with numbers or base64, or bytes.

use super::accept::Accept;
use super::answer::Answer;
use super::element::{Element, ElementType, Endianness, Layout};
use super::json_writer::{base64_steps, float_steps, integer_steps};
use super::pieces::JsonText;
use super::prompt::ignore;
use super::quantize::QuantizedType;
use super::usage::UsageBody;
use crate::error::ApiError;
use crate::state::call::Call;
use crate::state::unix_time;
use axum::http::HeaderValue;
use prefold_core::{Error, Response, shown};
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::de::{Error as _, IntoDeserializer, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::num::NonZero;
use utoipa::ToSchema;

/// Maximum inputs of a response whose header describes each vector: clients read headers of at most 64 KiB.
const MAX_DESCRIBED: usize = 256;

/// Form of a response's vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EncodingFormat {
    /// A list of numbers.
    #[default]
    Float,
    /// A base64 string, which OpenAI's clients ask for.
    Base64,
    /// The bytes of the vectors, one after another, and the header `metadata` with their places; up to 256 inputs.
    Bytes,
    /// The bytes of the vectors alone.
    BytesOnly,
}

/// Element type of vectors, by the names of Cohere's, Voyage's and Jina's APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EmbeddingType {
    /// `float32`
    Float,
    /// Integers from -127 to 127. 127 stands for the range that the response header `x-embedding-range` states.
    Int8,
    /// `int8` plus 128.
    Uint8,
    /// `ubinary` minus 128.
    Binary,
    /// Integers from 0 to 255, each with the bits of eight values: 1 for a positive value, the first value in the highest bit.
    Ubinary,
    /// Base64 of little-endian `float32`.
    Base64,
}

/// An element type, or a list of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OneEmbeddingType(pub(crate) EmbeddingType);

impl<'de> Deserialize<'de> for OneEmbeddingType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneVisitor).map(Self)
    }
}

struct OneVisitor;

impl<'de> Visitor<'de> for OneVisitor {
    type Value = EmbeddingType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`float`, `int8`, `uint8`, `binary`, `ubinary` or `base64`, or a list of one of them")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<EmbeddingType, E> {
        let known: StrDeserializer<'_, ValueError> = name.into_deserializer();
        // The deserializer of a request cuts what an error repeats of it; this one does not.
        EmbeddingType::deserialize(known).map_err(|_| E::invalid_value(Unexpected::Str(&shown(name)), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<EmbeddingType, A::Error> {
        let one = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
        match seq.next_element::<EmbeddingType>()? {
            None => Ok(one),
            Some(_) => Err(A::Error::custom("a list of several types is not supported: an answer has one")),
        }
    }
}

impl EmbeddingType {
    /// All types, in the order in which they are declared.
    pub(crate) const ALL: [Self; 6] = [Self::Float, Self::Int8, Self::Uint8, Self::Binary, Self::Ubinary, Self::Base64];

    /// The integers; `None` for floats.
    pub(crate) fn quantized(self) -> Option<QuantizedType> {
        match self {
            Self::Float | Self::Base64 => None,
            Self::Int8 => Some(QuantizedType::Int8),
            Self::Uint8 => Some(QuantizedType::Uint8),
            Self::Binary => Some(QuantizedType::Binary),
            Self::Ubinary => Some(QuantizedType::Ubinary),
        }
    }

    /// Form in JSON, whatever the request's `encoding_format` is.
    pub(crate) fn format(self) -> EncodingFormat {
        if self == Self::Base64 { EncodingFormat::Base64 } else { EncodingFormat::Float }
    }

    /// Form in JSON of elements of this type.
    pub(crate) fn form(self, element: Element) -> JsonForm {
        if self == Self::Base64 { JsonForm::Base64(element.into()) } else { JsonForm::List(element) }
    }
}

/// Form of vectors in JSON.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum JsonForm {
    /// Numbers: floats are `float32`, whatever their type.
    List(Element),
    Base64(Layout),
}

impl Default for JsonForm {
    fn default() -> Self {
        Self::List(Element::default())
    }
}

impl JsonForm {
    /// Writes the values of one input in steps.
    pub(crate) fn steps(
        self,
        vector: impl AsRef<[f32]> + Send + 'static,
    ) -> Box<dyn FnMut(&mut String) -> bool + Send> {
        match self {
            Self::List(Element::Float(_)) => Box::new(float_steps(vector)),
            Self::List(Element::Quantized(quantizer)) => Box::new(integer_steps(vector, quantizer)),
            Self::Base64(layout) => Box::new(base64_steps(vector, layout)),
        }
    }

    /// The elements.
    pub(crate) fn element(self) -> Element {
        match self {
            Self::List(element) | Self::Base64(Layout { element, .. }) => element,
        }
    }
}

/// Form of a response's vectors, as requested.
#[derive(Debug, Clone, Copy)]
pub(crate) enum VectorForm {
    Json(JsonForm),
    Binary {
        layout: Layout,
        /// The header `metadata` has the place of each input's values.
        is_described: bool,
    },
}

/// Further facts of a response in the header `metadata`.
#[derive(Debug, Serialize)]
pub(crate) struct Metadata<'a> {
    id: String,
    /// Unix time in seconds.
    created: u64,
    model: &'a str,
    data: Vec<Place>,
    usage: UsageBody,
}

/// Place of the values of one input among the bytes of a response.
#[derive(Debug, Serialize)]
struct Place {
    index: usize,
    embed_dtype: &'static str,
    endianness: &'static str,
    start: usize,
    end: usize,
    shape: Vec<usize>,
}

impl VectorForm {
    /// The form that the header and the fields ask for; the header comes first.
    pub(crate) fn new(accept: Accept, format: Option<EncodingFormat>, layout: Layout) -> Self {
        match (accept, format.unwrap_or_default()) {
            (Accept::Binary(_), _) => Self::Binary { layout, is_described: false },
            (Accept::Json, EncodingFormat::Float) => Self::Json(JsonForm::List(layout.element)),
            (Accept::Json, EncodingFormat::Base64) => Self::Json(JsonForm::Base64(layout)),
            (Accept::Json, format) => Self::Binary { layout, is_described: format == EncodingFormat::Bytes },
        }
    }

    /// Names the fields about bytes that differ from their defaults as ignored, if the response is a list of numbers.
    ///
    /// # Errors
    /// [`Error::Validation`] with `--strict-fields`.
    pub(crate) fn ignore_byte_fields(
        self,
        embed_dtype: Option<ElementType>,
        endianness: Option<Endianness>,
        call: &Call,
    ) -> Result<(), Error> {
        let is_other = embed_dtype.is_some_and(|asked| asked != ElementType::default());
        for (field, is_other) in [("embed_dtype", is_other), ("endianness", endianness == Some(Endianness::Big))] {
            if is_other && matches!(self, Self::Json(JsonForm::List(_))) {
                ignore(field, "the response has JSON numbers, not bytes", call)?;
            }
        }
        Ok(())
    }

    /// Checks the number of inputs, before anything is computed.
    ///
    /// # Errors
    /// [`Error::Validation`] if the header could not describe all of them.
    pub(crate) fn check(self, inputs: usize) -> Result<(), Error> {
        let is_described = matches!(self, Self::Binary { is_described: true, .. });
        if is_described && inputs > MAX_DESCRIBED {
            let problem = format!(
                "is `bytes`, whose header `metadata` describes up to {MAX_DESCRIBED} inputs; the request has {inputs}: use \
                 `bytes_only`"
            );
            return Err(Error::invalid("encoding_format", problem));
        }
        Ok(())
    }

    /// The response. The values of an input are a vector, or with `width` rows of `width` values. `json` writes all of
    /// it in JSON; `id` and `model` are for the header.
    ///
    /// # Errors
    /// The element type cannot hold a value.
    pub(crate) async fn answer(
        self,
        answered: Response<Vec<f32>>,
        width: Option<NonZero<usize>>,
        (id, model): (String, &str),
        json: impl FnOnce(JsonForm, Vec<Vec<f32>>) -> JsonText,
    ) -> Result<Answer, ApiError> {
        match self {
            Self::Json(form) => {
                if let JsonForm::Base64(Layout { element, .. }) = form {
                    element.check(&answered.results).await?;
                }
                Ok(Answer::json(answered, |results| json(form, results)).with_range(form.element().range()))
            }
            Self::Binary { layout, is_described } => {
                let data = if is_described { places(layout, width, &answered.results) } else { Vec::new() };
                let metadata = Metadata { id, created: unix_time(), model, data, usage: answered.usage.into() };
                let metadata = is_described.then(|| metadata.header()).flatten();
                Answer::binary(answered, layout, width, metadata).await
            }
        }
    }
}

fn places(layout: Layout, width: Option<NonZero<usize>>, results: &[Vec<f32>]) -> Vec<Place> {
    let mut end = 0;
    let place = |(index, values): (usize, &Vec<f32>)| {
        let start = end;
        end += layout.element.bytes_of(values.len());
        let elements = layout.element.elements_of(values.len());
        let shape = width.map_or_else(|| vec![elements], |width| vec![values.len() / width, width.get()]);
        let (embed_dtype, endianness) = (layout.element.as_str(), layout.endianness.as_str());
        Place { index, embed_dtype, endianness, start, end, shape }
    };
    results.iter().enumerate().map(place).collect()
}

impl Metadata<'_> {
    /// The JSON in ASCII.
    fn header(&self) -> Option<HeaderValue> {
        // Serialization of our own structs into memory cannot fail.
        let json = serde_json::to_string(self).unwrap_or_default();
        let mut ascii = String::with_capacity(json.len());
        for character in json.chars() {
            match character {
                ' '..='~' => ascii.push(character),
                _ => character
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| ascii.push_str(&format!("\\u{unit:04x}"))),
            }
        }
        HeaderValue::try_from(ascii).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::element::{BinaryPieces, ElementType, Endianness};

    #[test]
    fn a_header_is_in_ascii() {
        let usage = prefold_core::Usage::default().into();
        let metadata =
            Metadata { id: "e".to_owned(), created: 1, model: "\u{e9} \"\u{1f980}\"\n", data: Vec::new(), usage };
        let header = metadata.header().unwrap();
        let text = header.to_str().unwrap();
        assert!(text.contains(r#""\u00e9 \"\ud83e\udd80\"\n""#), "{text}");
        let read: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(read["model"], metadata.model);
    }

    #[test]
    fn places_follow_each_other() {
        let layout = Layout { element: Element::Float(ElementType::Float16), endianness: Endianness::Big };
        let vectors = places(layout, None, &[vec![0.0; 3], vec![0.0; 3]]);
        let place = |place: &Place| (place.index, place.start, place.end, place.shape.clone());
        assert_eq!(vectors.iter().map(place).collect::<Vec<_>>(), [(0, 0, 6, vec![3]), (1, 6, 12, vec![3])]);
        let rows = places(layout, NonZero::new(2), &[vec![0.0; 4], vec![0.0; 2]]);
        assert_eq!(rows.iter().map(place).collect::<Vec<_>>(), [(0, 0, 8, vec![2, 2]), (1, 8, 12, vec![1, 2])]);
        assert_eq!((rows[0].embed_dtype, rows[0].endianness), ("float16", "big"));
    }

    /// `cargo test --release -p prefold writing_vectors -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement"]
    fn writing_vectors() {
        let noise = |i: usize| (i.wrapping_mul(2_654_435_761) % 20_011) as f32 / 20_011.0 * 0.06 - 0.03;
        let vectors: Vec<Vec<f32>> = (0..512).map(|row| (0..4096).map(|i| noise(row * 4096 + i)).collect()).collect();
        let json = |json: JsonForm| {
            move |vectors: &[Vec<f32>]| {
                let text = JsonText::default().list_of(vectors.to_vec(), move |vector| json.steps(vector));
                text.flatten().collect()
            }
        };
        type Write = Box<dyn Fn(&[Vec<f32>]) -> Vec<u8>>;
        let ways: [(&str, Write); 6] = [
            ("serde_json", Box::new(|vectors| serde_json::to_vec(vectors).unwrap())),
            ("float", Box::new(json(JsonForm::default()))),
            ("base64", Box::new(json(JsonForm::Base64(ElementType::Float32.into())))),
            ("base64, float16", Box::new(json(JsonForm::Base64(ElementType::Float16.into())))),
            (
                "binary",
                Box::new(|vectors| BinaryPieces::new(vectors.to_vec(), ElementType::Float32).flatten().collect()),
            ),
            (
                "binary, float16",
                Box::new(|vectors| BinaryPieces::new(vectors.to_vec(), ElementType::Float16).flatten().collect()),
            ),
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
