"""Cases of kernels/cuda/rows.cu."""

from functools import partial

import numpy as np

import launch
import references
from case import Buffers, Output, Run, case, exact
from elements import BF16, F32, FLOATS, U16, U32, exactly, random
from launch import Launch, Pointer, by_rows, f32, pair, row_threads, u32
from shapes import DECODERS, ENCODERS
from tolerances import of_results


def indices(rng, count, limit, outside=True):
    """Random row numbers; one in the middle is out of range."""
    index = random(rng, U32, (count,), high=limit)
    if outside:
        index.bits[count // 2] = limit
    return index


def gather(rng, unit, width, rows, src_rows, shift=0, outside=True):
    """`unit` is the type of a row's values, which are copied bit for bit."""
    buffers = Buffers()
    # Below the values that mark rows out of range and unwritten memory.
    src = buffers.input("src", random(rng, unit, (src_rows, width), high=0xFF00), shift)
    index = buffers.input("index", indices(rng, rows, src_rows, outside))
    buffers.output("out", unit, rows * width, shift)
    chosen, units = launch.gather(width * unit.size, rows, 16 if shift % 16 == 0 else shift)
    ones = float(2 ** (8 * unit.size) - 1)

    def reference(at):
        # An index out of range gives a row whose bits are all ones: NaN in every float type.
        return np.nan_to_num(references.rows_or_nan(src, index.bits[at]), nan=ones)

    def torch_equivalent(torch, t):
        table, numbers = t["src"].view(src_rows, width), t["index"].long()
        return lambda: torch.index_select(table, 0, numbers)

    arguments = [Pointer("src"), Pointer("index"), Pointer("out"), u32(rows), u32(src_rows), u32(units)]
    return Run(chosen, arguments, buffers, [Output("out", rows, reference, exact)], 2 * rows * width * unit.size + 4 * rows,
               torch_equivalent=torch_equivalent)


def embed(rng, element, width, rows, vocab, accumulate=False, shift=0, outside=True):
    buffers = Buffers()
    table = buffers.input("table", random(rng, element, (vocab, width)), shift)
    ids = buffers.input("ids", indices(rng, rows, vocab, outside))
    before = None
    if accumulate:
        before = buffers.in_place("out", random(rng, F32, (rows, width)))
    else:
        buffers.output("out", F32, rows * width)
    chosen = by_rows(pair("embed", element), rows, width, 4, buffers.aligned("table", "out"))

    def reference(at):
        return references.rows_or_nan(table, ids.bits[at]) + (before[at] if accumulate else 0.0)

    def torch_equivalent(torch, t):
        weight, numbers, out = t["table"].view(vocab, width), t["ids"].long(), t["out"].view(rows, width)
        if accumulate:
            return lambda: out.add_(torch.nn.functional.embedding(numbers, weight))
        return lambda: torch.nn.functional.embedding(numbers, weight).float()

    arguments = [Pointer("table"), Pointer("ids"), Pointer("out"), u32(vocab), u32(width), u32(accumulate)]
    moved = rows * (width * (element.size + (8 if accumulate else 4)) + 4)
    return Run(chosen, arguments, buffers, [Output("out", rows, reference, of_results(F32, 1) if accumulate else exact)], moved,
               torch_equivalent=torch_equivalent)


def convert(rng, element, width, rows, shift=0, special=True):
    """Values of all magnitudes, including ties, subnormal values, overflow and NaN."""
    values = random(rng, F32, (rows, width))
    if special:
        values.bits.reshape(-1)[:] *= np.exp2(rng.integers(-30, 18, rows * width)).astype(np.float32)
        some = [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.0, 65520.0, -70000.0, 3.4e38, 1 + 2**-9, 1 + 3 * 2**-9, 1 + 2**-11, 1 + 3 * 2**-11,
                2.0**-14, 2.0**-24, 2.0**-25, 3 * 2.0**-26]
        values.bits.reshape(-1)[: len(some)] = some[: rows * width]
    buffers = Buffers()
    x = buffers.input("x", values, shift)
    buffers.output("out", element, rows * width)
    chosen = by_rows(pair("convert", element), rows, width, 4, buffers.aligned("x", "out"))

    def torch_equivalent(torch, t):
        to = getattr(torch, element.torch)
        return lambda: t["x"].to(to)

    return Run(chosen, [Pointer("x"), Pointer("out"), u32(width)], buffers,
               [Output("out", rows, lambda at: element.rounded(x[at]), exact)], rows * width * (4 + element.size),
               torch_equivalent=torch_equivalent)


def bias_rows(rng, element, width, rows, accumulate):
    buffers = Buffers()
    bias = buffers.input("bias", random(rng, F32, (width,)))
    before = buffers.in_place("out", random(rng, element, (rows, width))) if accumulate else None
    if not accumulate:
        buffers.output("out", element, rows * width)

    def torch_equivalent(torch, t):
        out = t["out"].view(rows, width)
        if accumulate:
            added = t["bias"].to(out.dtype)
            return lambda: out.add_(added)
        return lambda: out.copy_(t["bias"].expand(rows, width))

    chosen = Launch(f"bias_rows_{element.name}", rows, row_threads(width))
    return Run(chosen, [Pointer("out"), Pointer("bias"), u32(width), u32(accumulate)], buffers,
               [Output("out", rows, lambda at: np.repeat(bias[None], len(at), 0) + (before[at] if accumulate else 0.0),
                       of_results(element, 1))], rows * width * element.size * (1 + accumulate), torch_equivalent=torch_equivalent)


def own_columns(rng, element, group, groups, rows, all_groups, outside=True):
    """`all_groups`: x has the columns of all groups, not only of each row's own group."""
    width, out_width, buffers = group * groups if all_groups else group, group * groups, Buffers()
    x = buffers.input("x", random(rng, F32, (rows, width)))
    own = buffers.input("own", indices(rng, rows, groups, outside))
    buffers.output("out", element, rows * out_width)
    chosen = Launch(f"own_columns_{element.name}", rows, row_threads(out_width))

    def reference(at):
        return element.rounded(references.own_columns(x[at], own.bits[at], group, groups))

    def torch_equivalent(torch, t):
        numbers, to = t["own"][:, None], getattr(torch, element.torch)
        columns = t["x"].view(rows, width) if all_groups else t["x"].view(rows, width).repeat(1, groups)
        group_of_column = torch.arange(out_width, device=numbers.device) // group
        return lambda: torch.where(group_of_column == numbers, columns, 0.0).to(to)

    arguments = [Pointer("x"), Pointer("own"), Pointer("out"), u32(width), u32(group), u32(out_width)]
    return Run(chosen, arguments, buffers, [Output("out", rows, reference, exact)], rows * (4 * group + out_width * element.size),
               torch_equivalent=torch_equivalent)


def pool(rng, width, lens, kind, normalize=False, shuffled=True):
    """Sequences of these lengths with random rows of `x`. The first is all zeros; the second has one NaN."""
    rows, outputs, buffers = sum(lens), len(lens), Buffers()
    x = random(rng, F32, (rows, width))
    table = rng.permutation(rows) if shuffled else np.arange(rows)
    starts = np.concatenate([[0], np.cumsum(lens)])
    if shuffled:
        x.bits[table[: lens[0]]] = 0
        x.bits[table[starts[1] + lens[1] // 2], width // 2] = np.nan
    buffers.input("x", x)
    buffers.input("table", exactly(U32, table))
    buffers.input("starts", exactly(U32, starts))
    buffers.output("out", F32, outputs * width)
    threads = row_threads(width)
    parts = 1 if normalize else -(-width // threads)

    def reference(at):
        members = [table[starts[i] : starts[i + 1]] for i in at]
        return np.stack([references.pooled(x[some], kind, normalize) for some in members])

    def torch_equivalent(torch, t):
        if len(set(lens)) > 1 or shuffled or kind != "mean":
            raise NotImplementedError("only of neighbouring rows and equal lengths")
        whole = t["x"].view(outputs, lens[0], width)
        if normalize:
            return lambda: torch.nn.functional.normalize(whole.mean(1), dim=1)
        return lambda: whole.mean(1)

    arguments = [Pointer("x"), Pointer("table"), Pointer("starts"), Pointer("out"), u32(width), u32(parts),
                 u32(references.POOLINGS.index(kind)), u32(normalize)]
    # Terms of both signs cancel, so the error is relative to the terms, not to the sum.
    tolerance = of_results(F32, 4 + max(lens) / 2, magnitude=2.0)
    return Run(Launch("pool_rows", outputs * parts, threads), arguments, buffers, [Output("out", outputs, reference, tolerance)],
               4 * (rows + outputs) * width, torch_equivalent=torch_equivalent)


def scale_rows(rng, width, rows, factor, shift=0):
    buffers = Buffers()
    x = buffers.in_place("x", random(rng, F32, (rows, width)), shift)
    chosen = by_rows(("scale_rows_1", "scale_rows_4"), rows, width, 4, buffers.aligned("x"))
    return Run(chosen, [Pointer("x"), f32(factor), u32(width)], buffers,
               [Output("x", rows, lambda at: x[at] * np.float32(factor), of_results(F32, 1))], 8 * rows * width,
               torch_equivalent=lambda torch, t: lambda: t["x"].mul_(factor))


def checks():
    """Every kernel, with rows wide enough for several steps of a block's threads, and with narrow ones."""
    yield case("gather_rows_16", "64 values", gather, U16, width=64, rows=19, src_rows=50)
    yield case("gather_rows_16", "3 KiB", gather, U16, width=1544, rows=9, src_rows=50)
    yield case("gather_rows_4", "10 values", gather, U16, width=10, rows=17, src_rows=50)
    yield case("gather_rows_4", "1 KiB from a 4th byte", gather, U32, width=256, rows=9, src_rows=20, shift=4)
    yield case("gather_rows_2", "7 values", gather, U16, width=7, rows=17, src_rows=50)
    yield case("gather_rows_2", "301 values", gather, U16, width=301, rows=9, src_rows=50)
    for element in FLOATS:
        yield from checks_of(element, element.name)
    for kind in references.POOLINGS:
        yield case("pool_rows", f"{kind} of 300", pool, width=300, lens=(5, 9, 1, 30), kind=kind)
        yield case("pool_rows", f"{kind} of 70, normalized", pool, width=70, lens=(3, 4, 1), kind=kind, normalize=True)
    yield case("scale_rows_1", "37 values", scale_rows, width=37, rows=5, factor=27.5)
    yield case("scale_rows_1", "260 values, not aligned", scale_rows, width=260, rows=3, factor=27.5, shift=4)
    yield case("scale_rows_4", "1032 values", scale_rows, width=1032, rows=5, factor=27.5)


def checks_of(element, name):
    for accumulate, how in ((False, ""), (True, " added")):
        yield case(f"embed_{name}_4", f"1032 values{how}", embed, element, width=1032, rows=7, vocab=90, accumulate=accumulate)
        yield case(f"embed_{name}_1", f"7 values{how}", embed, element, width=7, rows=9, vocab=90, accumulate=accumulate)
        yield case(f"bias_rows_{name}", f"300 values{how}", bias_rows, element, width=300, rows=5, accumulate=accumulate)
    yield case(f"embed_{name}_1", "260 values, not aligned", embed, element, width=260, rows=5, vocab=30, shift=element.size)
    yield case(f"convert_{name}_4", "1044 values", convert, element, width=1044, rows=5)
    yield case(f"convert_{name}_1", "37 values", convert, element, width=37, rows=9)
    yield case(f"convert_{name}_1", "300 values, not aligned", convert, element, width=300, rows=3, shift=4)
    for group in (1, 33):
        yield case(f"own_columns_{name}", f"{group} of all", own_columns, element, group, groups=5, rows=8, all_groups=True)
    yield case(f"own_columns_{name}", "60 alone", own_columns, element, group=60, groups=5, rows=8, all_groups=False)


def timings(rows):
    """The batches of published models, `rows` tokens each."""
    timed = partial(case, timed=True)
    for name, shape in DECODERS.items():
        whole, vocab = dict(width=shape.hidden, rows=rows), min(shape.vocab, 64 * rows)
        yield timed("gather_rows_16", f"{name}: qkv", gather, U16, width=shape.qkv_width, rows=rows, src_rows=rows, outside=False)
        yield timed("embed_bf16_4", name, embed, BF16, **whole, vocab=vocab, outside=False)
        yield timed("convert_bf16_4", name, convert, BF16, **whole, special=False)
    for name, shape in ENCODERS.items():
        lens = (128,) * max(rows // 128, 1)
        means = dict(kind="mean", normalize=True, shuffled=False)
        yield timed("pool_rows", f"{name}: mean, normalized", pool, width=shape.hidden, lens=lens, **means)
        yield timed("bias_rows_bf16", f"{name}: qkv", bias_rows, BF16, width=shape.qkv_width, rows=rows, accumulate=False)
    yield timed("scale_rows_4", "hidden 1024", scale_rows, width=1024, rows=rows, factor=1.0)
    lora = dict(group=16, groups=4, rows=rows, all_groups=True, outside=False)
    yield timed("own_columns_bf16", "4 adapters of rank 16", own_columns, BF16, **lora)
