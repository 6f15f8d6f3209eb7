"""Calls of a forward pass to a GPU, and the host's time for them: `prefold-bench forward` on the simulated device with SIM_NULL, where
nothing is computed. Needs what `simulated` needs. The times are printed, not asserted (pytest -rP)."""

import functools
import json
import re
import subprocess
from collections import Counter

import pytest

from harness import BINARIES, ROOT, environment
from simulated import LIBRARIES, on, required

pytestmark = required

WARM, RUNS = 1, 2
BATCHES = ["--no-msmarco", "--prefix", "1,40", "--batch", "6", "--suffix", "20", "--unshared", "1x8,4x30"]
CASES = 4
DECODER = {"add_rms_norm": 2, "qk_norm_rope": 1, "flash_attention": 1, "activate_mul": 1, "products": 4}
RAGGED = {**DECODER, "gather_rows": 2}
# Kernels and products of a layer in each way to compute a batch, most calls first. In a post-norm encoder both blocks convert the residual
# stream; biases are written before a product, except that the activation adds the bias of the first feed-forward product.
LAYERS = {
    "qwen3-135m": [RAGGED, DECODER, DECODER],
    "bge-base": [{"bias_rows": 3, "flash_attention": 1, "layer_norm": 2, "convert": 2, "activate": 1, "products": 4}],
}
# Waits of a pass after the warm-up: for its result.
STEADY = {"waits": 1, "to_device": 1, "to_host": 1, "on_device": 0, "memsets": 0, "allocations": 0, "page_locked": 0, "frees": 0}
# Marks in the queue: after each operation at first, then ever less often, since the device is never behind.
MOST_EVENTS = 16
LIMIT = 300


@pytest.fixture(scope="module")
def forward(tmp_path_factory):
    """`forward(shape, layers, **settings)`: rows of `prefold-bench forward` on the null device, for a shape with few layers."""
    directory = tmp_path_factory.mktemp("forward")

    def run(shape, layers, **settings):
        report = directory / "report.json"
        command = [BINARIES / "prefold-bench", "forward", "--device", "cuda", "--shape", shape, "--layers", str(layers), *BATCHES,
                   "--warm", str(WARM), "--runs", str(RUNS), "--models", str(directory), "--json", str(report)]
        done = subprocess.run(command, cwd=ROOT, env={**environment(directory), **on(LIBRARIES, {"SIM_NULL": 1, **settings})},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert "simulated device:" not in done.stderr, done.stderr
        return json.loads(report.read_text())["rows"]

    return run


class Pass:
    def __init__(self):
        # Calls, bytes and waits; launches by kernel, without its types and variants, and products.
        self.calls, self.work = Counter(), Counter()

    def add(self, wait):
        """Adds a line of SIM_COUNT."""
        for kernel, launches in wait.pop("kernels").items():
            self.work[re.sub(r"(_(f32|bf16|f16|\d+))*$", "", kernel)] += launches
        self.work["products"] += wait["products"]
        self.calls.update({"waits": 1, **wait})


@pytest.fixture(scope="module")
def counted(forward, tmp_path_factory):
    """`counted(shape, layers)`: the passes of each batch, first one warm-up pass in each way, then the timed passes."""
    file = tmp_path_factory.mktemp("counts") / "counts"

    @functools.cache
    def count(shape, layers):
        forward(shape, layers, SIM_COUNT=file)
        # A pass ends with the wait for its result. Loading, which has no work, belongs to the first.
        passes, begun = [], Pass()
        for line in file.read_text().splitlines():
            begun.add(json.loads(line))
            if begun.calls["to_host"]:
                passes.append(begun)
                begun = Pass()
        each = (WARM + RUNS) * len(LAYERS[shape])
        assert len(passes) == CASES * each
        return [passes[i * each:(i + 1) * each] for i in range(CASES)]

    return count


def ways(passes):
    """The distinct work of a batch's passes, most calls first; all ways are equally frequent."""
    work = sorted((sorted(it.work.items()) for it in passes), key=lambda items: (-sum(number for _, number in items), items))
    each = WARM + RUNS
    found = work[::each]
    assert work == [way for way in found for _ in range(each)]
    return [dict(way) for way in found]


@pytest.mark.parametrize("shape", LAYERS)
def test_a_layer_is_the_same_work_in_every_batch(counted, shape):
    fewer, more = ([ways(passes) for passes in counted(shape, layers)] for layers in (2, 3))
    assert all(batch == batches[0] for batches in (fewer, more) for batch in batches)
    differences = [{name: way[name] - less.get(name, 0) for name in way} for way, less in zip(more[0], fewer[0], strict=True)]
    assert [{name: number for name, number in way.items() if number} for way in differences] == LAYERS[shape]


@pytest.mark.parametrize("shape", LAYERS)
def test_a_pass_copies_once_each_way_and_allocates_nothing(counted, shape):
    for passes in counted(shape, 2):
        for timed in passes[WARM * len(LAYERS[shape]):]:
            assert {name: timed.calls[name] for name in STEADY} == STEADY, timed.calls
            assert 0 < timed.calls["events"] <= MOST_EVENTS, timed.calls


@pytest.mark.parametrize("shape", LAYERS)
def test_the_time_of_the_host(forward, shape):
    for row in forward(shape, 2):
        times = ", ".join(f"{way} {row[f'{way} ms']:.3f} ms" for way in ("off", "ragged", "compact") if row.get(f"{way} ms") is not None)
        assert times
        print(f"{shape}, 2 layers, {row['case']}, {row['N']} tokens: the host takes {times}")
