"""Launches by the rules of the launchers in kernels/src/cuda: variant of a kernel, and geometry.

Each rule names the Rust function that it follows. A case that prefold would launch differently proves nothing, so a change there must
be made here too.
"""

import ctypes
from dataclasses import dataclass

# Threads of a block of the plain and the flash kernels (`THREADS` in attention.rs).
ATTENTION_THREADS = 128
# Terms of the flash kernels, by the stem of their names -> head size -> the queries of a tile for which there is a kernel (`flash_kernels!` of
# flash.rs).
FLASH = {
    "flash_attention": {32: (64, 128), 64: (64, 128), 80: (64,), 96: (64,), 128: (64, 128), 256: (64,)},
    "flash_attention_bias": {64: (64, 128), 128: (64, 128)},
    "flash_attention_positions": {64: (64,)},
}


@dataclass(frozen=True)
class Launch:
    """A kernel and its geometry: blocks of the grid, threads of a block, bytes of dynamic shared memory."""

    kernel: str
    blocks: int
    threads: int
    shared_bytes: int = 0


@dataclass(frozen=True)
class Pointer:
    """An argument: the address of a buffer, `offset` bytes after its start."""

    buffer: str
    offset: int = 0


# A null pointer argument.
NULL = ctypes.c_uint64(0)


def u32(number):
    return ctypes.c_uint32(number)


def f32(number):
    return ctypes.c_float(number)


class AttentionArgument(ctypes.Structure):
    """`struct Attention` of kernels/cuda/attention.cuh."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("q", "k", "v", "out", "pages", "spans", "tiles")),
        *((name, ctypes.c_uint32) for name in ("q_stride", "kv_stride", "out_stride", "num_kv_heads", "group", "head_dim",
                                               "group_inverse", "window", "ahead")),
        ("scale_log2", ctypes.c_float), ("bias_scale", ctypes.c_float), ("bias", ctypes.c_uint64),
        ("bias_stride", ctypes.c_uint32), ("bias_origin", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("position_keys", "position_queries", "distance_rows")),
        ("distance_origin", ctypes.c_uint32), ("tile_queries", ctypes.c_uint32),
    ]


@dataclass(frozen=True)
class Structure:
    """An argument that is a structure; its fields are numbers and pointers."""

    type: type
    fields: dict


def row_threads(accesses):
    """`row_threads` of launch.rs: whole warps, at most 256."""
    return min(max(-(-accesses // 32) * 32, 32), 256)


def by_rows(pair, rows, width, step, aligned):
    """`Launch::by_rows` of launch.rs: one block per row, with the kernel for accesses of `step` values where all rows permit it.
    `aligned`: the addresses of all arguments are multiples of 16."""
    wide = width % step == 0 and aligned
    return Launch(pair[wide], rows, row_threads(width // step if wide else width))


def pair(operation, element, step=4):
    """The kernels of a type for any width and for wide accesses (`names!` of names.rs)."""
    return f"{operation}_{element.name}_1", f"{operation}_{element.name}_{step}"


def per_16_bytes(element):
    """`per_16_bytes` of names.rs."""
    return 16 // element.size


def gather(row_bytes, rows, alignment):
    """`gather_unit` and `gather_rows` of rows.rs, and the units of a row. `alignment`: a common divisor of both addresses."""
    unit = next(unit for unit in (16, 4, 2) if row_bytes % unit == 0 and alignment % unit == 0)
    return Launch(f"gather_rows_{unit}", -(-rows // 8), 256), row_bytes // unit


def rope(element, rows, widths, head_dim, heads, aligned):
    """`QkNormRope::run` of rope.rs. `widths`: a row, half a head, and the offsets of the spans; `heads`: heads of a row in both spans."""
    step, lanes = per_16_bytes(element), head_dim // 2 // per_16_bytes(element)
    divides = 0 < lanes <= 32 and lanes & (lanes - 1) == 0
    wide = divides and aligned and all(width % step == 0 for width in widths)
    blocks = -(-rows * heads // (128 // (lanes if wide else 32)))
    return Launch(pair("qk_norm_rope", element, step)[wide], blocks, 128)


def flash_shared_bytes(stem, head_dim, queries):
    """`Flash::shared_bytes` of flash.rs."""
    keys, row = 32 if head_dim > 128 else 64, 2 * head_dim
    positions = 2 * 128 * row + 64 * 88 * 4 if stem == "flash_attention_positions" else 0
    return (queries + 4 * keys) * row + positions


def plan_queries_per_tile(head_dim, group, wide_tiles, span_lens):
    """`plan_queries_per_tile` of attention.rs."""
    most = max(FLASH["flash_attention"].get(head_dim, (64,)))
    return most if wide_tiles and sum(span_lens) * group > 64 * len(span_lens) else 64


def attention(element, head_dim, queries, blocks, aligned, bias, positions):
    """`Attention::kernel` of attention.rs. `bias`: with biases by distance; `positions`: with relative position embeddings."""
    assert not positions or queries == 64, "tiles of 64 queries with relative position embeddings"
    stem = "flash_attention" + "_bias" * bias + "_positions" * positions
    if element.size == 2 and aligned and queries in FLASH.get(stem, {}).get(head_dim, ()):
        shared = flash_shared_bytes(stem, head_dim, queries)
        return Launch(f"{stem}_{element.name}_{head_dim}_{queries // 64}", blocks, ATTENTION_THREADS, shared)
    return Launch(f"plain_attention_{element.name}", blocks, ATTENTION_THREADS, 4 * 2 * 4 * head_dim)


def group_inverse(group):
    """`group_inverse` of attention.rs: 2^32 / group rounded up; 0 for a group of 1."""
    return 0 if group == 1 else -(-(1 << 32) // group)
