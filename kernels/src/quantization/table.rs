//! An embedding table in int8.

use crate::error::{KernelError, check_len, whole_rows};
use crate::quantization::rows::quantize_weights;
use crate::rowwise::rows::for_row_blocks;
use crate::store::Store;

/// Rows of signed bytes, each with a scale of its own.
#[derive(Debug)]
pub struct QuantizedTable {
    width: usize,
    /// `[rows, width]`
    bytes: Vec<i8>,
    /// `[rows]`
    scales: Vec<f32>,
}

impl QuantizedTable {
    /// An empty table with room for `rows` rows of `width` values.
    ///
    /// # Errors
    /// If `width` is 0, or there is not enough memory.
    pub fn with_capacity(rows: usize, width: usize) -> Result<Self, KernelError> {
        if width == 0 {
            return Err(KernelError::Value { argument: "width", found: 0, expected: "positive" });
        }
        let (mut bytes, mut scales) = (Vec::new(), Vec::new());
        let reserved =
            bytes.try_reserve_exact(rows.saturating_mul(width)).and_then(|()| scales.try_reserve_exact(rows));
        reserved.map_err(|_| KernelError::Memory { words: rows.saturating_mul(width) / size_of::<u32>() })?;
        Ok(Self { width, bytes, scales })
    }

    /// Appends rows, `[any, width]`.
    ///
    /// # Errors
    /// If `rows` is not a whole number of rows.
    pub fn push(&mut self, rows: &[f32]) -> Result<(), KernelError> {
        whole_rows("rows", self.width, rows.len())?;
        for row in rows.chunks_exact(self.width) {
            let start = self.bytes.len();
            self.bytes.resize(start + self.width, 0);
            let bytes = &mut self.bytes[start..];
            let quantized = quantize_weights(row.iter().copied(), |i, byte| bytes[i] = byte);
            self.scales.push(quantized.scale);
        }
        Ok(())
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
                let row = out.iter_mut().zip(&self.bytes[id as usize * width..][..width]);
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
        let mut table = QuantizedTable::with_capacity(3, 2).unwrap();
        table.push(&[1.0, -2.0, 0.0, 0.0]).unwrap();
        table.push(&[1e-3, 127e-3]).unwrap();
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
        assert!(table.push(&[1.0]).is_err() && QuantizedTable::with_capacity(1, 0).is_err());
        assert!(QuantizedTable::with_capacity(usize::MAX, 8).is_err());
    }
}
