"""`--device cuda` on the simulated device (kernels/cuda/simulated): values of Hugging Face under every order of asynchronous work, and
memory that runs out. Needs programs built with the feature `cuda`; SIMULATED_DEVICE names the directory of the simulator's libraries."""

import math
import os

import pytest

from harness import FIXTURES, Server
from reference import expected

LIBRARIES = os.environ.get("SIMULATED_DEVICE")
pytestmark = pytest.mark.skipif(not LIBRARIES, reason="SIMULATED_DEVICE is not set; scripts/cuda-check.sh sets it")

# The warm-up runs the largest batch, and each of its threads is emulated.
SMALL = ["--max-batch-tokens", 256, "--max-input-length", 200]
LEAST_COSINE = {"float32": 0.99999, "bfloat16": 0.999, "float16": 0.9999}


def simulated(model, *args, **environment):
    path = os.environ.get("LD_LIBRARY_PATH", "")
    libraries = {"LD_LIBRARY_PATH": f"{LIBRARIES}:{path}"}
    return Server(FIXTURES / model, "--device", "cuda", *SMALL, *args, env={**libraries, **environment})


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def assert_values(server, model, dtype):
    values = expected(model)
    pooling = values["default"]["pooling"]
    cases = [case for case in values["cases"] if case.get("text") and "prompt_name" not in case and len(case["input_ids"]) <= 64]
    assert len(cases) >= 4
    for found, case in zip(server.ask("/embed", inputs=[case["text"] for case in cases]), cases, strict=True):
        assert cosine(found, case[f"{pooling}_normalized"]) >= LEAST_COSINE[dtype], case["name"]


@pytest.mark.parametrize("order", ["at-once", "soon", "late"])
@pytest.mark.parametrize("model, dtype", [("qwen3-tiny", "bfloat16"), ("bert-mean-tiny", "float32"), ("llama-tiny", "float16")])
def test_values(model, dtype, order):
    with simulated(model, "--dtype", dtype, SIM_ORDER=order) as server:
        assert server.get("/info").json()["device"] == "cuda:0"
        assert_values(server, model, dtype)


def test_a_batch_without_memory_fails_alone(tmp_path):
    faults = tmp_path / "faults"
    with simulated("qwen3-tiny", SIM_FAULTS_FILE=str(faults)) as server:
        faults.write_text("gemm@1=out_of_memory")
        assert server.post("/embed", {"inputs": "there is no room for this"}).status == 424
        assert_values(server, "qwen3-tiny", "bfloat16")
