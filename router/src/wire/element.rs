//! Element types of vectors, and vectors as bytes.

use super::pieces::PIECE;
use crate::error::ApiError;
use half::{bf16, f16};
use prefold_core::{Error, Pauses};
use serde::Deserialize;
use std::vec::IntoIter;
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

    /// Checks that the type can hold every value, with pauses; an overflow would become infinite.
    ///
    /// # Errors
    /// [`Error::Validation`]
    pub(crate) async fn check(self, vectors: &[Vec<f32>]) -> Result<(), ApiError> {
        let fits = |value: &f32| match self {
            Self::Float32 => true,
            Self::Float16 => f16::from_f32(*value).is_finite(),
            Self::Bfloat16 => bf16::from_f32(*value).is_finite(),
        };
        if self == Self::Float32 {
            return Ok(());
        }
        let mut pauses = Pauses::default();
        for vector in vectors {
            if let Some(value) = vector.iter().find(|value| !fits(value)) {
                let problem = format!("{} cannot hold the value {value} of a vector; ask for float32", self.as_str());
                return Err(Error::Validation { field: "embed_dtype", problem }.into());
            }
            pauses.after(vector.len()).await;
        }
        Ok(())
    }
}

fn fill<const N: usize>(bytes: &mut [u8], values: &[f32], encode: impl Fn(f32) -> [u8; N]) {
    let (slots, _) = bytes.as_chunks_mut::<N>();
    slots.iter_mut().zip(values).for_each(|(slot, &value)| *slot = encode(value));
}

/// The vectors as bytes, row by row, in pieces of some rows or of a part of a row.
pub(crate) struct BinaryPieces {
    vectors: IntoIter<Vec<f32>>,
    element: ElementType,
    /// The vector that is being written, and the number of its values that are written.
    open: (Vec<f32>, usize),
}

impl BinaryPieces {
    pub(crate) fn new(vectors: Vec<Vec<f32>>, element: ElementType) -> Self {
        Self { vectors: vectors.into_iter(), element, open: (Vec::new(), 0) }
    }
}

impl Iterator for BinaryPieces {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let size = self.element.size();
        let mut piece = Vec::new();
        while piece.len() < PIECE {
            let (vector, written) = &mut self.open;
            let rest = vector.get(*written..).unwrap_or(&[]);
            if rest.is_empty() {
                let Some(next) = self.vectors.next() else { break };
                self.open = (next, 0);
                continue;
            }
            // A row that ends in this piece or that no piece can hold, in parts.
            let values = rest.get(..PIECE / size).unwrap_or(rest);
            let start = piece.len();
            piece.resize(start + values.len() * size, 0);
            self.element.fill(&mut piece[start..], values);
            *written += values.len();
        }
        (!piece.is_empty()).then_some(piece)
    }

    /// No further piece is known once the last vector is written.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let (vector, written) = &self.open;
        let is_over = *written == vector.len() && self.vectors.len() == 0;
        (0, is_over.then_some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_little_endian() {
        let vectors: Vec<Vec<f32>> = vec![vec![1.0, -2.5], vec![0.1, 3.0]];
        let bytes = |element| BinaryPieces::new(vectors.clone(), element).collect::<Vec<_>>().concat();
        let expected: Vec<u8> = vectors.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(bytes(ElementType::Float32), expected);
        assert_eq!(bytes(ElementType::Float16)[..4], [0x00, 0x3c, 0x00, 0xc1]);
        assert_eq!(bytes(ElementType::Bfloat16)[..4], [0x80, 0x3f, 0x20, 0xc0]);
        assert!(BinaryPieces::new(Vec::new(), ElementType::Float32).next().is_none());
    }

    #[test]
    fn pieces_end_with_whole_rows_unless_a_row_is_too_long() {
        let sizes = |rows, row| -> Vec<usize> {
            let pieces = BinaryPieces::new(vec![vec![0.0; row]; rows], ElementType::Float32);
            pieces.map(|piece| piece.len()).collect()
        };
        let row = PIECE / 4 - 1;
        assert_eq!(sizes(3, row), [8 * row, 4 * row]);
        assert_eq!(sizes(1, 2 * row), [PIECE, 8 * row - PIECE]);
    }

    #[test]
    fn the_last_piece_is_known_as_such() {
        let mut pieces = BinaryPieces::new(vec![vec![0.0; 2], vec![1.0; 2]], ElementType::Float32);
        assert_eq!(pieces.size_hint().1, None);
        assert_eq!(pieces.next().map(|piece| piece.len()), Some(16));
        assert_eq!(pieces.size_hint().1, Some(0));
    }

    #[tokio::test]
    async fn what_a_type_cannot_hold_is_refused() {
        let vectors = [vec![1.0, 70_000.0]];
        let refused = ElementType::Float16.check(&vectors).await.unwrap_err().to_string();
        assert!(refused.contains("70000") && refused.contains("float32"), "{refused}");
        for element in [ElementType::Float32, ElementType::Bfloat16] {
            assert!(element.check(&vectors).await.is_ok());
        }
    }
}
