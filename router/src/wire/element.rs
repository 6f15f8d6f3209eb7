//! Element types of vectors, and vectors as bytes.

use super::pieces::PIECE;
use crate::error::ApiError;
use half::{bf16, f16};
use prefold_core::Error;
use serde::Deserialize;
use utoipa::ToSchema;

/// Element type of base64 and binary vectors, little-endian.
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

impl ElementType {
    /// Name in requests.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
        }
    }

    /// Bytes per value.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Float32 => 4,
            Self::Float16 | Self::Bfloat16 => 2,
        }
    }

    /// Writes values as little-endian bytes. `bytes` holds [`size`](Self::size) bytes per value.
    pub(crate) fn fill(self, bytes: &mut [u8], values: &[f32]) {
        match self {
            Self::Float32 => fill(bytes, values, f32::to_le_bytes),
            Self::Float16 => fill(bytes, values, |value| f16::from_f32(value).to_le_bytes()),
            Self::Bfloat16 => fill(bytes, values, |value| bf16::from_f32(value).to_le_bytes()),
        }
    }

    /// Checks that the type can hold every value; an overflow would become infinite.
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

/// The vectors as bytes, row by row, in pieces of some rows.
pub(crate) fn binary_pieces(vectors: Vec<Vec<f32>>, element: ElementType) -> impl Iterator<Item = Vec<u8>> {
    let mut vectors = vectors.into_iter();
    std::iter::from_fn(move || {
        let mut piece = Vec::new();
        while piece.len() < PIECE
            && let Some(vector) = vectors.next()
        {
            let start = piece.len();
            piece.resize(start + vector.len() * element.size(), 0);
            element.fill(&mut piece[start..], &vector);
        }
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_little_endian() {
        let vectors: Vec<Vec<f32>> = vec![vec![1.0, -2.5], vec![0.1, 3.0]];
        let bytes = |element| binary_pieces(vectors.clone(), element).collect::<Vec<_>>().concat();
        let expected: Vec<u8> = vectors.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(bytes(ElementType::Float32), expected);
        assert_eq!(bytes(ElementType::Float16)[..4], [0x00, 0x3c, 0x00, 0xc1]);
        assert_eq!(bytes(ElementType::Bfloat16)[..4], [0x80, 0x3f, 0x20, 0xc0]);
        assert!(binary_pieces(Vec::new(), ElementType::Float32).next().is_none());
    }

    #[test]
    fn pieces_end_with_whole_rows() {
        let row = PIECE / 4 - 1;
        let sizes: Vec<usize> =
            binary_pieces(vec![vec![0.0; row]; 3], ElementType::Float32).map(|piece| piece.len()).collect();
        assert_eq!(sizes, [8 * row, 4 * row]);
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
}
