//! Quantization of vectors to integers of eight bits, or to one bit per value.

/// Integers that stand for the values of a unit vector, by the names of Cohere, Voyage and sentence-transformers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuantizedType {
    /// An integer from -127 to 127 per value.
    Int8,
    /// `Int8` plus 128.
    Uint8,
    /// `Ubinary` minus 128.
    Binary,
    /// An integer from 0 to 255 per eight values: a bit for each, 1 if it is positive, the first value in the highest bit.
    Ubinary,
}

/// Values in one integer of a packed type.
pub(crate) const PACKED: usize = 8;

/// The largest integer of `Int8`, which stands for the range.
const LARGEST: f32 = 127.0;

/// Quantizer of a vector's values. An integer depends on nothing but its value, or eight values, and the range.
///
/// All values of all vectors have one factor and zero stays zero. So, up to rounding, `Int8` vectors have the same
/// cosines as the original vectors, and their dot products times the square of the factor. A range for each dimension
/// would change the weights of the dimensions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quantizer {
    pub(crate) kind: QuantizedType,
    /// The value that becomes 127; larger ones become 127 too. Packed types have none.
    pub(crate) range: f32,
}

impl QuantizedType {
    /// Name in requests.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Binary => "binary",
            Self::Ubinary => "ubinary",
        }
    }

    /// True for one bit per value.
    pub(crate) fn is_packed(self) -> bool {
        matches!(self, Self::Binary | Self::Ubinary)
    }

    /// Values that become one integer.
    pub(crate) fn values_of_integer(self) -> usize {
        if self.is_packed() { PACKED } else { 1 }
    }

    /// The integer in a byte.
    pub(crate) fn integer(self, byte: u8) -> i16 {
        match self {
            Self::Int8 | Self::Binary => i16::from(byte.cast_signed()),
            Self::Uint8 | Self::Ubinary => i16::from(byte),
        }
    }
}

impl Quantizer {
    /// Writes the integers of the values, one per byte.
    pub(crate) fn fill(self, bytes: &mut [u8], values: &[f32]) {
        let Self { kind, range } = self;
        let factor = LARGEST / range;
        let signed = |value: f32| ((value * factor).round().clamp(-LARGEST, LARGEST) as i8).cast_unsigned();
        let bits = |values: &[f32]| {
            values.iter().enumerate().fold(0, |byte, (bit, &value)| byte | u8::from(value > 0.0) << (PACKED - 1 - bit))
        };
        // In eight bits, adding and subtracting 128 both flip the highest bit.
        let flip = |byte: u8| byte ^ 0x80;
        match kind {
            QuantizedType::Int8 => bytes.iter_mut().zip(values).for_each(|(byte, &value)| *byte = signed(value)),
            QuantizedType::Uint8 => bytes.iter_mut().zip(values).for_each(|(byte, &value)| *byte = flip(signed(value))),
            QuantizedType::Binary => {
                bytes.iter_mut().zip(values.chunks(PACKED)).for_each(|(byte, values)| *byte = flip(bits(values)));
            }
            QuantizedType::Ubinary => {
                bytes.iter_mut().zip(values.chunks(PACKED)).for_each(|(byte, values)| *byte = bits(values));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integers(kind: QuantizedType, range: f32, values: &[f32]) -> Vec<i16> {
        let mut bytes = vec![0; values.len().div_ceil(kind.values_of_integer())];
        Quantizer { kind, range }.fill(&mut bytes, values);
        bytes.into_iter().map(|byte| kind.integer(byte)).collect()
    }

    #[test]
    fn eight_bits_round_to_the_nearest_and_stop_at_the_range() {
        let values = [0.0, 0.25, -0.25, 0.5, -0.5, 0.7, -0.7, 0.0019, 0.002, -0.0];
        let signed = integers(QuantizedType::Int8, 0.5, &values);
        assert_eq!(signed, [0, 64, -64, 127, -127, 127, -127, 0, 1, 0]);
        let unsigned: Vec<i16> = signed.iter().map(|integer| integer + 128).collect();
        assert_eq!(integers(QuantizedType::Uint8, 0.5, &values), unsigned);
    }

    #[test]
    fn a_bit_tells_the_positive_values() {
        let values = [0.1, -0.1, 0.0, 0.2, -0.0, 0.3, -1.0, 1e-30, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        assert_eq!(integers(QuantizedType::Ubinary, 1.0, &values), [0b1001_0101, 0b0111_1111]);
        assert_eq!(integers(QuantizedType::Binary, 1.0, &values), [0b1001_0101 - 128, 0b0111_1111 - 128]);
    }

    #[test]
    fn the_cosine_stays() {
        let noise = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 - 0.5;
        let vector = |seed: u32| (0..256).map(|i| noise(seed * 1000 + i)).collect::<Vec<f32>>();
        let (a, b) = (vector(1), vector(2));
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let cosine = |a: &[f32], b: &[f32]| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
        let [qa, qb] = [&a, &b]
            .map(|vector| integers(QuantizedType::Int8, 0.5, vector).into_iter().map(f32::from).collect::<Vec<f32>>());
        assert!((cosine(&a, &b) - cosine(&qa, &qb)).abs() < 2e-3);
        assert!(cosine(&a, &qa) > 0.9999);
    }
}
