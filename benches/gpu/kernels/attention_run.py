"""Attention over paths and over whole sequences: the run of every case of the attention kernels."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

import launch
import references
from attention_torch import disentangled, sdpa
from case import Buffers, Output, Run
from elements import F32, U32, exactly, random
from launch import AttentionArgument, Pointer, Structure
from tolerances import rounding

UNLIMITED = 1 << 30


@dataclass(frozen=True)
class Heads:
    """Query heads, key/value heads and values of a head."""

    num: int
    kv: int
    dim: int

    @property
    def group(self):
        return self.num // self.kv

    @property
    def q_width(self):
        return self.num * self.dim

    @property
    def kv_width(self):
        return self.kv * self.dim


@dataclass
class Terms:
    """Terms added to the scores by distance, and the fields of the kernel's argument for them."""

    fields: dict = field(default_factory=dict)
    # `added(q, k, distance)`: terms added to the products before scaling, [queries, heads, keys]; `biases(distance)`: added after scaling.
    added: object = None
    biases: object = None


def biases(rng, buffers, heads, limit):
    """A bias for each head and distance below `limit`; the padding after a head's biases is NaN (`RelativeBias`)."""
    distances = 2 * limit - 1
    table = random(rng, F32, (heads.num, distances + 32))
    table.bits[:, distances:] = np.nan
    buffers.input("bias", table)
    fields = {"bias": Pointer("bias"), "bias_stride": distances + 32, "bias_origin": limit - 1}
    return Terms(fields, biases=lambda distance: table[:, distance + limit - 1].transpose(1, 0, 2))


def relative_positions(rng, buffers, element, heads, limit, keys, queries, near):
    """Relative position embeddings: distances up to `near` have their own rows, farther distances share a row with eight others. Rows
    of the tables that no distance uses are NaN (`DistanceRows`)."""
    distance = np.arange(1 - limit, limit)
    clamped = np.clip(distance, -near, near)
    rows = clamped + np.floor_divide(distance - clamped, 9)
    rows += 1 - rows[0]
    buffers.input("distance_rows", exactly(U32, rows))
    tables = {}
    for name, wanted in (("position_keys", keys), ("position_queries", queries)):
        if wanted:
            table = random(rng, element, (rows[-1] + 2, heads.num, heads.dim), -1, 1)
            table.bits[[0, -1]] = element.narrow(np.nan)
            tables[name] = buffers.input(name, table)
    fields = {"distance_rows": Pointer("distance_rows"), "distance_origin": limit - 1, **{name: Pointer(name) for name in tables}}

    def added(q, k, distance):
        at, sum_of_terms = rows[distance + limit - 1], 0.0
        if keys:
            products = np.einsum("qhd,rhd->qhr", q, np.nan_to_num(tables["position_keys"][:]), optimize=True)
            sum_of_terms += np.take_along_axis(products, at[:, None], 2)
        if queries:
            products = np.einsum("khd,rhd->rhk", k, np.nan_to_num(tables["position_queries"][:]), optimize=True)
            sum_of_terms += np.take_along_axis(products, at[:, None], 0)
        return sum_of_terms

    return Terms(fields, added=added)


