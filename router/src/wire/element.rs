//! Element types of vectors, and vectors as bytes.

use super::fp8::{E4M3, E5M2, Fp8};
use super::pieces::PIECE;
use super::quantize::Quantizer;
use crate::error::ApiError;
use half::{bf16, f16};
use prefold_core::{Error, Pauses};
use serde::Deserialize;
use std::vec::IntoIter;
use utoipa::ToSchema;

/// Element type of base64 and binary vectors of floats.
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
    /// One byte with three bits of mantissa, values up to 448.
    #[serde(rename = "fp8_e4m3")]
    Fp8E4m3,
    /// One byte with two bits of mantissa, values up to 57344.
    #[serde(rename = "fp8_e5m2")]
    Fp8E5m2,
}

impl ElementType {
    /// Name in requests.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
            Self::Fp8E4m3 => "fp8_e4m3",
            Self::Fp8E5m2 => "fp8_e5m2",
        }
    }

    /// Bytes per value.
    fn size(self) -> usize {
        match self {
            Self::Float32 => 4,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Fp8E4m3 | Self::Fp8E5m2 => 1,
        }
    }

    /// Writes values as little-endian bytes. `bytes` holds [`size`](Self::size) bytes per value.
    fn fill(self, bytes: &mut [u8], values: &[f32]) {
        match self {
            Self::Float32 => fill(bytes, values, f32::to_le_bytes),
            Self::Float16 => fill(bytes, values, |value| f16::from_f32(value).to_le_bytes()),
            Self::Bfloat16 => fill(bytes, values, |value| bf16::from_f32(value).to_le_bytes()),
            Self::Fp8E4m3 => fill_fp8(bytes, values, E4M3),
            Self::Fp8E5m2 => fill_fp8(bytes, values, E5M2),
        }
    }

    /// Checks that the type can hold every value, with pauses; an overflow would become infinite.
    ///
    /// # Errors
    /// [`Error::Validation`]
    async fn check(self, vectors: &[Vec<f32>]) -> Result<(), ApiError> {
        let fits = |value: &f32| match self {
            Self::Float32 => true,
            Self::Float16 => f16::from_f32(*value).is_finite(),
            Self::Bfloat16 => bf16::from_f32(*value).is_finite(),
            Self::Fp8E4m3 => E4M3.encode(*value).is_some(),
            Self::Fp8E5m2 => E5M2.encode(*value).is_some(),
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

/// Encoding of a vector's values in a response: floats of a type, or integers that stand for them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Element {
    Float(ElementType),
    Quantized(Quantizer),
}

impl Default for Element {
    fn default() -> Self {
        Self::Float(ElementType::default())
    }
}

impl Element {
    /// Name in requests.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Float(element) => element.as_str(),
            Self::Quantized(quantizer) => quantizer.kind.as_str(),
        }
    }

    /// Elements that stand for this many values.
    pub(crate) fn elements_of(self, values: usize) -> usize {
        match self {
            Self::Float(_) => values,
            Self::Quantized(quantizer) => values.div_ceil(quantizer.kind.values_of_integer()),
        }
    }

    /// Bytes of this many values.
    pub(crate) fn bytes_of(self, values: usize) -> usize {
        match self {
            Self::Float(element) => values * element.size(),
            Self::Quantized(_) => self.elements_of(values),
        }
    }

    /// Writes values as little-endian bytes. `bytes` holds [`bytes_of`](Self::bytes_of) the values.
    pub(crate) fn fill(self, bytes: &mut [u8], values: &[f32]) {
        match self {
            Self::Float(element) => element.fill(bytes, values),
            Self::Quantized(quantizer) => quantizer.fill(bytes, values),
        }
    }

    /// Checks that the type can hold every value, with pauses; an overflow would become infinite.
    ///
    /// # Errors
    /// [`Error::Validation`]
    pub(crate) async fn check(self, vectors: &[Vec<f32>]) -> Result<(), ApiError> {
        match self {
            Self::Float(element) => element.check(vectors).await,
            Self::Quantized(_) => Ok(()),
        }
    }

    /// Value for which 127 stands in int8; `None` for other types.
    pub(crate) fn range(self) -> Option<f32> {
        match self {
            Self::Quantized(Quantizer { kind, range }) if !kind.is_packed() => Some(range),
            Self::Quantized(_) | Self::Float(_) => None,
        }
    }
}

/// Byte order of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Endianness {
    Little,
    Big,
    /// The server's order, which is little-endian.
    #[default]
    Native,
}

impl Endianness {
    /// Name in requests.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Little => "little",
            Self::Big => "big",
            Self::Native => "native",
        }
    }
}

/// Elements of vectors in base64 and binary responses, and the byte order of those that are floats.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Layout {
    pub(crate) element: Element,
    pub(crate) endianness: Endianness,
}

impl From<Element> for Layout {
    fn from(element: Element) -> Self {
        Self { element, endianness: Endianness::default() }
    }
}

impl From<ElementType> for Layout {
    fn from(element: ElementType) -> Self {
        Element::Float(element).into()
    }
}

impl Layout {
    /// Writes values as bytes. `bytes` holds [`bytes_of`](Element::bytes_of) the values.
    pub(crate) fn fill(self, bytes: &mut [u8], values: &[f32]) {
        self.element.fill(bytes, values);
        if let (Element::Float(element), Endianness::Big) = (self.element, self.endianness) {
            bytes.chunks_exact_mut(element.size()).for_each(<[u8]>::reverse);
        }
    }
}

fn fill<const N: usize>(bytes: &mut [u8], values: &[f32], encode: impl Fn(f32) -> [u8; N]) {
    let (slots, _) = bytes.as_chunks_mut::<N>();
    slots.iter_mut().zip(values).for_each(|(slot, &value)| *slot = encode(value));
}

