//! Relative position embeddings of disentangled attention ([arXiv 2006.03654](https://arxiv.org/abs/2006.03654)).
//!
//! A score has two further terms: the query times a position key, and the key times a position query, both from the row of their distance.

use super::layout::{QkvLayout, RowView};
use crate::error::KernelError;

/// The row of each distance; a distance is the query's position minus the key's.
#[derive(Debug, Clone)]
pub struct DistanceRows {
    /// Rows of the distances `-(limit - 1) ..= limit - 1`, ascending.
    rows: Vec<u32>,
    /// Maximum positions of a path.
    limit: usize,
}

impl DistanceRows {
    /// The rows for paths of up to `limit` positions. `row` must not decrease with the distance, and grow by at most one per step.
    pub fn new(limit: usize, row: impl Fn(isize) -> usize) -> Self {
        let limit = limit.max(1);
        let last = limit as isize - 1;
        Self { rows: (-last..=last).map(|distance| row(distance) as u32).collect(), limit }
    }

    /// The rows of all distances, ascending.
    pub fn values(&self) -> &[u32] {
        &self.rows
    }

    /// The index of distance 0 in [`values`](Self::values).
    #[cfg(feature = "cuda")]
    pub(crate) fn origin(&self) -> usize {
        self.limit - 1
    }

    /// Checks the rows for paths of up to `longest` positions, and returns the number of rows that a table must have.
    pub(crate) fn check(&self, layout: QkvLayout, longest: usize) -> Result<usize, KernelError> {
        if layout.group() != 1 {
            let expected = "num_heads, with relative position embeddings";
            return Err(KernelError::Value { argument: "num_kv_heads", found: layout.num_kv_heads, expected });
        }
        if longest > self.limit {
            return Err(KernelError::Index { argument: "path length", found: longest, limit: self.limit + 1 });
        }
        if let Some(pair) = self.rows.windows(2).find(|pair| pair[1].wrapping_sub(pair[0]) > 1) {
            let expected = "the row of the previous distance, or the next row";
            return Err(KernelError::Value { argument: "row of a distance", found: pair[1] as usize, expected });
        }
        Ok(self.rows.last().map_or(0, |&row| row as usize + 1))
    }

    /// The row of a distance.
    #[inline(always)]
    pub(crate) fn row(&self, distance: isize) -> usize {
        self.rows[(distance + self.limit as isize - 1) as usize] as usize
    }
}

/// Relative position embeddings, projected like keys and like queries.
#[derive(Debug, Clone, Copy)]
pub struct RelativePositions<'a> {
    /// Position keys, `[rows, num_heads * head_dim]`, multiplied with queries; `None` for no such term.
    pub keys: Option<RowView<'a>>,
    /// Position queries, of the same shape, multiplied with keys; `None` for no such term.
    pub queries: Option<RowView<'a>>,
    /// The row of each distance.
    pub rows: &'a DistanceRows,
}

impl RelativePositions<'_> {
    /// Checks that the tables have a row for each distance in a path of `longest` tokens.
    ///
    /// # Errors
    /// A row is missing, or the heads do not fit.
    pub(super) fn check(&self, layout: QkvLayout, longest: usize) -> Result<(), KernelError> {
        let rows = self.rows.check(layout, longest)?;
        for table in [&self.keys, &self.queries].into_iter().flatten() {
            let found = table.rows(layout.q_width());
            if rows > found {
                return Err(KernelError::Index { argument: "row of a distance", found: rows - 1, limit: found });
            }
        }
        Ok(())
    }
}
