//! The queries of a batch by path position.

use crate::error::KernelError;

/// Maximum positions of a path, so few that sums of positions and windows fit a `u32` in every kernel.
pub(super) const MAX_POSITIONS: usize = 1 << 24;

/// Queries at neighbouring positions of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuerySpan {
    /// First row in `q` and in `out`.
    pub row: u32,
    /// Queries.
    pub len: u32,
    /// Path position of the first query.
    pub depth: u32,
    /// Index of the path's position 0 in [`Attention::pages`](super::Attention::pages).
    pub path: u32,
}

/// Checks that spans are in ascending order, end before row `q_rows`, and have their paths within `pages` pages.
pub(crate) fn check_spans(spans: &[QuerySpan], q_rows: usize, pages: usize) -> Result<(), KernelError> {
    let mut end = 0;
    for span in spans {
        let row = span.row as usize;
        if row < end {
            let expected = "at or after the end of the span before it";
            return Err(KernelError::Value { argument: "first row of a span", found: row, expected });
        }
        end = row + span.len as usize;
        if end > q_rows {
            return Err(KernelError::Index { argument: "end of a span", found: end, limit: q_rows + 1 });
        }
        let positions = span.depth as usize + span.len as usize;
        if positions > MAX_POSITIONS {
            let limit = MAX_POSITIONS + 1;
            return Err(KernelError::Index { argument: "path length", found: positions, limit });
        }
        let end = span.path as usize + positions;
        if end > pages {
            return Err(KernelError::Index { argument: "end of a span's path", found: end, limit: pages + 1 });
        }
    }
    Ok(())
}
