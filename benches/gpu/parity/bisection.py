"""Search for the first layer that differs: models of the first layers with the same weights are compared like the whole model."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from answer_file import read

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "benches" / "gpu"))
from kit import library_path  # noqa: E402

# Flags of `prefold-bench forward`, with a value, that a run of fewer layers sets itself or omits.
REPLACED = ("--layers", "--models", "--runs", "--warm", "--answers", "--json", "--svg")


def fewest_that_miss(layers, agrees):
    """Smallest number of layers with which a model misses the goal, given that all `layers` miss it and no layers reach it.

    `agrees(k)` compares a model of the first k layers; it is called about log2(layers) times.
    """
    right, wrong = 0, layers
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if agrees(middle):
            right = middle
        else:
            wrong = middle
    return wrong


def cut(program, command, layers):
    """Arguments of a run like `command` over a model of the first `layers` layers, without timed passes."""
    kept = list(command)
    for index in reversed(range(len(kept))):
        flag, joined, _ = kept[index].partition("=")
        if flag in REPLACED:
            del kept[index : index + (1 if joined else 2)]
        elif flag == "--profile":
            del kept[index]
    return [str(Path(program).resolve()), *kept, "--layers", str(layers), "--runs", "0", "--warm", "1"]


class Cut:
    """Directory and answers of a model of the first layers, written by `prefold-bench` and removed at the end."""

    def __init__(self, program, command, layers, timeout):
        self.directory = tempfile.TemporaryDirectory(prefix=f"parity-{layers}-layers-")
        out = Path(self.directory.name)
        arguments = cut(program, command, layers) + ["--models", str(out), "--answers", str(out / "answers.safetensors")]
        env = os.environ | {"LD_LIBRARY_PATH": library_path(Path(program).resolve().parent.parent / "lib")}
        subprocess.run(arguments, cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL, timeout=timeout)
        self.answers = read(out / "answers.safetensors")
        self.model = next(out.glob("*/model.safetensors")).parent

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.directory.cleanup()
