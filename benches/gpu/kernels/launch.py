"""Launches by the rules of the launchers in kernels/src/cuda: variant of a kernel, and geometry.

Each rule names the Rust function that it follows. A case that prefold would launch differently proves nothing, so a change there must
be made here too.
"""

import ctypes
from dataclasses import dataclass

# Threads of a block of the plain and the flash kernels (`THREADS` in attention.rs).
ATTENTION_THREADS = 128
# Keys that a block of a flash kernel has in shared memory at a time (`FLASH_KEYS` in names.rs).
FLASH_KEYS = 64


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
        ("distance_origin", ctypes.c_uint32),
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


def flash_shared_bytes(head_dim, queries):
    """`flash_shared_bytes` of names.rs."""
    return (queries + 4 * FLASH_KEYS) * head_dim * 2


def plan_queries_per_tile(head_dim, group, wide_tiles, span_lens):
    """`plan_queries_per_tile` of attention.rs."""
    flash = wide_tiles and head_dim in (64, 128)
    return 128 if flash and sum(span_lens) * group > 64 * len(span_lens) else 64


def attention(element, head_dim, queries, blocks, aligned, positions):
    """`Attention::kernel` of attention.rs. `positions`: with relative position embeddings."""
    half = element.size == 2
    if positions and half and aligned and (head_dim, queries) == (64, 64):
        shared = flash_shared_bytes(64, 64) + 2 * 128 * 64 * 2 + 64 * 88 * 4
        return Launch(f"flash_attention_positions_{element.name}_64", blocks, ATTENTION_THREADS, shared)
    if half and aligned and head_dim in (64, 128) and not positions:
        name = f"flash_attention_{element.name}_{head_dim}_{queries // 64}"
        return Launch(name, blocks, ATTENTION_THREADS, flash_shared_bytes(head_dim, queries))
    assert queries == 64, "the plain kernel has tiles of 64 queries"
    return Launch(f"plain_attention_{element.name}", blocks, ATTENTION_THREADS, 4 * 2 * 4 * head_dim)


def group_inverse(group):
    """`group_inverse` of attention.rs: 2^32 / group rounded up; 0 for a group of 1."""
    return 0 if group == 1 else -(-(1 << 32) // group)
