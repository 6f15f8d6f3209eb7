//! Types of the values in GGUF files and their conversion.

use super::dequantize::{self, Dequantize};
use crate::error::LoadError;
use crate::formats::tensor;
use prefold_kernels::{Dtype, Element};
use rayon::prelude::*;

/// A supported type of a tensor's values, which are stored in blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockType {
    /// Name after the word `gguf`.
    pub(super) name: &'static str,
    /// Number in the format.
    number: u32,
    /// Values of a block.
    pub(super) values: usize,
    /// Bytes of a block.
    pub(super) bytes: usize,
    conversion: Conversion,
}

#[derive(Debug, Clone, Copy)]
enum Conversion {
    /// Blocks of one value.
    Plain(Dtype),
    Blocks(Dequantize),
}

const fn plain(name: &'static str, number: u32, bytes: usize, dtype: Dtype) -> BlockType {
    BlockType { name, number, values: 1, bytes, conversion: Conversion::Plain(dtype) }
}

const fn blocks(name: &'static str, number: u32, [values, bytes]: [usize; 2], function: Dequantize) -> BlockType {
    BlockType { name, number, values, bytes, conversion: Conversion::Blocks(function) }
}

/// The supported types.
const TYPES: [BlockType; 15] = [
    plain("gguf F32", 0, 4, Dtype::Float32),
    plain("gguf F16", 1, 2, Dtype::Float16),
    plain("gguf BF16", 30, 2, Dtype::Bfloat16),
    blocks("gguf Q8_0", 8, [32, 34], dequantize::q8_0),
    blocks("gguf Q4_0", 2, [32, 18], dequantize::q4_0),
    blocks("gguf Q4_1", 3, [32, 20], dequantize::q4_1),
    blocks("gguf Q5_0", 6, [32, 22], dequantize::q5_0),
    blocks("gguf Q5_1", 7, [32, 24], dequantize::q5_1),
    blocks("gguf Q2_K", 10, [256, 84], dequantize::q2_k),
    blocks("gguf Q3_K", 11, [256, 110], dequantize::q3_k),
    blocks("gguf Q4_K", 12, [256, 144], dequantize::q4_k),
    blocks("gguf Q5_K", 13, [256, 176], dequantize::q5_k),
    blocks("gguf Q6_K", 14, [256, 210], dequantize::q6_k),
    blocks("gguf IQ4_NL", 20, [32, 18], dequantize::iq4_nl),
    blocks("gguf IQ4_XS", 23, [256, 136], dequantize::iq4_xs),
];

/// Other types of the format, by number.
const OTHER_TYPES: [(u32, &str); 19] = [
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
    (41, "Q1_0"),
];

impl BlockType {
    /// The type of a number.
    ///
    /// # Errors
    /// Describes the type, as the rest of a sentence about a tensor.
    pub(super) fn of(number: u32) -> Result<Self, String> {
        if let Some(found) = TYPES.iter().find(|it| it.number == number) {
            return Ok(*found);
        }
        match OTHER_TYPES.iter().find(|(other, _)| *other == number) {
            Some((_, name)) => {
                let supported: Vec<_> = TYPES.iter().filter_map(|it| it.name.strip_prefix("gguf ")).collect();
                Err(format!("of type {name} is not supported ({})", supported.join(", ")))
            }
            None => Err(format!("is of type {number}, which is not known")),
        }
    }

    /// Converts whole blocks.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(super) fn decode<T: Element>(&self, bytes: &[u8]) -> Result<Vec<T>, LoadError> {
        match self.conversion {
            Conversion::Plain(dtype) => tensor::decode(dtype, bytes),
            Conversion::Blocks(function) => self.dequantize(function, bytes),
        }
    }

    /// Dequantizes blocks in parallel.
    fn dequantize<T: Element>(&self, function: Dequantize, bytes: &[u8]) -> Result<Vec<T>, LoadError> {
        /// Blocks converted by one task.
        const BLOCKS: usize = 256;
        let mut out = tensor::zeros(bytes.len() / self.bytes * self.values)?;
        let tasks = out.par_chunks_mut(BLOCKS * self.values).zip(bytes.par_chunks(BLOCKS * self.bytes));
        tasks.for_each(|(out, bytes)| {
            let mut values = [0.0; dequantize::MAX_VALUES];
            let values = &mut values[..self.values];
            for (out, block) in out.chunks_exact_mut(self.values).zip(bytes.chunks_exact(self.bytes)) {
                function(block, values);
                out.iter_mut().zip(&*values).for_each(|(out, &value)| *out = T::from_f32(value));
            }
        });
        Ok(out)
    }
}