/// A value beyond the type, which [`ElementType::check`] refuses, becomes 0.
fn fill_fp8(bytes: &mut [u8], values: &[f32], format: Fp8) {
    fill(bytes, values, |value| [format.encode(value).unwrap_or(0)]);
}

/// The vectors as bytes, row by row, in pieces of some rows or of a part of a row.
pub(crate) struct BinaryPieces {
    vectors: IntoIter<Vec<f32>>,
    layout: Layout,
    /// The vector that is being written, and the number of its values that are written.
    open: (Vec<f32>, usize),
}

impl BinaryPieces {
    pub(crate) fn new(vectors: Vec<Vec<f32>>, layout: impl Into<Layout>) -> Self {
        Self { vectors: vectors.into_iter(), layout: layout.into(), open: (Vec::new(), 0) }
    }
}

impl Iterator for BinaryPieces {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        // Every type has a whole number of them in a piece, and packed ones whole bytes.
        let values_of_piece = PIECE / size_of::<f32>();
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
            let values = rest.get(..values_of_piece).unwrap_or(rest);
            let start = piece.len();
            piece.resize(start + self.layout.element.bytes_of(values.len()), 0);
            self.layout.fill(&mut piece[start..], values);
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
    use super::super::quantize::QuantizedType;
    use super::*;

    #[test]
    fn rows_are_little_endian() {
        let vectors: Vec<Vec<f32>> = vec![vec![1.0, -2.5], vec![0.1, 3.0]];
        let bytes = |element| BinaryPieces::new(vectors.clone(), Element::Float(element)).collect::<Vec<_>>().concat();
        let expected: Vec<u8> = vectors.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(bytes(ElementType::Float32), expected);
        assert_eq!(bytes(ElementType::Float16)[..4], [0x00, 0x3c, 0x00, 0xc1]);
        assert_eq!(bytes(ElementType::Bfloat16)[..4], [0x80, 0x3f, 0x20, 0xc0]);
        assert_eq!(bytes(ElementType::Fp8E4m3)[..2], [0x38, 0xc2]);
        assert_eq!(bytes(ElementType::Fp8E5m2)[..2], [0x3c, 0xc1]);
        assert!(BinaryPieces::new(Vec::new(), Element::default()).next().is_none());
    }

    #[test]
    fn quantized_rows_are_bytes() {
        let rows = 3 * (PIECE / 4) / 16;
        let row: Vec<f32> = (0..16).map(|i| if i % 3 == 0 { 0.5 } else { -0.25 }).collect();
        for (kind, expected) in [
            (QuantizedType::Int8, [127, 192, 192, 127].to_vec()),
            (QuantizedType::Uint8, [255, 64, 64, 255].to_vec()),
            (QuantizedType::Binary, vec![0b1001_0010 ^ 0x80, 0b0100_1001 ^ 0x80]),
            (QuantizedType::Ubinary, vec![0b1001_0010, 0b0100_1001]),
        ] {
            let element = Element::Quantized(Quantizer { kind, range: 0.5 });
            let bytes = BinaryPieces::new(vec![row.clone(); rows], element).collect::<Vec<_>>().concat();
            assert_eq!(
                (bytes.len(), &bytes[..expected.len()]),
                (element.bytes_of(16) * rows, &expected[..]),
                "{kind:?}"
            );
            // A row longer than a piece.
            let long = row.repeat(PIECE / 16);
            let bytes = BinaryPieces::new(vec![long], element).collect::<Vec<_>>().concat();
            assert_eq!(bytes, bytes[..element.bytes_of(48)].repeat(PIECE / 48 + 1)[..bytes.len()], "{kind:?}");
        }
    }

    #[test]
    fn big_endian_elements_are_reversed_one_by_one() {
        for (element, expected) in [
            (ElementType::Float32, &[0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0][..]),
            (ElementType::Float16, &[0x3c, 0, 0xc1, 0]),
            (ElementType::Fp8E5m2, &[0x3c, 0xc1]),
        ] {
            let layout = Layout { element: Element::Float(element), endianness: Endianness::Big };
            assert_eq!(BinaryPieces::new(vec![vec![1.0, -2.5]], layout).next().unwrap(), expected);
        }
    }

    #[test]
    fn pieces_end_with_whole_rows_unless_a_row_is_too_long() {
        let sizes = |rows, row| -> Vec<usize> {
            let pieces = BinaryPieces::new(vec![vec![0.0; row]; rows], Element::default());
            pieces.map(|piece| piece.len()).collect()
        };
        let row = PIECE / 4 - 1;
        assert_eq!(sizes(3, row), [8 * row, 4 * row]);
        assert_eq!(sizes(1, 2 * row), [PIECE, 8 * row - PIECE]);
    }

    #[test]
    fn the_last_piece_is_known_as_such() {
        let mut pieces = BinaryPieces::new(vec![vec![0.0; 2], vec![1.0; 2]], Element::default());
        assert_eq!(pieces.size_hint().1, None);
        assert_eq!(pieces.next().map(|piece| piece.len()), Some(16));
        assert_eq!(pieces.size_hint().1, Some(0));
    }

    #[tokio::test]
    async fn what_a_type_cannot_hold_is_refused() {
        let vectors = [vec![1.0, 70_000.0]];
        for element in [ElementType::Float16, ElementType::Fp8E4m3, ElementType::Fp8E5m2] {
            let refused = element.check(&vectors).await.unwrap_err().to_string();
            assert!(refused.contains("70000") && refused.contains("float32"), "{refused}");
        }
        for element in [ElementType::Float32, ElementType::Bfloat16] {
            assert!(element.check(&vectors).await.is_ok());
        }
    }
}
