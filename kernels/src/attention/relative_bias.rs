//! Biases of scores by the distance of query and key.

use super::layout::QkvLayout;
use crate::error::KernelError;

/// Relative position bias: one value for each head and each distance of a query from a key.
#[derive(Debug, Clone)]
pub struct RelativeBias {
    /// `[num_heads, stride]`: the biases of the distances `-(limit - 1) ..= limit - 1`, ascending.
    table: Vec<f32>,
    /// Distances: `2 * limit - 1`.
    stride: usize,
    /// Maximum positions of a path.
    limit: usize,
}

impl RelativeBias {
    /// The biases of paths of up to `limit` positions: `bias(head, distance)`, where the distance is the query's position minus the key's.
    pub fn new(num_heads: usize, limit: usize, bias: impl Fn(usize, isize) -> f32) -> Self {
        let limit = limit.max(1);
        let stride = 2 * limit - 1;
        let mut table = vec![0.0; num_heads * stride];
        for (head, row) in table.chunks_exact_mut(stride).enumerate() {
            for (index, value) in row.iter_mut().enumerate() {
                *value = bias(head, index as isize - (limit as isize - 1));
            }
        }
        Self { table, stride, limit }
    }

    /// All values, `[num_heads, stride]`.
    pub fn values(&self) -> &[f32] {
        &self.table
    }

    /// Stride of the heads in values, and the index of distance 0 within a head.
    #[cfg(feature = "cuda")]
    pub(crate) fn geometry(&self) -> (usize, usize) {
        (self.stride, self.limit - 1)
    }

    /// The bias of a head at a distance.
    pub(crate) fn value(&self, head: usize, distance: isize) -> f32 {
        self.table[head * self.stride + (distance + self.limit as isize - 1) as usize]
    }

    /// Checks that the table has a bias for each head at each distance in a path of `longest` tokens.
    ///
    /// # Errors
    /// It lacks one, or query heads share key/value heads.
    pub(crate) fn check(&self, layout: QkvLayout, longest: usize) -> Result<(), KernelError> {
        if layout.group() != 1 {
            let expected = "num_heads, where scores have a bias";
            return Err(KernelError::Value { argument: "num_kv_heads", found: layout.num_kv_heads, expected });
        }
        crate::error::check_len("relative bias", layout.num_heads * self.stride, self.table.len())?;
        if longest > self.limit {
            return Err(KernelError::Index { argument: "path length", found: longest, limit: self.limit + 1 });
        }
        Ok(())
    }

    /// Adds the biases of a query and the keys from `first_key` on to their scores.
    #[inline(always)]
    pub(super) fn add(&self, head: usize, position: usize, first_key: usize, scores: &mut [f32]) {
        // The first key's distance is at `end - 1`, since distance 0 is at `limit - 1`; distances fall from key to key.
        let end = head * self.stride + self.limit + position - first_key;
        let biases = self.table[end - scores.len()..end].iter().rev();
        for (score, &bias) in scores.iter_mut().zip(biases) {
            *score += bias;
        }
    }
}
