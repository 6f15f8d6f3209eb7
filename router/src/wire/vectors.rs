//! Vectors in JSON: numbers or base64.

use super::element::ElementType;
use super::json_writer::{base64_steps, float_steps};
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

/// Form of vectors in JSON, as requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonVectors {
    pub(crate) format: EncodingFormat,
    /// Element type of base64.
    pub(crate) element: ElementType,
}

impl JsonVectors {
    /// Writes a vector in steps.
    pub(crate) fn steps(self, vector: Vec<f32>) -> Box<dyn FnMut(&mut String) -> bool + Send> {
        match self.format {
            EncodingFormat::Float => Box::new(float_steps(vector)),
            EncodingFormat::Base64 => Box::new(base64_steps(vector, self.element)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::element::BinaryPieces;
    use crate::wire::pieces::JsonText;

    /// `cargo test --release -p prefold writing_vectors -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement"]
    fn writing_vectors() {
        let noise = |i: usize| (i.wrapping_mul(2_654_435_761) % 20_011) as f32 / 20_011.0 * 0.06 - 0.03;
        let vectors: Vec<Vec<f32>> = (0..512).map(|row| (0..4096).map(|i| noise(row * 4096 + i)).collect()).collect();
        let json = |format, element| {
            move |vectors: &[Vec<f32>]| {
                let json = JsonVectors { format, element };
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
