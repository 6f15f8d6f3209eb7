//! An item's queries: where they are, and the keys that they see.

use super::input::Attention;
use super::item::{Item, KEYS};
use super::keys::Path;
use crate::simd::L2;
use std::ops::Range;

/// The queries of an item and their path.
#[derive(Clone)]
pub(super) struct Queries<'a> {
    pub(super) path: Path<'a>,
    /// The item's range of the span's (position, head) pairs.
    pub(super) range: Range<usize>,
    /// First row, and path position, of the span.
    row: usize,
    depth: usize,
    /// First query head of the group.
    pub(super) head: usize,
}

impl<'a> Queries<'a> {
    #[inline(always)]
    pub(super) fn new(attention: &'a Attention<'a>, item: Item) -> Self {
        let span = attention.spans[item.span as usize];
        let path_len = attention.mask.path_len(item.span as usize, &span);
        Self {
            path: Path {
                attention,
                pages: &attention.pages[span.path as usize..][..path_len],
                column: item.kv_head as usize * attention.layout.head_dim,
            },
            range: item.first as usize..(item.first + item.len) as usize,
            row: span.row as usize,
            depth: span.depth as usize,
            head: item.kv_head as usize * attention.layout.group(),
        }
    }

    /// Values of a query's head, and of a key and a value.
    #[inline(always)]
    pub(super) fn dim(&self) -> usize {
        self.path.attention.layout.head_dim
    }

    /// Path position of a (position, head) pair of the span.
    #[inline(always)]
    pub(super) fn position(&self, query: usize) -> usize {
        self.depth + query / self.path.attention.layout.group()
    }

    /// The keys that a query at `position` sees.
    #[inline(always)]
    pub(super) fn visible(&self, position: usize) -> Range<usize> {
        let Attention { mask, window, .. } = self.path.attention;
        mask.visible(*window, self.path.pages.len(), position)
    }

    /// The keys that at least one of some queries sees.
    #[inline(always)]
    pub(super) fn visible_to(&self, queries: &Range<usize>) -> Range<usize> {
        self.visible(self.position(queries.start)).start..self.visible(self.position(queries.end - 1)).end
    }

    /// The keys that some query sees, in tiles.
    #[inline(always)]
    pub(super) fn tiles(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let keys = self.visible_to(&self.range);
        (keys.start / KEYS * KEYS..keys.end).step_by(KEYS).map(move |start| start..(start + KEYS).min(keys.end))
    }

    /// Row and column of each query from `first` on in `q` and in `out`.
    #[inline(always)]
    pub(super) fn places(&self, first: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (group, dim, head) = (self.path.attention.layout.group(), self.dim(), self.head);
        let (mut row, mut member) = (self.row + first / group, first % group);
        std::iter::repeat_with(move || {
            let place = (row, (head + member) * dim);
            (row, member) = if member + 1 == group { (row + 1, 0) } else { (row, member + 1) };
            place
        })
    }

    /// Prefetches a part of what the item reads first: some of its queries, and of the keys and values of its first tile.
    #[inline(always)]
    pub(super) fn prefetch(&self, part: usize, parts: usize) {
        let some = part_of(self.range.clone(), part, parts);
        for (row, column) in self.places(some.start).take(some.len()) {
            self.path.attention.q.prefetch::<L2>(row, column, self.dim());
        }
        if let Some(tile) = self.tiles().next() {
            self.path.prefetch_to_l2(part_of(tile, part, parts));
        }
    }
}

/// One of `parts` parts of a range.
#[inline(always)]
pub(super) fn part_of(range: Range<usize>, part: usize, parts: usize) -> Range<usize> {
    let at = |part| range.start + range.len() * part / parts;
    at(part)..at(part + 1)
}
