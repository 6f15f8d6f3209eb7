"""Servers on the simulated device (kernels/cuda/simulated). Needs programs built with the feature `cuda`; SIMULATED_DEVICE names the
directory of the simulator's libraries."""

import math
import os

import pytest

from harness import FIXTURES, Server, run_to_end
from reference import expected

LIBRARIES = os.environ.get("SIMULATED_DEVICE")
required = pytest.mark.skipif(not LIBRARIES, reason="SIMULATED_DEVICE is not set; scripts/cuda-check.sh sets it")

LEAST_COSINE = {"float32": 0.99999, "bfloat16": 0.999, "float16": 0.9999}
# Rounding weighs more there, float32 reaches 1.00000: float16 chooses another expert for tokens of two texts (0.99962; the others 1.0000), and
# rounded activations turn one text of the small random Ministral 3 to 0.99895 (float16: 0.99999).
LEAST_OF_MODEL = {("nomic-moe-tiny", "float16"): 0.9995, ("ministral3-tiny", "bfloat16"): 0.998}
# Exit status after the device has failed for good (docs/operations.md).
DEVICE_LOST = 75


def small(tokens):
    """Flags of small batches: the warm-up runs the largest, and each thread of a kernel is emulated."""
    return ["--max-batch-tokens", tokens, "--max-input-length", tokens, "--warmup-tokens", 16]


def on(libraries, settings):
    """Environment of a program that searches this directory first for NVIDIA's libraries."""
    path = os.environ.get("LD_LIBRARY_PATH", "")
    return {"LD_LIBRARY_PATH": f"{libraries}:{path}", **{name: str(value) for name, value in settings.items()}}


class Simulated(Server):
    """`prefold --device cuda` on the simulated device; keywords are the simulator's settings."""

    def __init__(self, model, *args, tokens=200, device="cuda", **settings):
        super().__init__(FIXTURES / model, "--device", device, *small(tokens), *args, env=on(LIBRARIES, settings))

    def check_log(self, log):
        super().check_log(log)
        assert "simulated device:" not in log, log


def refused(*args, libraries=None, **settings):
    """Output of a start that must fail with status 1."""
    status, output = run_to_end(FIXTURES / "qwen3-tiny", *small(200), *args, env=on(libraries or LIBRARIES, settings))
    assert status == 1, (status, output)
    return output


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def short_cases(model):
    """Cases with a text of at most 64 tokens, no prompt and no task."""
    cases = expected(model)["cases"]
    plain = [case for case in cases if case.get("text") and "prompt_name" not in case and "task" not in case]
    cases = [case for case in plain if len(case["input_ids"]) <= 64]
    assert len(cases) >= 4
    return cases


def assert_values(server, model, dtype):
    """Embeddings of all short cases in one request equal Hugging Face's, within the precision of the dtype."""
    # Reference checkpoints without dense modules may name only the pooling.
    default = expected(model)["default"]
    cases, key = short_cases(model), default.get("key", default["pooling"])
    least = LEAST_OF_MODEL.get((model, dtype), LEAST_COSINE[dtype])
    for found, case in zip(server.ask("/embed", inputs=[case["text"] for case in cases]), cases, strict=True):
        assert cosine(found, case[f"{key}_normalized"]) >= least, case["name"]
