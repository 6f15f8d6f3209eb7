//! The work list of attention on a GPU.

use super::mask::Mask;
use super::span::QuerySpan;
use std::cmp::Reverse;

/// Neighbouring queries of a span for one key/value head: the work of a block of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryTile {
    /// Index of the span.
    pub span: u32,
    /// Index of the tile in its span: its queries begin at `index * queries_per_tile`, counting the heads of a group at each
    /// position.
    pub index: u32,
}

/// The tiles of `spans`, the longest first, so that the last tiles to finish are short.
///
/// A span has `len * group` queries, `group` being the query heads that share a key/value head.
///
/// # Panics
/// If `queries_per_tile` or `group` is 0, or a full mask has no path length for a span.
pub fn query_tiles(spans: &[QuerySpan], mask: Mask<'_>, group: usize, queries_per_tile: usize) -> Vec<QueryTile> {
    let mut tiles: Vec<(usize, QueryTile)> = Vec::new();
    for (span, number) in spans.iter().zip(0_u32..) {
        let queries = span.len as usize * group;
        for index in 0..queries.div_ceil(queries_per_tile) {
            let last = ((index + 1) * queries_per_tile).min(queries) - 1;
            // The time of a block of threads depends on the number of keys of its last query, not on its number of queries.
            let position = span.depth as usize + last / group;
            let keys = mask.visible(None, mask.path_len(number as usize, span), position).end;
            tiles.push((keys, QueryTile { span: number, index: index as u32 }));
        }
    }
    // Stable: tiles of the same length stay in the order of their rows, neighbours near each other in the cache.
    tiles.sort_by_key(|&(keys, _)| Reverse(keys));
    tiles.into_iter().map(|(_, tile)| tile).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans() -> impl Strategy<Value = Vec<QuerySpan>> {
        prop::collection::vec((1u32..400, 0u32..3000), 0..12).prop_map(|spans| {
            let mut row = 0;
            let place = |(len, depth)| {
                row += len;
                QuerySpan { row: row - len, len, depth, path: 0 }
            };
            spans.into_iter().map(place).collect()
        })
    }

    proptest! {
        #[test]
        fn every_query_is_in_one_tile_and_the_longest_come_first(spans in spans(), group in 1usize..9, power in 0u32..8) {
            let queries_per_tile = 1 << power;
            let tiles = query_tiles(&spans, Mask::Causal, group, queries_per_tile);
            let mut seen: Vec<Vec<usize>> = spans.iter().map(|span| vec![0; span.len as usize * group]).collect();
            let mut before = u64::MAX;
            for tile in tiles {
                let span = spans[tile.span as usize];
                let first = tile.index as usize * queries_per_tile;
                let last = (first + queries_per_tile).min(span.len as usize * group);
                prop_assert!(first < last);
                seen[tile.span as usize][first..last].iter_mut().for_each(|count| *count += 1);
                let keys = u64::from(span.depth) + ((last - 1) / group) as u64 + 1;
                prop_assert!(keys <= before);
                before = keys;
            }
            prop_assert!(seen.iter().flatten().all(|&count| count == 1));
        }
    }

    #[test]
    fn tiles_of_equal_length_keep_their_order() {
        let span = |row, len, depth| QuerySpan { row, len, depth, path: 0 };
        let tiles = query_tiles(&[span(0, 3, 0), span(3, 5, 7), span(8, 3, 0)], Mask::Causal, 2, 4);
        let pairs: Vec<(u32, u32)> = tiles.iter().map(|tile| (tile.span, tile.index)).collect();
        assert_eq!(pairs, [(1, 2), (1, 1), (1, 0), (0, 1), (2, 1), (0, 0), (2, 0)]);
    }

    #[test]
    fn with_a_full_mask_the_longest_paths_come_first() {
        let span = |row, len, path| QuerySpan { row, len, depth: 0, path };
        let spans = [span(0, 5, 0), span(5, 9, 5)];
        let tiles = query_tiles(&spans, Mask::Full { path_lens: &[5, 9] }, 1, 4);
        let pairs: Vec<(u32, u32)> = tiles.iter().map(|tile| (tile.span, tile.index)).collect();
        assert_eq!(pairs, [(1, 0), (1, 1), (1, 2), (0, 0), (0, 1)]);
    }
}
