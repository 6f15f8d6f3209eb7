"""Cases of kernels/cuda/norm.cu."""

from functools import partial

import numpy as np

import references
from case import Buffers, Output, Run, case
from elements import BF16, F32, FLOATS, random, small_first_row
from launch import NULL, Pointer, by_rows, f32, pair, u32
from shapes import DECODERS, ENCODERS
from tolerances import of_results, rounding

EPS = 1e-6
# Roundings in f32 of a norm: each thread's sum of squares, and the product of value, factor and weight.
ULPS = 16


def extremes(x):
    """A row whose squares overflow f32, so that its norm is NaN; one small enough for eps to matter, and one of zeros."""
    x.bits[-1, 0] = 1e30
    x.bits[0] *= np.float32(1e-3)
    x.bits[1] = 0
    return x


def add_rms_norm(rng, element, width, rows, delta, shift=0, extreme=True):
    buffers = Buffers()
    x = random(rng, F32, (rows, width))
    before = buffers.in_place("x", extremes(x) if extreme else x)
    added = buffers.input("delta", random(rng, element, (rows, width)), shift) if delta else None
    weight = buffers.input("weight", random(rng, F32, (width,)))
    buffers.output("out", element, rows * width, shift)
    chosen = by_rows(pair("add_rms_norm", element), rows, width, 4, buffers.aligned("x", "delta", "weight", "out"))

    def sum_of(at):
        # The sum is rounded to f32 before it is normalised.
        return F32.rounded(before[at] + added[at]) if delta else before[at]

    def torch_equivalent(torch, t):
        x, weight, to = t["x"].view(rows, width), t["weight"], getattr(torch, element.torch)
        norm = partial(torch.nn.functional.rms_norm, normalized_shape=(width,), weight=weight, eps=EPS)
        if delta:
            more = t["delta"].view(rows, width)
            return lambda: norm(x.add_(more)).to(to)
        return lambda: norm(x).to(to)

    outputs = [Output("out", rows, lambda at: references.rms_norm(sum_of(at), weight[:], EPS), of_results(element, ULPS)),
               Output("x", rows, sum_of, lambda at, expected: 0.0)]
    arguments = [Pointer("x"), Pointer("delta") if delta else NULL, Pointer("weight"), f32(EPS), Pointer("out"), u32(width)]
    moved = rows * width * (4 + element.size + (4 + element.size if delta else 0))
    return Run(chosen, arguments, buffers, outputs, moved, torch_equivalent=torch_equivalent)


def rms_norm_add(rng, width, rows, extreme=True):
    buffers = Buffers()
    x = random(rng, F32, (rows, width))
    x = buffers.input("x", extremes(x) if extreme else x)
    weight = buffers.input("weight", random(rng, F32, (width,)))
    before = buffers.in_place("out", random(rng, F32, (rows, width)))
    chosen = by_rows(("rms_norm_add_1", "rms_norm_add_4"), rows, width, 4, buffers.aligned("x", "weight", "out"))

    def torch_equivalent(torch, t):
        x, out = t["x"].view(rows, width), t["out"].view(rows, width)
        return lambda: out.add_(torch.nn.functional.rms_norm(x, (width,), t["weight"], EPS))

    return Run(chosen, [Pointer("x"), Pointer("weight"), f32(EPS), Pointer("out"), u32(width)], buffers,
               [Output("out", rows, lambda at: before[at] + references.rms_norm(x[at], weight[:], EPS),
                       of_results(F32, ULPS, magnitude=8.0))], 12 * rows * width, torch_equivalent=torch_equivalent)


def layer_norm_tolerance(element, x, weight):
    """Tolerance of a row whose mean is far from 0: subtracting the mean loses leading digits. `x(at)`: the rows."""

    def tolerance(at, expected):
        values = x(at)
        lost = np.abs(values).max(-1, keepdims=True) * references.layer_norm_scale(values, EPS) * np.abs(weight)
        return rounding(element, expected) + F32.rounding * ULPS * (np.abs(expected) + lost)

    return tolerance


def layer_norm(rng, element, width, rows, in_place=False, shift=0):
    """f32 rows with a mean of about 3; one has a variance small enough for eps to matter."""
    buffers, target = Buffers(), "x" if in_place else "out"
    x = random(rng, F32, (rows, width), 1.3, 4.7)
    x.bits[0] = (x.bits[0] - 3) * np.float32(1e-3)
    x = buffers.in_place("x", x) if in_place else buffers.input("x", x)
    weight = buffers.input("weight", random(rng, F32, (width,)))
    bias = buffers.input("bias", random(rng, F32, (width,)), 0 if shift == 0 else 4)
    if not in_place:
        buffers.output("out", element, rows * width, shift)
    chosen = by_rows(pair("layer_norm", element), rows, width, 4, buffers.aligned("x", "weight", "bias", "out"))

    def torch_equivalent(torch, t):
        x, to = t["x"].view(rows, width), getattr(torch, element.torch)
        return lambda: torch.nn.functional.layer_norm(x, (width,), t["weight"], t["bias"], EPS).to(to)

    arguments = [Pointer("x"), Pointer("weight"), Pointer("bias"), f32(EPS), Pointer(target), u32(width)]
    output = Output(target, rows, lambda at: references.layer_norm(x[at], weight[:], bias[:], EPS),
                    layer_norm_tolerance(element, lambda at: x[at], weight[:]))
    return Run(chosen, arguments, buffers, [output], rows * width * (4 + element.size), torch_equivalent=torch_equivalent)


