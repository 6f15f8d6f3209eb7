//! Writes vectors straight into a body, without a second copy or an allocation per float, in steps of bounded work.

use super::element::{Element, Layout};
use super::quantize::Quantizer;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use std::fmt::Write;

/// Longest integer of eight bits, and the following comma.
const MAX_INTEGER_LEN: usize = 5;

/// Longest float: sign, nine digits, point, exponent, and the following comma.
const MAX_FLOAT_LEN: usize = 17;

/// Floats encoded at once: a multiple of 24, so that bits fill bytes and only a vector's end is padded.
const BASE64_CHUNK: usize = 768;

/// Floats written as base64 at each step: some tens of microseconds.
const BASE64_OF_STEP: usize = 32 * BASE64_CHUNK;

/// Floats written at each step: a fraction of a millisecond.
const FLOATS_OF_STEP: usize = 1 << 13;

/// Bytes of a text escaped at each step: some tens of microseconds.
const TEXT_OF_STEP: usize = 1 << 14;

/// `value` as serde writes it, before and after the first `hole`: an empty list or text.
pub(crate) fn split_around(value: &impl Serialize, hole: &str) -> (String, String) {
    // Serialization of our own structs into memory cannot fail.
    let json = serde_json::to_string(value).unwrap_or_default();
    let (before, after) = json.split_once(hole).unwrap_or((&json, ""));
    (before.to_owned(), after.to_owned())
}

/// Writes a vector as the shortest JSON numbers that parse to the same `f32`, in steps. A value that is not finite becomes
/// `null`; the engine lets none through.
pub(crate) fn float_steps(vector: impl AsRef<[f32]>) -> impl FnMut(&mut String) -> bool {
    let mut written = 0;
    move |out| {
        let vector = vector.as_ref();
        let rest = vector.get(written..).unwrap_or(&[]);
        let floats = rest.get(..FLOATS_OF_STEP).unwrap_or(rest);
        out.reserve(floats.len() * MAX_FLOAT_LEN + 2);
        if written == 0 {
            out.push('[');
        }
        let mut buffer = zmij::Buffer::new();
        for (index, &value) in floats.iter().enumerate() {
            if written + index > 0 {
                out.push(',');
            }
            out.push_str(format_float(&mut buffer, value));
        }
        written += floats.len();
        let goes_on = written < vector.len();
        if !goes_on {
            out.push(']');
        }
        goes_on
    }
}

/// Writes the integers that stand for a vector as JSON numbers, in steps.
pub(crate) fn integer_steps(vector: impl AsRef<[f32]>, quantizer: Quantizer) -> impl FnMut(&mut String) -> bool {
    let mut written = 0;
    move |out| {
        let vector = vector.as_ref();
        let rest = vector.get(written..).unwrap_or(&[]);
        let floats = rest.get(..FLOATS_OF_STEP).unwrap_or(rest);
        let mut bytes = vec![0; Element::Quantized(quantizer).bytes_of(floats.len())];
        quantizer.fill(&mut bytes, floats);
        out.reserve(bytes.len() * MAX_INTEGER_LEN + 2);
        if written == 0 {
            out.push('[');
        }
        for (index, byte) in bytes.into_iter().enumerate() {
            let comma = if written + index > 0 { "," } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(out, "{comma}{}", quantizer.kind.integer(byte));
        }
        written += floats.len();
        let goes_on = written < vector.len();
        if !goes_on {
            out.push(']');
        }
        goes_on
    }
}

/// Writes a value as [`float_steps`] does.
pub(crate) fn write_float(out: &mut String, value: f32) {
    out.push_str(format_float(&mut zmij::Buffer::new(), value));
}

fn format_float(buffer: &mut zmij::Buffer, value: f32) -> &str {
    if value.is_finite() { buffer.format_finite(value) } else { "null" }
}

/// Writes a vector as a JSON string, in steps: its bytes in standard base64 with padding.
pub(crate) fn base64_steps(vector: impl AsRef<[f32]>, layout: impl Into<Layout>) -> impl FnMut(&mut String) -> bool {
    let layout = layout.into();
    let mut written = 0;
    move |out| {
        let vector = vector.as_ref();
        let rest = vector.get(written..).unwrap_or(&[]);
        let floats = rest.get(..BASE64_OF_STEP).unwrap_or(rest);
        out.reserve(layout.element.bytes_of(floats.len()).div_ceil(3) * 4 + 2);
        if written == 0 {
            out.push('"');
        }
        let mut bytes = [0u8; BASE64_CHUNK * 4];
        for chunk in floats.chunks(BASE64_CHUNK) {
            let bytes = &mut bytes[..layout.element.bytes_of(chunk.len())];
            layout.fill(bytes, chunk);
            STANDARD.encode_string(bytes, out);
        }
        written += floats.len();
        let goes_on = written < vector.len();
        if !goes_on {
            out.push('"');
        }
        goes_on
    }
}

