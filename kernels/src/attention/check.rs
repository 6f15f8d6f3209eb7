//! What has to hold before rows are addressed without further checks.

use super::{Attention, QkvLayout, QuerySpan, RowView};
use crate::KernelError;

/// Positions are compared as f32, which counts exactly up to here.
const MAX_POSITIONS: usize = 1 << 24;

impl RowView<'_> {
    /// How many rows of `width` columns the view has.
    fn rows(&self, width: usize) -> usize {
        if self.offset + width > self.row_stride || self.data.len() < self.offset + width {
            return 0;
        }
        (self.data.len() - self.offset - width) / self.row_stride + 1
    }
}

impl Attention<'_> {
    pub(super) fn check(&self, out_len: usize) -> Result<(), KernelError> {
        check_layout(self.layout)?;
        if self.window == Some(0) {
            return Err(KernelError::Value { what: "window", found: 0, expected: "positive" });
        }
        let q_rows = self.q.rows(self.layout.q_width()).min(out_len / self.layout.q_width());
        let kv_rows = self.k.rows(self.layout.kv_width()).min(self.v.rows(self.layout.kv_width()));
        check_spans(self.spans, q_rows, self.pages.len())?;
        match self.pages.iter().max() {
            Some(&page) if page as usize >= kv_rows => {
                Err(KernelError::Index { what: "page", found: page as usize, limit: kv_rows })
            }
            _ => Ok(()),
        }
    }
}

/// That heads have values and come in whole groups.
pub(crate) fn check_layout(layout: QkvLayout) -> Result<(), KernelError> {
    let QkvLayout { num_heads, num_kv_heads, head_dim } = layout;
    if num_kv_heads == 0 || num_heads == 0 || !num_heads.is_multiple_of(num_kv_heads) {
        let expected = "a positive multiple of num_kv_heads";
        return Err(KernelError::Value { what: "num_heads", found: num_heads, expected });
    }
    if head_dim == 0 {
        return Err(KernelError::Value { what: "head_dim", found: 0, expected: "positive" });
    }
    Ok(())
}

/// That spans are in ascending order, end before row `q_rows`, and have their paths in a table of `pages` pages.
pub(crate) fn check_spans(spans: &[QuerySpan], q_rows: usize, pages: usize) -> Result<(), KernelError> {
    let mut end = 0;
    for span in spans {
        let row = span.row as usize;
        if row < end {
            let expected = "at or after the end of the span before it";
            return Err(KernelError::Value { what: "first row of a span", found: row, expected });
        }
        end = row + span.len as usize;
        if end > q_rows {
            return Err(KernelError::Index { what: "end of a span", found: end, limit: q_rows + 1 });
        }
        let positions = span.depth as usize + span.len as usize;
        if positions > MAX_POSITIONS {
            let limit = MAX_POSITIONS + 1;
            return Err(KernelError::Index { what: "path length", found: positions, limit });
        }
        let end = span.path as usize + positions;
        if end > pages {
            return Err(KernelError::Index { what: "end of a span's path", found: end, limit: pages + 1 });
        }
    }
    Ok(())
}
