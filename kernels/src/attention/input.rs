//! The arguments of attention on a CPU, and the checks after which rows are addressed without bounds checks.

use super::layout::{QkvLayout, RowView, check_layout};
use super::mask::Mask;
use super::relative_bias::RelativeBias;
use super::relative_positions::RelativePositions;
use super::span::{QuerySpan, check_spans};
use crate::error::KernelError;

/// Attention by path position.
///
/// The query at path position `p` of a span sees the keys and values of rows `pages[path..=path + p]`, or with a full mask
/// of its whole path, limited to positions less than `window` away. No other row has an influence, even if it holds NaN.
///
/// The same operation serves ragged space (`pages` = 0, 1, 2, .., one span for each sequence), compact space (one
/// span for each segment of the radix tree, `pages` = the plan's `scatter`) and single queries (spans of length 1);
/// the result of a query is the same in all three, bit for bit. Operands of the products are rounded to the
/// [`Float`](super::Float) of the call.
///
/// Scores and weighted sums are f32. A query may be NaN if all its scores are below -2.3e38 or, with bf16 operands, if its largest score is
/// beyond about ±1e9; a column of its output may be infinite if the sum of the values that it sees exceeds the largest f32.
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Queries, `[rows, num_heads * head_dim]`.
    pub q: RowView<'a>,
    /// Keys, `[kv_rows, num_kv_heads * head_dim]`.
    pub k: RowView<'a>,
    /// Values, `[kv_rows, num_kv_heads * head_dim]`.
    pub v: RowView<'a>,
    /// The row of each path position: a page table with pages of one token.
    pub pages: &'a [u32],
    /// The queries, in ascending order of their rows.
    pub spans: &'a [QuerySpan],
    /// Heads.
    pub layout: QkvLayout,
    /// Factor on the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// The keys that a query sees.
    pub mask: Mask<'a>,
    /// Sliding window: a query sees keys less than this many positions away; `None` for no limit.
    pub window: Option<usize>,
    /// Bound of the scaled scores, which become `softcap * tanh(score / softcap)`; `None` for no bound.
    pub softcap: Option<f32>,
    /// Added to the scaled scores. Requires as many key/value heads as query heads.
    pub bias: Option<&'a RelativeBias>,
    /// Relative position embeddings, against which queries and keys are scored too. Requires as many key/value heads as query heads.
    pub positions: Option<RelativePositions<'a>>,
}

impl Attention<'_> {
    /// Checks that all parts fit each other and an output of `out_len` values.
    ///
    /// # Errors
    /// A length, an index or a value does not fit.
    pub(super) fn check(&self, out_len: usize) -> Result<(), KernelError> {
        check_layout(self.layout)?;
        check_window(self.window)?;
        let q_rows = self.q.rows(self.layout.q_width()).min(out_len / self.layout.q_width());
        let kv_rows = self.k.rows(self.layout.kv_width()).min(self.v.rows(self.layout.kv_width()));
        check_spans(self.spans, q_rows, self.pages.len())?;
        self.mask.check(self.spans, self.pages.len())?;
        let lens = self.spans.iter().enumerate().map(|(index, span)| self.mask.path_len(index, span));
        let longest = lens.max().unwrap_or(0);
        if let Some(bias) = self.bias {
            bias.check(self.layout, longest)?;
        }
        if let Some(positions) = &self.positions {
            positions.check(self.layout, longest)?;
        }
        match self.pages.iter().max() {
            Some(&page) if page as usize >= kv_rows => {
                Err(KernelError::Index { argument: "page", found: page as usize, limit: kv_rows })
            }
            _ => Ok(()),
        }
    }
}

/// Checks that every query sees a key.
pub(super) fn check_window(window: Option<usize>) -> Result<(), KernelError> {
    match window {
        Some(0) => Err(KernelError::Value { argument: "window", found: 0, expected: "positive" }),
        _ => Ok(()),
    }
}
