//! Dequantization of blocks, bit for bit as ggml's reference (`dequantize_row_*` in `ggml-quants.c`) defines it.
//!
//! A block has one or two scales in float16 (`d`, and `m` or `dmin`) and packed integers of two to eight bits; blocks of 256 values have
//! a small integer scale for each 16 or 32 values.

use half::f16;

/// A function that dequantizes one block of its type's size.
pub(super) type Dequantize = fn(&[u8], &mut [f32]);

/// Values of the largest block.
pub(super) const MAX_VALUES: usize = 256;

/// The float16 at an offset.
fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The float32 of a small integer.
fn float(value: i32) -> f32 {
    value as f32
}

/// The values of low and high halves of 16 bytes: the low halves come first.
fn nibbles(bytes: &[u8], out: &mut [f32], value: impl Fn(usize, u8) -> f32) {
    for (j, &byte) in bytes.iter().enumerate() {
        out[j] = value(j, byte & 15);
        out[j + bytes.len()] = value(j + bytes.len(), byte >> 4);
    }
}

pub(super) fn q4_0(block: &[u8], out: &mut [f32]) {
    let d = half(block, 0);
    nibbles(&block[2..], out, |_, q| float(i32::from(q) - 8) * d);
}

pub(super) fn q4_1(block: &[u8], out: &mut [f32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    nibbles(&block[4..], out, |_, q| f32::from(q) * d + m);
}

/// The fifth bit of a value.
fn fifth(block: &[u8], at: usize, index: usize) -> u8 {
    (block[at + index / 8] >> (index % 8) & 1) << 4
}

pub(super) fn q5_0(block: &[u8], out: &mut [f32]) {
    let d = half(block, 0);
    nibbles(&block[6..], out, |index, q| float(i32::from(q | fifth(block, 2, index)) - 16) * d);
}

pub(super) fn q5_1(block: &[u8], out: &mut [f32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    nibbles(&block[8..], out, |index, q| f32::from(q | fifth(block, 4, index)) * d + m);
}

pub(super) fn q8_0(block: &[u8], out: &mut [f32]) {
    let d = half(block, 0);
    for (out, &q) in out.iter_mut().zip(&block[2..]) {
        *out = f32::from(q.cast_signed()) * d;
    }
}

/// Two bits of a value of a block whose 64 bytes have four values each: byte `l` of each half has the values `l`, `l + 32`, `l + 64` and
/// `l + 96`.
fn two_bits(bytes: &[u8], index: usize) -> u8 {
    bytes[index / 128 * 32 + index % 32] >> (index % 128 / 32 * 2) & 3
}

pub(super) fn q2_k(block: &[u8], out: &mut [f32]) {
    let (scales, rest) = block.split_at(16);
    let (qs, halves) = rest.split_at(64);
    let (d, dmin) = (half(halves, 0), half(halves, 2));
    for (index, out) in out.iter_mut().enumerate() {
        let scale = scales[index / 16];
        let (dl, ml) = (d * f32::from(scale & 15), dmin * f32::from(scale >> 4));
        *out = dl * f32::from(two_bits(qs, index)) - ml;
    }
}

pub(super) fn q3_k(block: &[u8], out: &mut [f32]) {
    let (high, rest) = block.split_at(32);
    let (qs, rest) = rest.split_at(64);
    let (packed, d) = (&rest[..12], half(rest, 12));
    // Of each six bits, four are in the first eight bytes and two in the last four.
    let scale = |i: usize| {
        let low = if i < 8 { packed[i] & 15 } else { packed[i - 8] >> 4 };
        let high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
        d * float(i32::from(low | high << 4) - 32)
    };
    let scales: [f32; 16] = std::array::from_fn(scale);
    for (index, out) in out.iter_mut().enumerate() {
        // A set bit means that nothing is subtracted.
        let is_set = high[index % 32] >> (index / 32) & 1 != 0;
        let q = i32::from(two_bits(qs, index)) - if is_set { 0 } else { 4 };
        *out = scales[index / 16] * float(q);
    }
}

/// Scale and minimum of the 32 values of a number, six bits each.
fn scale_and_min(scales: &[u8], j: usize) -> (f32, f32) {
    let (scale, min) = if j < 4 {
        (scales[j] & 63, scales[j + 4] & 63)
    } else {
        (scales[j + 4] & 15 | scales[j - 4] >> 6 << 4, scales[j + 4] >> 4 | scales[j] >> 6 << 4)
    };
    (scale.into(), min.into())
}

/// Blocks of four or five bits with scales and minimums; `high` has the fifth bits.
fn q45_k(block: &[u8], high: &[u8], qs: &[u8], out: &mut [f32]) {
    let (d, dmin, scales) = (half(block, 0), half(block, 2), &block[4..16]);
    for (j, out) in out.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_and_min(scales, j);
        let (dl, ml) = (d * scale, dmin * min);
        for (l, (out, &byte)) in out.iter_mut().zip(&qs[j / 2 * 32..]).enumerate() {
            let low = if j % 2 == 0 { byte & 15 } else { byte >> 4 };
            let fifth = high.get(l).map_or(0, |bits| (bits >> j & 1) << 4);
            *out = dl * f32::from(low + fifth) - ml;
        }
    }
}

pub(super) fn q4_k(block: &[u8], out: &mut [f32]) {
    q45_k(block, &[], &block[16..], out);
}

pub(super) fn q5_k(block: &[u8], out: &mut [f32]) {
    q45_k(block, &block[16..48], &block[48..], out);
}

pub(super) fn q6_k(block: &[u8], out: &mut [f32]) {
    let (low, rest) = block.split_at(128);
    let (high, rest) = rest.split_at(64);
    let (scales, d) = (&rest[..16], half(rest, 16));
    for (index, out) in out.iter_mut().enumerate() {
        // Each half of the block has 64 bytes of low bits: the first half of its values in the lower four bits.
        let byte = low[index / 128 * 64 + index % 64];
        let four = if index % 128 < 64 { byte & 15 } else { byte >> 4 };
        let q = i32::from(four | two_bits(high, index) << 4) - 32;
        *out = d * f32::from(scales[index / 16].cast_signed()) * float(q);
    }
}

/// The values of four bits: a table that is not linear.
const NOT_LINEAR: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

pub(super) fn iq4_nl(block: &[u8], out: &mut [f32]) {
    let d = half(block, 0);
    nibbles(&block[2..], out, |_, q| d * f32::from(NOT_LINEAR[usize::from(q)]));
}

pub(super) fn iq4_xs(block: &[u8], out: &mut [f32]) {
    let (d, high, low) = (half(block, 0), u16::from_le_bytes([block[2], block[3]]), &block[4..8]);
    for (i, (out, bytes)) in out.chunks_exact_mut(32).zip(block[8..].chunks_exact(16)).enumerate() {
        let scale = low[i / 2] >> (i % 2 * 4) & 15 | ((high >> (2 * i) & 3) << 4) as u8;
        let dl = d * float(i32::from(scale) - 32);
        nibbles(bytes, out, |_, q| dl * f32::from(NOT_LINEAR[usize::from(q)]));
    }
}

#[cfg(test)]
mod tests {
    use crate::formats::gguf::blocks::BlockType;
    use half::bf16;
    use safetensors::SafeTensors;
    use std::path::Path;

    /// Blocks of random bytes and the values that llama.cpp's library gives them, by `make_gguf_blocks.py`.
    #[test]
    fn values_are_those_of_the_library_of_llama_cpp_bit_for_bit() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/gguf-blocks/blocks.safetensors");
        let bytes = std::fs::read(path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let mut compared = 0;
        for number in 0..64 {
            let Ok(kind) = BlockType::of(number) else { continue };
            let name = kind.name.strip_prefix("gguf ").unwrap();
            let Ok(values) = file.tensor(&format!("{name}.values")) else {
                assert!(["F32", "F16", "BF16"].contains(&name), "{name}");
                continue;
            };
            let blocks = file.tensor(&format!("{name}.blocks")).unwrap();
            let expected: Vec<f32> = values.data().as_chunks().0.iter().map(|it| f32::from_le_bytes(*it)).collect();
            let found: Vec<f32> = kind.decode(blocks.data()).unwrap();
            let bits = |values: &[f32]| values.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&expected), "{name}");
            let rounded: Vec<bf16> = expected.iter().map(|&it| bf16::from_f32(it)).collect();
            assert_eq!(kind.decode::<bf16>(blocks.data()).unwrap(), rounded, "{name}");
            compared += 1;
        }
        assert_eq!(compared, 12);
    }

    #[test]
    fn types_that_are_not_supported_are_named() {
        assert!(BlockType::of(16).unwrap_err().contains("IQ2_XXS is not supported (F32, F16, BF16, Q8_0"));
        assert!(BlockType::of(4).unwrap_err().contains("type 4, which is not known"));
    }
}
