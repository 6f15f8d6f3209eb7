//! The work list of attention on a CPU.

use super::input::{Attention, check_window};
use super::layout::{QkvLayout, check_layout};
use super::mask::Mask;
use super::span::QuerySpan;
use crate::error::KernelError;
use crate::runtime::thread_pool;
use std::cmp::Reverse;
use std::ops::Range;

/// Keys of a tile.
pub(super) const KEYS: usize = 128;

/// Maximum queries of an item. Keys and values are collected once for all of them.
pub(super) const MAX_QUERIES: usize = 1024;

/// Minimum of the maximum queries of an item, where longer items would leave threads without work or take too long.
const MIN_QUERIES: usize = 128;

/// Maximum scores of an item of more than [`MIN_QUERIES`] queries: a forward pass gives way to others only between items.
const MAX_SCORES: usize = 1 << 22;

/// Minimum items per thread where items have more than [`MIN_QUERIES`] queries.
const ITEMS_PER_THREAD: usize = 4;

/// Queries of one key/value head of a span.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    /// Scores to compute.
    pub(super) cost: u32,
    pub(super) span: u32,
    pub(super) kv_head: u32,
    /// First query in the span, counting the heads of a group at each position.
    pub(super) first: u32,
    /// Queries, at most [`MAX_QUERIES`].
    pub(super) len: u32,
}

/// Work list of a call of [`Attention`], which can be run in ranges: all ranges together write the same output as one call.
#[derive(Debug, Default)]
pub struct AttentionItems {
    /// No two items write the same values.
    items: Vec<Item>,
}

impl AttentionItems {
    /// An empty list.
    pub const fn new() -> Self {
        Self { items: Vec::new() }
    }

    /// Replaces the list by the items of `spans`, the longest first, so that the last items to finish are short, and
    /// items of equal length in the order of their rows.
    ///
    /// # Errors
    /// If `num_heads` is not a multiple of `num_kv_heads`, the window is 0, or a full mask lacks the path of a span.
    pub fn list(
        &mut self,
        spans: &[QuerySpan],
        layout: QkvLayout,
        mask: Mask<'_>,
        window: Option<usize>,
    ) -> Result<(), KernelError> {
        check_layout(layout)?;
        check_window(window)?;
        mask.check_len(spans)?;
        self.items.clear();
        let queries_per_item = queries_per_item(spans, layout, mask);
        for (index, span) in (0..).zip(spans) {
            let queries = span.len as usize * layout.group();
            for first in (0..queries).step_by(queries_per_item) {
                let len = queries_per_item.min(queries - first);
                let last = span.depth as usize + (first + len - 1) / layout.group();
                let path_len = mask.path_len(index as usize, span);
                let end = mask.visible(window, path_len, last).end;
                let keys = window.map_or(end, |window| window.saturating_mul(2).saturating_add(len).min(end));
                let cost = (len * keys).min(u32::MAX as usize) as u32;
                let (first, len) = (first as u32, len as u32);
                let heads = 0..layout.num_kv_heads as u32;
                self.items.extend(heads.map(|kv_head| Item { cost, span: index, kv_head, first, len }));
            }
        }
        self.items.sort_by_key(|item| Reverse(item.cost));
        Ok(())
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True if there is no item.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Number of scores that a range of items computes.
    pub fn cost(&self, range: Range<usize>) -> u64 {
        self.items[range].iter().map(|item| u64::from(item.cost)).sum()
    }

    /// The range of items from `start` on with about `cost` scores: at least one item, rounded up to a multiple of the
    /// number of threads.
    pub fn take(&self, start: usize, cost: u64) -> Range<usize> {
        let mut left = cost;
        let is_within = |item: &&Item| match left.checked_sub(u64::from(item.cost)) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let count = self.items[start..].iter().take_while(is_within).count();
        let even = count.max(1).next_multiple_of(thread_pool::num_threads());
        start..self.items.len().min(start + even)
    }

    /// A range of items, checked to belong to these arguments.
    pub(super) fn get(&self, range: Range<usize>, attention: &Attention<'_>) -> Result<&[Item], KernelError> {
        let (end, limit) = (range.end, self.items.len() + 1);
        let Some(items) = self.items.get(range) else {
            return Err(KernelError::Index { argument: "end of the items", found: end, limit });
        };
        for item in items {
            let (found, limit) = (item.span as usize, attention.spans.len());
            let Some(span) = attention.spans.get(found) else {
                return Err(KernelError::Index { argument: "span of an item", found, limit });
            };
            let (found, limit) = (item.kv_head as usize, attention.layout.num_kv_heads);
            if found >= limit {
                return Err(KernelError::Index { argument: "head of an item", found, limit });
            }
            let limit = span.len as usize * attention.layout.group() + 1;
            let found = item.first as usize + item.len as usize;
            if found >= limit {
                return Err(KernelError::Index { argument: "end of an item's queries", found, limit });
            }
        }
        Ok(items)
    }
}

/// Queries of an item: the more, the fewer times keys and values are collected, as long as there are enough items for every thread, and
/// an item of the longest path is not too long.
fn queries_per_item(spans: &[QuerySpan], layout: QkvLayout, mask: Mask<'_>) -> usize {
    let longest = (0..).zip(spans).map(|(index, span)| mask.path_len(index, span)).max().unwrap_or(0);
    let items = |queries: &usize| -> usize {
        spans.iter().map(|span| (span.len as usize * layout.group()).div_ceil(*queries)).sum::<usize>()
            * layout.num_kv_heads
    };
    let enough = ITEMS_PER_THREAD * thread_pool::num_threads();
    let sizes = std::iter::successors(Some(MAX_QUERIES), |queries| Some(queries / 2));
    let is_good = |queries: &usize| items(queries) >= enough && queries * longest <= MAX_SCORES;
    sizes.take_while(|&queries| queries > MIN_QUERIES).find(is_good).unwrap_or(MIN_QUERIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores of a text of `len` tokens over all heads.
    fn cost(len: u32, window: Option<usize>, causal: bool) -> u64 {
        let (spans, lens) = ([QuerySpan { row: 0, len, depth: 0, path: 0 }], [len]);
        let mask = if causal { Mask::Causal } else { Mask::Full { path_lens: &lens } };
        let mut items = AttentionItems::new();
        items.list(&spans, QkvLayout { num_heads: 12, num_kv_heads: 12, head_dim: 64 }, mask, window).unwrap();
        items.cost(0..items.len())
    }

    #[test]
    fn a_window_makes_the_cost_linear_in_the_length() {
        // ModernBERT's window of 128: 64 tokens on each side.
        for causal in [false, true] {
            let [short, long] = [2048, 8192].map(|len| cost(len, Some(65), causal));
            // Four times as many queries; the first ones of a text see fewer keys.
            assert!(long < 5 * short, "{short}, {long}");
            assert!(long <= 12 * 8192 * (2 * 65 + MAX_QUERIES as u64), "{long}");
        }
        assert_eq!(cost(8192, None, false), 12 * 8192 * 8192);
    }
}
