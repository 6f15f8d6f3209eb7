"""Context of the checks: programs, data, device, size of the load, and remaining time."""

import glob
import json
import os
import site
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import processes

# Finds the programs of an installed CUDA toolkit too, if the path lacks it.
PATH = f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin"
# This checkout, or a pack with the same layout (benches/gpu/pack.sh).
ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Load:
    """Sizes of the load."""

    # Model shapes by their role in the lists, and the layers of each if they differ from the shape's own.
    shapes: dict
    layers: int | None
    msmarco: str
    unshared: str
    # The paper's synthetic grid: sequences, tokens of the shared prefix, tokens after it.
    batch: int
    prefixes: str
    suffixes: tuple
    encoder_batches: str
    rows: int
    lengths: str
    runs: int
    # Load over HTTP: seconds per run, texts per request, concurrent requests.
    http_seconds: int
    texts: int
    clients: int
    server_flags: tuple
    # Omitted tests of the kernels.
    skipped: tuple = ()


FULL = Load(
    shapes={"0.6b": "qwen3-0.6b", "4b": "qwen3-4b", "8b": "qwen3-8b", "minilm": "minilm-l6", "bge-base": "bge-base",
            "bge-large": "bge-large", "modernbert": "modernbert-base"},
    layers=None, msmarco="16x10", unshared="1x32,32x512", batch=32, prefixes="256,512,1024,2048", suffixes=(128, 256, 512, 1024),
    encoder_batches="1x12,32x510,512x89", rows=16_384, lengths="128,512,2048", runs=5,
    http_seconds=20, texts=64, clients=16, server_flags=(),
)  # fmt: skip
# Runs every path of the kit within minutes on a CPU or the simulated device, which emulates each thread of a kernel.
SMALL = Load(
    shapes={name: "qwen3-135m" for name in ("0.6b", "4b", "8b")} | {name: "minilm-l6" for name in ("minilm", "bge-base", "bge-large", "modernbert")},
    layers=1, msmarco="1x2", unshared="1x8", batch=2, prefixes="8", suffixes=(4,), encoder_batches="1x8", rows=8, lengths="8", runs=1,
    http_seconds=1, texts=2, clients=2, server_flags=("--max-batch-tokens", 250, "--max-input-length", 250, "--warmup-tokens", 16),
    skipped=("attention::", "2_to_the_31"),
)  # fmt: skip


@dataclass
class Outcome:
    """Result of a check: `ok`, `FAILED`, `stopped` at its limit, `cut` at the end of the run, or `skipped` if something is missing."""

    verdict: str
    note: str = ""
    output: str = ""
    figures: object = None


@dataclass
class Kit:
    """Programs, directories, device, load and deadline of a run. `copy` receives output as it is printed."""

    programs: Path
    modules: Path | None
    work: Path
    device: str
    load: Load
    deadline: float
    copy: object
    library_path: str = field(init=False)

    def __post_init__(self):
        self.library_path = library_path(self.packed("lib"))

    def left(self):
        """Seconds until the run ends."""
        return self.deadline - time.monotonic()

    def program(self, name):
        return self.programs / name

    def packed(self, name):
        """A file or directory that pack.sh may have packed with the programs."""
        return self.programs.parent / name

    def models(self, role):
        """Directory in which `prefold-bench forward` creates the model of a shape; small loads have separate models."""
        return self.work / ("models" if self.load is FULL else "small-models") / role

    def answers(self, role):
        """File of the answers of forward passes, next to their model."""
        return self.models(role) / "answers.safetensors"

    def has_model(self, role):
        return any(self.models(role).glob("*/model.safetensors"))

    def model(self, role):
        """The model of a shape, created earlier by forward passes."""
        return next(self.models(role).glob("*/model.safetensors")).parent

    def python(self, script, *arguments):
        """Command of a script of this folder."""
        return [sys.executable, HERE / script, *arguments]

    def run(self, command, limit_s, ours=True, **variables):
        """Runs a command in the root; prefold's own programs (`ours`) get a library path with cuBLAS. `variables` are added to the
        environment."""
        env = os.environ | {"PATH": PATH, "RUST_BACKTRACE": "1", "PYTHONUNBUFFERED": "1"} | variables
        if ours:
            env["LD_LIBRARY_PATH"] = self.library_path
        self.copy(f"$ {' '.join(map(str, command))}\n")
        return processes.run(command, min(limit_s, self.left()), self.copy, env, ROOT)

    def check(self, command, limit_s, figures=None, ours=True):
        """`. => Runs a command as a check that writes its JSON to the file `figures`. The note is the last printed line that
        starts with `=> `.=> `."""
        if figures:
            figures.unlink(missing_ok=True)
        ended = self.run(command, limit_s, ours)
        found = verdict(ended)
        return Outcome("cut" if found == "stopped" and self.left() <= 1 else found, note(ended), ended.output, read_json(figures))


# Exit status of a script that lacks a requirement on this machine.
SKIPPED = 77


def verdict(ended):
    return {None: "stopped", 0: "ok", SKIPPED: "skipped"}.get(ended.status, "FAILED")


def note(ended):
    """`; of a failure without one, the status and the last line. => The last line that starts with `=> `; for a failure
    without one, the status and the last line.=> `; of a failure without one, the status and the last line."""
    lines = [line.strip() for line in ended.output.splitlines() if line.strip()]
    said = [line[3:].strip() for line in lines if line.startswith("=> ")]
    if said or ended.ok:
        return said[-1] if said else ""
    how = "no end" if ended.status is None else f"status {ended.status}"
    return f"{how}: {lines[-1][:200]}" if lines else how


def read_json(path):
    """The JSON document of a file; None if it is missing or unfinished."""
    try:
        return json.loads(path.read_text()) if path else None
    except (OSError, ValueError):
        return None


def library_path(packed):
    """The library path, extended by packed libraries, a toolkit's libraries and the libraries of Python packages."""
    sites = [*site.getsitepackages(), site.getusersitepackages()]
    packages = [path for root in sites for path in sorted(glob.glob(f"{root}/nvidia/*/lib"))]
    found = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    candidates = [*found, str(packed), "/usr/local/cuda/lib64", *packages]
    return ":".join(path for path in candidates if path and os.path.isdir(path))
