//! Writes vectors straight into a body, without a second copy or an allocation per float.

use super::element::ElementType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

/// Longest float: sign, nine digits, point, exponent, and the following comma.
const MAX_FLOAT_LEN: usize = 17;

/// Floats encoded at once: a multiple of three, so that only a vector's end is padded.
const BASE64_CHUNK: usize = 768;

/// Writes `value` as serde does, with the output of `write_list` in place of its first empty list.
pub(crate) fn write_around(out: &mut String, value: &impl Serialize, write_list: impl FnOnce(&mut String)) {
    // Serialization of our own structs into memory cannot fail.
    let json = serde_json::to_string(value).unwrap_or_default();
    let (before, after) = json.split_once("[]").unwrap_or((&json, ""));
    out.push_str(before);
    write_list(out);
    out.push_str(after);
}

/// Writes a vector as the shortest JSON numbers that parse to the same `f32`. A value that is not finite becomes
/// `null`; the engine lets none through.
pub(crate) fn write_floats(out: &mut String, vector: &[f32]) {
    out.reserve(vector.len() * MAX_FLOAT_LEN + 2);
    let mut buffer = zmij::Buffer::new();
    out.push('[');
    for (index, &value) in vector.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(if value.is_finite() { buffer.format_finite(value) } else { "null" });
    }
    out.push(']');
}

/// Writes a vector as a JSON string: its little-endian bytes in standard base64 with padding.
pub(crate) fn write_base64(out: &mut String, vector: &[f32], element: ElementType) {
    out.reserve((vector.len() * element.size()).div_ceil(3) * 4 + 2);
    out.push('"');
    let mut bytes = [0u8; BASE64_CHUNK * 4];
    for chunk in vector.chunks(BASE64_CHUNK) {
        let bytes = &mut bytes[..chunk.len() * element.size()];
        element.fill(bytes, chunk);
        STANDARD.encode_string(bytes, out);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors() -> Vec<Vec<f32>> {
        let noise = |i: u32| f32::from_bits(i.wrapping_mul(2_654_435_761));
        let mut vectors = vec![
            vec![],
            vec![0.0, -0.0, 1.0, -1.5, 0.1, 1e-7, 123_456.79, 16_777_216.0],
            vec![f32::MAX, f32::MIN, f32::MIN_POSITIVE, f32::EPSILON, 1e-45, -1.234_567_9e-38],
        ];
        for len in [1, 2, 3, 383, 384, 767, 768, 769, 1537] {
            vectors.push((0..).map(noise).filter(|value| value.is_finite()).take(len).collect());
        }
        vectors
    }

    #[test]
    fn floats_read_back_as_they_were() {
        for vector in vectors() {
            let mut out = String::new();
            write_floats(&mut out, &vector);
            let read: Vec<f32> = serde_json::from_str(&out).unwrap();
            let same = read.iter().map(|x| x.to_bits()).eq(vector.iter().map(|x| x.to_bits()));
            assert!(same, "{vector:?} became {out}");
            assert!(out.len() <= vector.len() * MAX_FLOAT_LEN + 2, "{out}");
        }
    }

    #[test]
    fn floats_are_written_as_serde_json_writes_them() {
        for vector in vectors() {
            let mut out = String::new();
            write_floats(&mut out, &vector);
            assert_eq!(out, serde_json::to_string(&vector).unwrap());
        }
        let mut out = String::new();
        write_floats(&mut out, &[f32::NAN, 1.0, f32::INFINITY]);
        assert_eq!(out, "[null,1.0,null]");
    }

    #[test]
    fn base64_is_that_of_the_little_endian_bytes() {
        for vector in vectors() {
            let mut out = String::from("x");
            write_base64(&mut out, &vector, ElementType::Float32);
            let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            assert_eq!(out, format!("x\"{}\"", STANDARD.encode(bytes)), "{} floats", vector.len());
            let mut out = String::new();
            write_base64(&mut out, &vector, ElementType::Bfloat16);
            let bytes: Vec<u8> = vector.iter().flat_map(|&value| half::bf16::from_f32(value).to_le_bytes()).collect();
            assert_eq!(out, format!("\"{}\"", STANDARD.encode(bytes)), "{} floats", vector.len());
        }
    }
}