/// Writes a text as a JSON string, in steps.
pub(crate) fn text_steps(text: impl AsRef<str>) -> impl FnMut(&mut String) -> bool {
    let mut written = 0;
    move |out| {
        let text = text.as_ref();
        let mut end = text.len().min(written + TEXT_OF_STEP);
        while !text.is_char_boundary(end) {
            end += 1;
        }
        let part = serde_json::to_string(text.get(written..end).unwrap_or("")).unwrap_or_default();
        if written == 0 {
            out.push('"');
        }
        out.push_str(part.get(1..part.len().saturating_sub(1)).unwrap_or(""));
        written = end;
        let goes_on = written < text.len();
        if !goes_on {
            out.push('"');
        }
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::super::element::ElementType;
    use super::super::quantize::QuantizedType;
    use super::*;

    fn written(mut step: impl FnMut(&mut String) -> bool) -> String {
        let mut out = String::new();
        while step(&mut out) {}
        out
    }

    fn vectors() -> Vec<Vec<f32>> {
        let noise = |i: u32| f32::from_bits(i.wrapping_mul(2_654_435_761));
        let mut vectors = vec![
            vec![],
            vec![0.0, -0.0, 1.0, -1.5, 0.1, 1e-7, 123_456.79, 16_777_216.0],
            vec![f32::MAX, f32::MIN, f32::MIN_POSITIVE, f32::EPSILON, 1e-45, -1.234_567_9e-38],
        ];
        for len in [1, 2, 3, 383, 384, 767, 768, 769, 1537, FLOATS_OF_STEP, FLOATS_OF_STEP + 1, BASE64_OF_STEP + 2] {
            vectors.push((0..).map(noise).filter(|value| value.is_finite()).take(len).collect());
        }
        vectors
    }

    #[test]
    fn floats_read_back_as_they_were() {
        for vector in vectors() {
            let out = written(float_steps(vector.clone()));
            let read: Vec<f32> = serde_json::from_str(&out).unwrap();
            let same = read.iter().map(|x| x.to_bits()).eq(vector.iter().map(|x| x.to_bits()));
            assert!(same, "{vector:?} became {out}");
            assert!(out.len() <= vector.len() * MAX_FLOAT_LEN + 2, "{out}");
        }
    }

    #[test]
    fn floats_are_written_as_serde_json_writes_them() {
        for vector in vectors() {
            let out = written(float_steps(vector.clone()));
            assert_eq!(out, serde_json::to_string(&vector).unwrap());
        }
        let out = written(float_steps(vec![f32::NAN, 1.0, f32::INFINITY]));
        assert_eq!(out, "[null,1.0,null]");
    }

    #[test]
    fn base64_is_that_of_the_little_endian_bytes() {
        for vector in vectors() {
            let out = written(base64_steps(vector.clone(), Element::default()));
            let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            assert_eq!(out, format!("\"{}\"", STANDARD.encode(bytes)), "{} floats", vector.len());
            let out = written(base64_steps(vector.clone(), Element::Float(ElementType::Bfloat16)));
            let bytes: Vec<u8> = vector.iter().flat_map(|&value| half::bf16::from_f32(value).to_le_bytes()).collect();
            assert_eq!(out, format!("\"{}\"", STANDARD.encode(bytes)), "{} floats", vector.len());
        }
    }

    #[test]
    fn integers_are_the_bytes_of_base64() {
        for kind in [QuantizedType::Int8, QuantizedType::Uint8, QuantizedType::Binary, QuantizedType::Ubinary] {
            let quantizer = Quantizer { kind, range: 1e30 };
            for vector in vectors().into_iter().filter(|vector| vector.len() % 8 == 0) {
                let integers: Vec<i16> = serde_json::from_str(&written(integer_steps(&vector, quantizer))).unwrap();
                let coded = written(base64_steps(&vector, Element::Quantized(quantizer)));
                let bytes = STANDARD.decode(coded.trim_matches('"')).unwrap();
                assert_eq!(integers, bytes.into_iter().map(|byte| kind.integer(byte)).collect::<Vec<_>>(), "{kind:?}");
            }
        }
    }

    #[test]
    fn texts_are_written_as_serde_json_writes_them() {
        for text in
            ["", "a", "\u{e9}\"\\\n\u{1}", &"\u{1f980}a".repeat(TEXT_OF_STEP), &"\u{e9}".repeat(TEXT_OF_STEP / 2)]
        {
            assert_eq!(written(text_steps(text)), serde_json::to_string(text).unwrap());
        }
    }
}
