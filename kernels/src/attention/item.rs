//! The work list of attention on a CPU.

use super::input::Attention;
use std::cmp::Reverse;

/// Keys of a tile.
pub(super) const KEYS: usize = 64;

/// Lanes of an item.
pub(super) const QUERIES: usize = 128;

/// Queries of one key/value head of a span.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    /// Scores to compute.
    pub(super) cost: u32,
    pub(super) span: u32,
    pub(super) kv_head: u32,
    /// The queries from `tile * QUERIES` on, counting a group of heads at each position.
    pub(super) tile: u32,
}

impl Attention<'_> {
    /// Splits the spans into items, the longest first, so that short ones remain at the end.
    pub(super) fn list_items(&self, items: &mut Vec<Item>) {
        items.clear();
        for (index, span) in (0..).zip(self.spans) {
            let lanes = span.len as usize * self.layout.group();
            for tile in 0..lanes.div_ceil(QUERIES) {
                let queries = tile * QUERIES..((tile + 1) * QUERIES).min(lanes);
                let last = span.depth as usize + (queries.end - 1) / self.layout.group();
                let path_len = self.mask.path_len(index as usize, span);
                let end = self.mask.visible(self.window, path_len, last).end;
                let keys = self.window.map_or(end, |window| (2 * window + QUERIES).min(end));
                let cost = (queries.len() * keys).min(u32::MAX as usize) as u32;
                let heads = 0..self.layout.num_kv_heads as u32;
                items.extend(heads.map(|kv_head| Item { cost, span: index, kv_head, tile: tile as u32 }));
            }
        }
        items.sort_unstable_by_key(|item| Reverse(item.cost));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Mask, QkvLayout, QuerySpan, RowView};
    use super::*;

    /// Scores that a text of `len` tokens takes in all heads.
    fn cost(len: u32, window: Option<usize>, causal: bool) -> u64 {
        let none = RowView { data: &[], row_stride: 1, offset: 0 };
        let (spans, lens) = ([QuerySpan { row: 0, len, depth: 0, path: 0 }], [len]);
        let attention = Attention {
            q: none,
            k: none,
            v: none,
            pages: &[],
            spans: &spans,
            layout: QkvLayout { num_heads: 12, num_kv_heads: 12, head_dim: 64 },
            scale: 1.0,
            mask: if causal { Mask::Causal } else { Mask::Full { path_lens: &lens } },
            window,
            bias: None,
            positions: None,
        };
        let mut items = Vec::new();
        attention.list_items(&mut items);
        items.iter().map(|item| u64::from(item.cost)).sum()
    }

    #[test]
    fn a_window_makes_the_cost_linear_in_the_length() {
        // ModernBERT's window of 128: 64 tokens on either side.
        for causal in [false, true] {
            let [short, long] = [2048, 8192].map(|len| cost(len, Some(65), causal));
            // Four times as many queries; the first ones of a text see fewer keys.
            assert!(long < 5 * short, "{short}, {long}");
            assert!(long <= 12 * 8192 * (2 * 65 + QUERIES as u64), "{long}");
        }
        assert_eq!(cost(8192, None, false), 12 * 8192 * 8192);
    }
}
