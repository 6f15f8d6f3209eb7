"""A dry run of the kit for a machine with a GPU (benches/gpu/run.py) on the simulated device, with small loads. Needs the programs that
scripts/cuda-simulated.sh links into GPU_PROGRAMS."""

import json
import os
import subprocess
import sys

import pytest
from harness import ROOT
from simulated import LIBRARIES, on, required

PROGRAMS = os.environ.get("GPU_PROGRAMS")
pytestmark = [required, pytest.mark.skipif(not PROGRAMS, reason="GPU_PROGRAMS is not set; scripts/cuda-simulated.sh sets it")]

# The tests of kernels and models, and the kernels called from Python, run separately (scripts/cuda-simulated.sh). The second load over
# HTTP repeats the first with another model.
LEFT_OUT = {"kernel-tests", "kernel-harness", "kernel-times", "model-tests", "http-8b"}
# Checks of the first list whose models the second list uses, since the two tests may run in different processes.
MODELS = {"right": [], "fast": ["forward-0.6b"]}
# The products of Qwen3's shapes take minutes in emulation, so they run on the null device.
NOTHING_COMPUTED = {"operations"}
# Checks skipped on a machine without a GPU and without torch.
SKIPPED = {"ceilings", "nsight-attention", "nsight-product", "memcheck", "racecheck", "initcheck", "synccheck"}


def checks(name):
    """Names of a list's checks."""
    listed = f"import checks; print(*(check.name for check in checks.{name.upper()}))"
    folder = ROOT / "benches/gpu"
    return subprocess.run([sys.executable, "-c", listed], cwd=folder, capture_output=True, text=True, check=True).stdout.split()


def run(names, work, out, **settings):
    """Verdicts and figures of these checks."""
    command = [sys.executable, ROOT / "benches/gpu/run.py", "--small", "--only", ",".join(names), "--programs", PROGRAMS, "--work", work, "--out", out]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | on(LIBRARIES, settings), timeout=900)
    results = json.loads((out / "results.json").read_text())
    assert ended.returncode == 0, (out / "failures.txt").read_text()[-4000:]
    return {check: row["verdict"] for check, row in results["checks"].items()}, results["figures"]


@pytest.mark.parametrize("name", ["right", "fast"])
def test_every_check_runs_on_the_simulated_device(name, tmp_path):
    names = MODELS[name] + [check for check in checks(name) if check not in LEFT_OUT | NOTHING_COMPUTED]
    verdicts, figures = run(names, tmp_path / "work", tmp_path / "out")
    assert verdicts == {check: "skipped" if check in SKIPPED or check.startswith(("parity-", "torch-")) else "ok" for check in names}
    assert all(figures[check] for check in names if check.startswith(("forward-", "grid-", "http-")))


def test_operations_run_on_the_device_that_does_nothing(tmp_path):
    verdicts, figures = run(sorted(NOTHING_COMPUTED), tmp_path, tmp_path, SIM_NULL=1)
    assert set(verdicts.values()) == {"ok"} and figures["operations"]["rows"]
