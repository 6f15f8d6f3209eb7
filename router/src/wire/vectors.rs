//! Vectors in JSON: numbers or base64.

use super::element::Element;
use super::json_writer::{base64_steps, float_steps, integer_steps};
use super::quantize::QuantizedType;
use serde::Deserialize;
use utoipa::ToSchema;

/// Form of a vector in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EncodingFormat {
    /// A list of numbers.
    #[default]
    Float,
    /// A base64 string, which OpenAI's clients ask for.
    Base64,
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

    /// Form in JSON.
    pub(crate) fn format(self) -> EncodingFormat {
        if self == Self::Base64 { EncodingFormat::Base64 } else { EncodingFormat::Float }
    }
}

/// Form of vectors in JSON, as requested.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct JsonVectors {
    pub(crate) format: EncodingFormat,
    /// Element type of base64; in lists, floats are `float32`.
    pub(crate) element: Element,
}

impl JsonVectors {
    /// Writes a vector in steps.
    pub(crate) fn steps(
        self,
        vector: impl AsRef<[f32]> + Send + 'static,
    ) -> Box<dyn FnMut(&mut String) -> bool + Send> {
        match (self.format, self.element) {
            (EncodingFormat::Float, Element::Float(_)) => Box::new(float_steps(vector)),
            (EncodingFormat::Float, Element::Quantized(quantizer)) => Box::new(integer_steps(vector, quantizer)),
            (EncodingFormat::Base64, element) => Box::new(base64_steps(vector, element)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::element::{BinaryPieces, ElementType};
    use crate::wire::pieces::JsonText;

    /// `cargo test --release -p prefold writing_vectors -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement"]
    fn writing_vectors() {
        let noise = |i: usize| (i.wrapping_mul(2_654_435_761) % 20_011) as f32 / 20_011.0 * 0.06 - 0.03;
        let vectors: Vec<Vec<f32>> = (0..512).map(|row| (0..4096).map(|i| noise(row * 4096 + i)).collect()).collect();
        let json = |format, element| {
            move |vectors: &[Vec<f32>]| {
                let json = JsonVectors { format, element: Element::Float(element) };
                let text = JsonText::default().list_of(vectors.to_vec(), move |vector| json.steps(vector));
                text.flatten().collect()
            }
        };
        type Write = Box<dyn Fn(&[Vec<f32>]) -> Vec<u8>>;
        let ways: [(&str, Write); 6] = [
            ("serde_json", Box::new(|vectors| serde_json::to_vec(vectors).unwrap())),
            ("float", Box::new(json(EncodingFormat::Float, ElementType::Float32))),
            ("base64", Box::new(json(EncodingFormat::Base64, ElementType::Float32))),
            ("base64, float16", Box::new(json(EncodingFormat::Base64, ElementType::Float16))),
            ("binary", Box::new(|vectors| BinaryPieces::new(vectors.to_vec(), Element::default()).flatten().collect())),
            (
                "binary, float16",
                Box::new(|vectors| {
                    BinaryPieces::new(vectors.to_vec(), Element::Float(ElementType::Float16)).flatten().collect()
                }),
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