class Reference:
    """Attention of arbitrary rows in float64."""

    def __init__(self, element, heads, paths, window, scale, q, kv, terms):
        self.element, self.heads, self.paths, self.window, self.scale = element, heads, paths, window, scale
        self.q, self.kv, self.terms = q, kv, terms
        self.span_of_row = np.repeat(np.arange(len(paths.spans)), [span.len for span in paths.spans])
        # Cache for the last requested rows: weights times absolute values, and keys.
        self.mixed = self.keys = None

    def __call__(self, rows):
        out, self.mixed = np.empty((2, len(rows), self.heads.q_width))
        self.keys = np.empty((len(rows), 1))
        for number in np.unique(self.span_of_row[rows]):
            where = np.flatnonzero(self.span_of_row[rows] == number)
            span = self.paths.spans[number]
            offset = rows[where] - span.row
            found, mixed = self._span(span, offset)
            out[where], self.mixed[where] = found.reshape(len(where), -1), mixed.reshape(len(where), -1)
            first, last = self.paths.keys_of(span, self.window)
            self.keys[where, 0] = (last - first + 1)[offset]
        return out

    def _span(self, span, offset):
        heads, position = self.heads, span.depth + offset
        q = self.q(span.row + offset).reshape(-1, heads.num, heads.dim)
        # Only the pages that at least one of the queries sees.
        first, last = (ends[offset] for ends in self.paths.keys_of(span, self.window))
        keys = np.arange(first.min(), last.max() + 1)
        k, v = (part.reshape(len(keys), heads.kv, heads.dim).repeat(heads.group, 1) for part in self.kv(self.paths.pages[span.path + keys]))
        seen = (keys >= first[:, None]) & (keys <= last[:, None])
        added = np.where(seen, 0.0, -np.inf)[:, None, :].repeat(heads.num, 1)
        distance = position[:, None] - keys
        if self.terms.added:
            added = added + self.scale * self.terms.added(q, k, distance)
        if self.terms.biases:
            added = added + self.terms.biases(distance)
        return references.attention_query(q, k, v, added, self.scale)

    def tolerance(self, rows, expected):
        """Tolerance for rounding the output and the weights to the type, and for scores and sums in f32."""
        element = self.element
        weights = 0.0 if element is F32 else 1.1 * element.rounding * self.mixed + 2 * self.keys * element.smallest
        return rounding(element, expected) + weights + 2e-5 * self.mixed


def attention(rng, element, heads, paths, window=0, bias=False, positions=(), near=20, shift=0, wanted=None, batch=None):
    """`paths(rng)` draws the queries and is repeated until prefold would launch the kernel `wanted`; `positions`: which of "keys" and
    "queries" have relative position embeddings; `batch`: sequences of equal length, for torch."""
    half, terms, buffers = element.size == 2, Terms(), Buffers()
    for _ in range(1000):
        plan = paths(rng)
        queries = plan.queries_per_tile(heads.dim, heads.group, half and not positions)
        tiles = plan.tiles(heads.group, queries)
        aligned = shift % 16 == 0 and heads.dim * element.size % 16 == 0
        chosen = launch.attention(element, heads.dim, queries, len(tiles) * heads.kv, aligned, bias, bool(positions))
        if wanted in (None, chosen.kernel):
            break
    width = heads.q_width + 2 * heads.kv_width
    # A row of NaN that no page names.
    qkv = random(rng, element, (plan.rows + 1, width))
    qkv.bits[plan.rows] = element.narrow(np.nan)
    buffers.input("qkv", qkv, shift)
    for name, words in (("pages", plan.pages), ("spans", plan.span_words()), ("tiles", tiles)):
        buffers.input(name, exactly(U32, words))
    buffers.output("out", element, plan.rows * heads.q_width, shift)
    scale = float(np.float32(heads.dim**-0.5))
    if bias:
        terms = biases(rng, buffers, heads, plan.longest)
    elif positions:
        terms = relative_positions(rng, buffers, element, heads, plan.longest, "keys" in positions, "queries" in positions, near)
    k_column, v_column = heads.q_width, heads.q_width + heads.kv_width
    reference = Reference(element, heads, plan, window, scale, lambda rows: qkv[rows][:, :k_column],
                          lambda pages: np.split(qkv[pages][:, k_column:], 2, 1), terms)
    fields = {
        "q": Pointer("qkv"), "k": Pointer("qkv", k_column * element.size), "v": Pointer("qkv", v_column * element.size),
        "out": Pointer("out"), "pages": Pointer("pages"), "spans": Pointer("spans"), "tiles": Pointer("tiles"),
        "q_stride": width, "kv_stride": width, "out_stride": heads.q_width, "num_kv_heads": heads.kv, "group": heads.group,
        "head_dim": heads.dim, "group_inverse": launch.group_inverse(heads.group), "window": window,
        "ahead": (window - 1 if window else UNLIMITED) if plan.full else 0,
        "scale_log2": scale * np.log2(np.e), "bias_scale": 1 / scale, "tile_queries": queries, **terms.fields,
    }
    return Run(chosen, [Structure(AttentionArgument, fields)], buffers, [Output("out", plan.rows, reference, reference.tolerance, sample=48)],
               flops=4.0 * heads.q_width * plan.pairs(window),
               torch_equivalent=partial(disentangled if positions else sdpa, heads, batch, plan.full, bias) if batch else None)
