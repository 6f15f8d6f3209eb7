//! An embedding table in int8.

use crate::error::{KernelError, check_len};
use crate::quantization::weights::QuantizedWeights;
use crate::rowwise::rows::for_row_blocks;
use crate::runtime::huge_pages::HugePages;
use crate::store::Store;
use rayon::prelude::*;
use std::ops::Range;

/// Rows that are read and quantized at a time, so that few are in memory as f32.
const ROWS: usize = 256;

/// Rows of signed bytes, each with a scale of its own.
#[derive(Debug)]
pub struct QuantizedTable {
    width: usize,
    /// `[rows, width]`, rounded up to whole words.
    bytes: HugePages,
    /// `[rows]`
    scales: Vec<f32>,
}

impl QuantizedTable {
    /// Quantizes a table of `[rows, width]`; `read` returns the values of some rows, one row after another, on several threads.
    ///
    /// # Errors
    /// If `width` is 0, there is not enough memory, or `read` fails or returns another number of values.
    pub fn quantize<X: From<KernelError> + Send>(
        [rows, width]: [usize; 2],
        read: impl Fn(Range<usize>) -> Result<Vec<f32>, X> + Sync,
    ) -> Result<Self, X> {
        if width == 0 {
            return Err(KernelError::Value { argument: "width", found: 0, expected: "positive" }.into());
        }
        let words = rows.saturating_mul(width).div_ceil(size_of::<u32>());
        let (mut bytes, mut scales) = (HugePages::new(words)?, Vec::new());
        scales.try_reserve_exact(rows).map_err(|_| KernelError::Memory { words: rows })?;
        scales.resize(rows, 0.0);
        let blocks = bytes.bytes_mut()[..rows * width].par_chunks_mut(ROWS * width).zip(scales.par_chunks_mut(ROWS));
        blocks.enumerate().try_for_each(|(block, (bytes, scales))| {
            let first = block * ROWS;
            let values = read(first..first + scales.len())?;
            check_len("rows", bytes.len(), values.len())?;
            let rows = values.chunks_exact(width).zip(bytes.chunks_exact_mut(width)).zip(scales);
            rows.for_each(|((row, bytes), scale)| *scale = QuantizedWeights::quantize(row, bytes).scale);
            Ok::<(), X>(())
        })?;
        Ok(Self { width, bytes, scales })
    }

    /// `out[i] = table[ids[i]]`, or `out[i] += table[ids[i]]`, for rows of `width` elements; `out` is `[ids.len(), width]`.
    ///
    /// # Errors
    /// If `out` has another length, or an id is not a row of the table.
    pub fn embed_rows(&self, ids: &[u32], store: Store, out: &mut [f32]) -> Result<(), KernelError> {
        let (width, limit) = (self.width, self.scales.len());
        check_len("out", ids.len() * width, out.len())?;
        if let Some(&bad) = ids.iter().find(|&&id| id as usize >= limit) {
            return Err(KernelError::Index { argument: "id", found: bad as usize, limit });
        }
        for_row_blocks(out, width, |first, out| {
            for (out, &id) in out.chunks_exact_mut(width).zip(&ids[first..]) {
                let scale = self.scales[id as usize];
                let row = out.iter_mut().zip(&self.bytes.bytes()[id as usize * width..][..width]);
                match store {
                    Store::Overwrite => row.for_each(|(out, &byte)| *out = f32::from(byte) * scale),
                    Store::Accumulate => row.for_each(|(out, &byte)| *out += f32::from(byte) * scale),
                }
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_table_within_half_a_step() {
        let values = [1.0, -2.0, 0.0, 0.0, 1e-3, 127e-3];
        let read = |rows: Range<usize>| Ok::<_, KernelError>(values[rows.start * 2..rows.end * 2].to_vec());
        let table = QuantizedTable::quantize([3, 2], read).unwrap();
        let mut out = [0.0; 6];
        table.embed_rows(&[2, 0, 1], Store::Overwrite, &mut out).unwrap();
        assert!(out[..2].iter().zip([1e-3, 127e-3]).all(|(found, value)| (found - value).abs() < 1e-7), "{out:?}");
        assert!(
            (out[2] - 1.0).abs() <= 1.0 / 127.0 && (out[3] + 2.0).abs() < 1e-6 && out[4..] == [0.0, 0.0],
            "{out:?}"
        );
        let once = out;
        table.embed_rows(&[2, 0, 1], Store::Accumulate, &mut out).unwrap();
        assert!(out.iter().zip(once).all(|(twice, once)| *twice == 2.0 * once));
        assert!(matches!(
            table.embed_rows(&[3], Store::Overwrite, &mut out[..2]),
            Err(KernelError::Index { limit: 3, .. })
        ));
    }

    #[test]
    fn every_row_of_many_blocks_is_the_one_that_was_read() {
        let (rows, width) = (3 * ROWS + 7, 5);
        // The largest value of a row is exact.
        let read = |rows: Range<usize>| {
            Ok::<_, KernelError>(rows.flat_map(|row| [0.0, -(row as f32), 0.0, 0.0, row as f32]).collect())
        };
        let table = QuantizedTable::quantize([rows, width], read).unwrap();
        let ids: Vec<u32> = (0..rows as u32).collect();
        let mut out = vec![7.0; rows * width];
        table.embed_rows(&ids, Store::Overwrite, &mut out).unwrap();
        for (row, out) in out.chunks_exact(width).enumerate() {
            let value = row as f32 / 127.0 * 127.0;
            assert_eq!(out, [0.0, -value, 0.0, 0.0, value], "{row}");
        }
    }

    #[test]
    fn tables_that_cannot_be_read_or_held_are_refused() {
        let refused = |shape, read: fn(Range<usize>) -> Result<Vec<f32>, KernelError>| {
            QuantizedTable::quantize(shape, read).unwrap_err()
        };
        let zeros = |rows: Range<usize>| Ok(vec![0.0; rows.len()]);
        assert!(matches!(refused([1, 0], zeros), KernelError::Value { argument: "width", .. }));
        assert!(matches!(refused([usize::MAX, 8], zeros), KernelError::Memory { .. }));
        assert!(matches!(refused([2, 2], zeros), KernelError::Length { .. }), "{:?}", refused([2, 2], zeros));
        let failure = KernelError::Memory { words: 3 };
        assert_eq!(refused([1000, 2], |_| Err(KernelError::Memory { words: 3 })), failure);
    }
}
