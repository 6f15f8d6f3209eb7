"""Queries by path position: spans, page tables and tiles, as in kernels/src/cuda/attention.rs and kernels/src/attention."""

from dataclasses import dataclass

import numpy as np

import launch


@dataclass(frozen=True)
class Span:
    """Queries `row .. row + len`, at positions from `depth` on of the path whose pages begin at `path`; they see `path_len` positions."""

    row: int
    len: int
    depth: int
    path: int
    path_len: int


@dataclass(frozen=True)
class Paths:
    """The queries of a batch, one a row, and the page table: the row of the key and value of each position."""

    spans: list[Span]
    pages: np.ndarray
    # Every query sees its whole path, not only earlier positions.
    full: bool

    @property
    def rows(self):
        return sum(span.len for span in self.spans)

    @property
    def longest(self):
        return max(span.path_len for span in self.spans)

    def keys_of(self, span, window):
        """First and last key of each query of a span, [len] each (`Mask::visible`). `window`: 0 for none."""
        position = span.depth + np.arange(span.len)
        first = np.maximum(position - window + 1, 0) if window else np.zeros_like(position)
        last = np.full_like(position, span.path_len - 1) if self.full else position
        return first, np.minimum(last, position + window - 1) if window else last

    def pairs(self, window):
        """Number of visible query-key pairs."""
        ends = (self.keys_of(span, window) for span in self.spans)
        return sum(int((last - first + 1).sum()) for first, last in ends)

    def queries_per_tile(self, head_dim, group, wide_tiles):
        return launch.plan_queries_per_tile(head_dim, group, wide_tiles, [span.len for span in self.spans])

    def tiles(self, group, queries):
        """[span, index] of all tiles, those with the most keys first (`query_tiles`)."""
        tiles = []
        for number, span in enumerate(self.spans):
            _, ends = self.keys_of(span, 0)
            for index in range(-(-span.len * group // queries)):
                last = min((index + 1) * queries, span.len * group) - 1
                tiles.append((ends[last // group], number, index))
        tiles.sort(key=lambda tile: -tile[0])
        return np.array([tile[1:] for tile in tiles], np.uint32)

    def span_words(self):
        return np.array([(s.row, s.len, s.depth, s.path, s.path_len) for s in self.spans], np.uint32)


def tree(rng, sequences, max_len):
    """Sequences that share prefixes, in compact space: every prefix has one row."""
    nodes, pages, spans, before = {}, [], [], [[]]
    for _ in range(sequences):
        tokens = list(before[rng.integers(len(before))])[: rng.integers(max_len + 1)]
        tokens += rng.integers(1000, size=max(1 + rng.integers(max_len) - len(tokens), 0)).tolist()
        if not tokens:
            continue
        path, first, parent = len(pages), len(nodes), None
        for token in tokens:
            parent = nodes.setdefault((parent, token), len(nodes))
            pages.append(parent)
        if added := len(nodes) - first:
            spans.append(Span(first, added, len(tokens) - added, path, len(tokens)))
        before.append(tokens)
    return Paths(spans, np.array(pages), full=False)


def whole(rng, lens, full, most=None, shuffled=True):
    """Whole sequences, in spans of at most `most` queries; the rows of their keys are random, or the rows of the queries."""
    spans, start = [], 0
    for length in lens:
        for depth in range(0, length, most or length):
            count = min(most or length, length - depth)
            spans.append(Span(start + depth, count, depth, start, length if full else depth + count))
        start += length
    return Paths(spans, rng.permutation(start) if shuffled else np.arange(start), full)


def shared_prefix(prefix, branch, rows):
    """One prefix and as many branches of it as fit the number of rows, in compact space."""
    branches = max((rows - prefix) // branch, 1)
    spans, pages = [Span(0, prefix, 0, 0, prefix)], [np.arange(prefix)]
    for i in range(branches):
        first = prefix + i * branch
        spans.append(Span(first, branch, prefix, sum(map(len, pages)) if i == 0 else spans[-1].path + prefix + branch, prefix + branch))
        pages += [np.arange(prefix), np.arange(first, first + branch)]
    return Paths(spans, np.concatenate(pages), full=False)
