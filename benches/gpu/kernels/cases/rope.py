"""Cases of kernels/cuda/rope.cu."""

from functools import partial

import numpy as np

import launch
import references
from case import Buffers, Output, Run, case
from elements import BF16, F32, FLOATS, U32, exactly, random, small_first_row
from launch import NULL, Pointer, f32, u32
from shapes import DECODERS
from tolerances import of_results

EPS = 1e-6


def angles_of(dim, positions):
    """The RoPE cache: rows [cos | sin] of each position, in f32."""
    angles = np.arange(positions)[:, None] * 10_000.0 ** (-2.0 * np.arange(dim // 2) / dim)
    return exactly(F32, np.concatenate([np.cos(angles), np.sin(angles)], 1))


def qk_norm_rope(rng, element, dim, heads, kv_heads, rows, norm, positions=500, shift=0, outside=True):
    """Rows [q | k | v], or [q] without key/value heads, since the second span is optional. v must stay unchanged."""
    half, row_width, all_heads = dim // 2, (heads + 2 * kv_heads) * dim, heads + kv_heads
    buffers = Buffers()
    x = buffers.in_place("x", small_first_row(random(rng, element, (rows, row_width))), shift)
    position_ids = random(rng, U32, (rows,), high=positions)
    if outside:
        position_ids.bits[rows // 2] = positions
    buffers.input("position_ids", position_ids)
    table = buffers.input("table", angles_of(dim, positions))
    norms = [buffers.input(name, random(rng, F32, (dim,))) for name in ("q_norm", "k_norm")] if norm else None
    k_offset = heads * dim if kv_heads else 0

    def reference(at):
        out = x[at]
        turned = out[:, : all_heads * dim].reshape(len(at), all_heads, dim)
        if norm:
            weights = np.concatenate([np.repeat(norms[0][:][None], heads, 0), np.repeat(norms[1][:][None], kv_heads, 0)])
            turned = references.rms_norm(turned, weights, EPS)
        turned = references.rope(turned, references.rows_or_nan(table, position_ids.bits[at]))
        out[:, : all_heads * dim] = turned.reshape(len(at), -1)
        return out

    def tolerance(at, expected):
        # v must be exact; a difference of two products has the error of the products, of normalized values below 4.
        allowed = of_results(element, 16, magnitude=8.0 if norm else 2.5)(at, expected)
        allowed[:, all_heads * dim :] = 0
        return allowed

    def torch_equivalent(torch, t):
        qk = t["x"].view(rows, row_width)[:, : all_heads * dim].unflatten(1, (all_heads, dim))
        angles = t["table"].view(positions, dim)[t["position_ids"].long()].to(qk.dtype)
        cosines, sines = (torch.cat([part, part], 1)[:, None] for part in angles.split(half, 1))
        weights = [t[name].to(qk.dtype) for name in ("q_norm", "k_norm")] if norm else None

        def run():
            turned = qk
            if norm:
                parts = zip(qk.split([heads, kv_heads], 1), weights)
                turned = torch.cat([torch.nn.functional.rms_norm(part, (dim,), weight, EPS) for part, weight in parts], 1)
            swapped = torch.cat([-turned[..., half:], turned[..., :half]], -1)
            qk.copy_(turned * cosines + swapped * sines)
            return t["x"]

        return run

    widths = (row_width, half, 0, k_offset)
    chosen = launch.rope(element, rows, widths, dim, all_heads, buffers.aligned("x"))
    q_norm, k_norm = (Pointer("q_norm"), Pointer("k_norm") if kv_heads else NULL) if norm else (NULL, NULL)
    arguments = [Pointer("x"), Pointer("position_ids"), Pointer("table"), q_norm, u32(0), u32(heads), k_norm, u32(k_offset), u32(kv_heads),
                 u32(rows), u32(row_width), u32(half), u32(positions), f32(EPS)]
    moved = rows * (2 * all_heads * dim * element.size + 4 * dim + 4)
    return Run(chosen, arguments, buffers, [Output("x", rows, reference, tolerance)], moved, torch_equivalent=torch_equivalent)


def checks():
    for element in FLOATS:
        name, wide = element.name, launch.per_16_bytes(element)
        # 80 values of two bytes and 24 of four: the number of lanes of a head is not a power of two.
        uneven = 80 if element.size == 2 else 24
        for norm, how in ((False, ""), (True, " with norm")):
            check = partial(case, make=qk_norm_rope, element=element, norm=norm)
            yield check(f"qk_norm_rope_{name}_{wide}", f"heads of 64{how}", dim=64, heads=4, kv_heads=2, rows=9)
            yield check(f"qk_norm_rope_{name}_{wide}", f"heads of 128{how}", dim=128, heads=3, kv_heads=1, rows=7)
            yield check(f"qk_norm_rope_{name}_{wide}", f"heads of 256, q alone{how}", dim=256, heads=3, kv_heads=0, rows=5)
            yield check(f"qk_norm_rope_{name}_1", f"heads of 6{how}", dim=6, heads=3, kv_heads=1, rows=9)
            yield check(f"qk_norm_rope_{name}_1", f"heads of {uneven}{how}", dim=uneven, heads=2, kv_heads=2, rows=5)
        odd = dict(dim=64, heads=2, kv_heads=1, rows=5, norm=True, shift=element.size)
        yield case(f"qk_norm_rope_{name}_1", "heads of 64, not aligned", qk_norm_rope, element, **odd)


def timings(rows):
    for name, shape in DECODERS.items():
        sizes = dict(dim=shape.head_dim, heads=shape.heads, kv_heads=shape.kv_heads, rows=rows, positions=rows)
        yield case("qk_norm_rope_bf16_8", f"{name} with norm", qk_norm_rope, BF16, norm=True, outside=False, timed=True, **sizes)
