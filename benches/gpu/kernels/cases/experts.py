"""Cases of kernels/cuda/experts.cu."""

from functools import partial

import numpy as np

import references
from case import Buffers, Output, Run, case, exact
from elements import F32, U32, exactly, random
from launch import NULL, Launch, Pointer, by_rows, u32
from tolerances import of_results


def route_rows(rng, rows, experts, top, extreme=True):
    """Scores with few different values, so that many are equal; one row has a NaN. Words of the lists that are not written must stay
    unchanged."""
    scores = rng.integers(-4, 5, (rows, experts)).astype(np.float32)
    if extreme:
        scores[rows // 2, experts // 2] = np.nan
    buffers = Buffers()
    buffers.input("scores", exactly(F32, scores))
    listed = buffers.in_place("listed", random(rng, U32, (experts, rows), high=1 << 32))
    weights = buffers.in_place("weights", random(rng, F32, (experts, rows)))
    buffers.output("counts", U32, experts)
    chosen, softmax = references.route(scores.astype(np.float64), top)
    members = [np.flatnonzero(chosen[:, expert]) for expert in range(experts)]

    def lists(before, written):
        def reference(at):
            lines = before[at]
            for line, expert in zip(lines, at):
                line[: len(members[expert])] = written(expert)
            return lines

        return reference

    outputs = [Output("listed", experts, lists(listed, lambda expert: members[expert]), exact),
               Output("weights", experts, lists(weights, lambda expert: softmax[members[expert], expert]), of_results(F32, 16)),
               Output("counts", experts, lambda at: np.array([[float(len(members[expert]))] for expert in at]), exact)]
    threads = min(max(-(-rows // 32) * 32, 32), 1024)
    arguments = [*(Pointer(name) for name in ("scores", "listed", "weights", "counts")), u32(rows), u32(experts), u32(top)]

    def torch_equivalent(torch, t):
        values = t["scores"].view(rows, experts)

        def run():
            # The equivalent in transformers before it visits the experts: the same choice, as a mask.
            best = torch.topk(torch.softmax(values, -1), top, -1)
            torch.nn.functional.one_hot(best.indices, experts).permute(2, 1, 0).sum(1).nonzero()

        return run

    # Every block reads all scores, but only once from memory.
    return Run(Launch("route_rows", experts, threads), arguments, buffers, outputs, 4 * rows * experts + 8 * rows * top,
               torch_equivalent=torch_equivalent)


def scatter_add_rows(rng, width, rows, out_rows, indexed=True, outside=True):
    """Rows are added to rows of `out` in any order; one index is out of range."""
    buffers = Buffers()
    x = buffers.input("x", random(rng, F32, (rows, width)))
    before = buffers.in_place("out", random(rng, F32, (out_rows, width)))
    index, factors = np.arange(rows), np.ones(rows)
    if indexed:
        index = rng.permutation(out_rows)[:rows]
        if outside:
            index[rows // 2] = out_rows
        buffers.input("index", exactly(U32, index))
        factors = buffers.input("factors", random(rng, F32, (rows,)))[:]
    sources = np.full(out_rows + 1, -1)
    sources[index] = np.arange(rows)

    def reference(at):
        source = sources[at]
        return before[at] + np.where(source[:, None] >= 0, x[source] * factors[source][:, None], 0.0)

    def torch_equivalent(torch, t):
        values, out = t["x"].view(rows, width), t["out"].view(out_rows, width)
        if not indexed:
            return lambda: out.add_(values)
        numbers, scales = t["index"].long(), t["factors"][:, None]
        return lambda: out.index_add_(0, numbers, values * scales)

    chosen = by_rows(("scatter_add_rows_1", "scatter_add_rows_4"), rows, width, 4, buffers.aligned("x", "out"))
    index, factor = (Pointer("index"), Pointer("factors")) if indexed else (NULL, NULL)
    return Run(chosen, [Pointer("x"), index, factor, Pointer("out"), u32(out_rows), u32(width)], buffers,
               [Output("out", out_rows, reference, of_results(F32, 4, magnitude=4.0))], 12 * rows * width,
               torch_equivalent=torch_equivalent)


def checks():
    for rows, experts, top in ((1, 8, 2), (70, 3, 1), (1100, 8, 2), (90, 5, 5)):
        yield case("route_rows", f"{top} of {experts}, {rows} rows", route_rows, rows, experts, top)
    for width, kernel in ((63, "scatter_add_rows_1"), (1032, "scatter_add_rows_4")):
        yield case(kernel, f"{width} values by index", scatter_add_rows, width, rows=5, out_rows=9)
        yield case(kernel, f"{width} values", scatter_add_rows, width, rows=5, out_rows=5, indexed=False)


def timings(rows):
    timed, sizes = partial(case, timed=True), dict(width=2048, rows=rows, out_rows=rows)
    yield timed("route_rows", "8 of 64", route_rows, rows=rows, experts=64, top=8, extreme=False)
    yield timed("scatter_add_rows_4", "hidden 2048 by index", scatter_add_rows, outside=False, **sizes)
    yield timed("scatter_add_rows_4", "hidden 2048", scatter_add_rows, indexed=False, **sizes)