def layer_norm_columns(rng, element, width, offset, stride, rows):
    """Norm of the columns `offset .. offset + width` of rows of `stride` values, in place."""
    buffers, columns = Buffers(), slice(offset, offset + width)
    x = small_first_row(random(rng, element, (rows, stride)))
    buffers.in_place("x", x)
    weight, bias = (buffers.input(name, random(rng, F32, (width,))) for name in ("weight", "bias"))
    aligned = offset * element.size % 16 == 0 and stride * element.size % 16 == 0
    chosen = by_rows(pair("layer_norm_columns", element), rows, width, 4, aligned)

    def reference(at):
        out = x[at]
        out[:, columns] = references.layer_norm(out[:, columns], weight[:], bias[:], EPS)
        return out

    def tolerance(at, expected):
        allowed = np.zeros_like(expected)
        allowed[:, columns] = layer_norm_tolerance(element, lambda at: x[at][:, columns], weight[:])(at, expected[:, columns])
        return allowed

    def torch_equivalent(torch, t):
        part = t["x"].view(rows, stride)[:, columns]
        weights, biases = (t[name].to(part.dtype) for name in ("weight", "bias"))

        def run():
            part.copy_(torch.nn.functional.layer_norm(part, (width,), weights, biases, EPS))
            return t["x"]

        return run

    arguments = [Pointer("x", offset * element.size), Pointer("weight"), Pointer("bias"), f32(EPS), u32(width), u32(stride)]
    return Run(chosen, arguments, buffers, [Output("x", rows, reference, tolerance)], 2 * rows * width * element.size,
               torch_equivalent=torch_equivalent)


def checks():
    wide, narrow = dict(width=1032, rows=4), dict(width=63, rows=5)
    for element in FLOATS:
        name, odd = element.name, dict(width=260, rows=3, shift=element.size)
        for delta, how in ((False, ""), (True, " with delta")):
            yield case(f"add_rms_norm_{name}_4", f"1032 values{how}", add_rms_norm, element, delta=delta, **wide)
            yield case(f"add_rms_norm_{name}_1", f"63 values{how}", add_rms_norm, element, delta=delta, **narrow)
        yield case(f"add_rms_norm_{name}_1", "260 values, not aligned", add_rms_norm, element, delta=True, **odd)
        yield case(f"layer_norm_{name}_4", "1032 values", layer_norm, element, **wide)
        yield case(f"layer_norm_{name}_1", "63 values", layer_norm, element, **narrow)
        yield case(f"layer_norm_{name}_1", "260 values, not aligned", layer_norm, element, **odd)
        columns = f"layer_norm_columns_{name}"
        yield case(f"{columns}_4", "64 of 192", layer_norm_columns, element, width=64, offset=64, stride=192, rows=5)
        yield case(f"{columns}_4", "1032 of 2064", layer_norm_columns, element, width=1032, offset=1032, stride=2064, rows=3)
        yield case(f"{columns}_1", "12 of 36, not aligned", layer_norm_columns, element, width=12, offset=3, stride=36, rows=5)
    yield case("layer_norm_f32_4", "1032 values in place", layer_norm, F32, in_place=True, **wide)
    yield case("layer_norm_f32_1", "63 values in place", layer_norm, F32, in_place=True, **narrow)
    yield case("rms_norm_add_4", "1032 values", rms_norm_add, **wide)
    yield case("rms_norm_add_1", "63 values", rms_norm_add, **narrow)


def timings(rows):
    timed = partial(case, timed=True)
    for name, shape in DECODERS.items():
        for delta, how in ((False, ""), (True, " with delta")):
            settings = dict(width=shape.hidden, rows=rows, delta=delta, extreme=False)
            yield timed("add_rms_norm_bf16_4", name + how, add_rms_norm, BF16, **settings)
    for name, shape in ENCODERS.items():
        yield timed("layer_norm_bf16_4", name, layer_norm, BF16, width=shape.hidden, rows=rows)
    q_of_qkv = dict(width=768, offset=0, stride=2304, rows=rows)
    yield timed("layer_norm_columns_bf16_4", "bge-base: q of qkv", layer_norm_columns, BF16, **q_of_qkv)
    yield timed("rms_norm_add_4", "hidden 1152", rms_norm_add, width=1152, rows=rows, extreme=False)
