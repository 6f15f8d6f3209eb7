"""Cases of kernels/cuda/activation.cu."""

from functools import partial

import references
from case import Buffers, Output, Run, case
from elements import BF16, F32, FLOATS, random
from launch import NULL, Pointer, by_rows, pair, per_16_bytes, u32
from shapes import DECODERS, ENCODERS
from tolerances import of_results

# Roundings in f32: 8 of nvcc's erfcf and 4 of expf, whose arguments are rounded too.
ULPS, MAGNITUDE = 32, 0.1


def torch_activation(torch, kind):
    functional = torch.nn.functional
    return {"gelu": functional.gelu, "gelu_tanh": partial(functional.gelu, approximate="tanh"), "relu": functional.relu,
            "silu": functional.silu}[kind]


def activate_mul(rng, element, kind, width, rows, shift=0):
    buffers = Buffers()
    gate_up = buffers.input("gate_up", random(rng, element, (rows, 2 * width), -6, 6), shift)
    buffers.output("out", element, rows * width)
    chosen = by_rows(pair("activate_mul", element, per_16_bytes(element)), rows, width, per_16_bytes(element),
                     buffers.aligned("gate_up", "out"))

    def reference(at):
        gate, up = gate_up[at][:, :width], gate_up[at][:, width:]
        return references.activation(kind, gate) * up

    def torch_equivalent(torch, t):
        gate, up = t["gate_up"].view(rows, 2 * width).split(width, 1)
        function = torch_activation(torch, kind)
        return lambda: function(gate) * up

    return Run(chosen, [Pointer("gate_up"), Pointer("out"), u32(width), u32(references.ACTIVATIONS.index(kind))], buffers,
               [Output("out", rows, reference, of_results(element, ULPS, MAGNITUDE))], 3 * rows * width * element.size,
               torch_equivalent=torch_equivalent)


def activate(rng, element, kind, width, rows, bias=True, in_place=False, shift=0):
    buffers, target = Buffers(), "x" if in_place else "out"
    x = random(rng, element, (rows, width), -6, 6)
    x = buffers.in_place("x", x, shift) if in_place else buffers.input("x", x, shift)
    added = buffers.input("bias", random(rng, F32, (width,))) if bias else None
    if not in_place:
        buffers.output("out", element, rows * width)
    chosen = by_rows(pair("activate", element), rows, width, 4, buffers.aligned("x", "bias", "out"))

    def reference(at):
        return references.activation(kind, x[at] + (added[:] if bias else 0.0))

    def torch_equivalent(torch, t):
        values, function = t["x"].view(rows, width), torch_activation(torch, kind)
        if bias:
            biases = t["bias"].to(values.dtype)
            return lambda: function(values + biases)
        return lambda: function(values)

    arguments = [Pointer("x"), Pointer("bias") if bias else NULL, Pointer(target), u32(width), u32(references.ACTIVATIONS.index(kind))]
    return Run(chosen, arguments, buffers, [Output(target, rows, reference, of_results(element, ULPS, MAGNITUDE))],
               2 * rows * width * element.size, torch_equivalent=torch_equivalent)


def checks():
    for element in FLOATS:
        name, wide, odd = element.name, per_16_bytes(element), dict(rows=2, shift=element.size)
        for kind in references.ACTIVATIONS:
            yield case(f"activate_mul_{name}_{wide}", f"{kind} 264 values", activate_mul, element, kind, width=264, rows=3)
            yield case(f"activate_mul_{name}_1", f"{kind} 37 values", activate_mul, element, kind, width=37, rows=3)
            yield case(f"activate_{name}_4", f"{kind} 132 values with bias", activate, element, kind, width=132, rows=3)
            alone = dict(width=37, rows=3, bias=False, in_place=True)
            yield case(f"activate_{name}_1", f"{kind} 37 values in place", activate, element, kind, **alone)
        yield case(f"activate_mul_{name}_{wide}", "silu 3072 values", activate_mul, element, "silu", width=3072, rows=2)
        yield case(f"activate_mul_{name}_1", "silu 264 values, not aligned", activate_mul, element, "silu", width=264, **odd)
        yield case(f"activate_{name}_4", "gelu 1032 values in place", activate, element, "gelu", width=1032, rows=2, in_place=True)
        yield case(f"activate_{name}_1", "gelu 260 values, not aligned", activate, element, "gelu", width=260, **odd)


def timings(rows):
    timed = partial(case, timed=True)
    for name, shape in DECODERS.items():
        yield timed("activate_mul_bf16_8", f"{name}: silu", activate_mul, BF16, "silu", width=shape.intermediate, rows=rows)
    for name, shape in ENCODERS.items():
        yield timed("activate_bf16_4", f"{name}: gelu with bias", activate, BF16, "gelu", width=shape.intermediate, rows=rows)
