"""The compared models, fetched or made on first use below target/compare/models."""

import subprocess
import sys

import venvs
from venvs import HERE, ROOT, TARGET

MODELS = TARGET / "models"


def run(command):
    """Runs a command in the repository's root; its standard output."""
    return subprocess.run([str(part) for part in command], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def made(name, make):
    """Directory `name` with what `make(directory)` puts into it; complete or absent."""
    directory = MODELS / name
    if not directory.exists():
        print(f"making {directory.relative_to(ROOT)} (once)", file=sys.stderr)
        unfinished = MODELS / f"{name}.unfinished"
        run(["rm", "-rf", unfinished])
        unfinished.mkdir(parents=True)
        make(unfinished)
        unfinished.rename(directory)
    return directory


def minilm():
    """all-MiniLM-L6-v2 with its real weights."""
    run(["scripts/python-env.sh"])
    return run(["scripts/fetch-minilm.sh"])


def minilm_exported():
    """The same as ONNX and as OpenVINO's IR, with the tokenizer's files."""
    return made("all-minilm-l6-v2", lambda out: run([venvs.python("torch"), HERE / "export.py", minilm(), out]))


def random_shape(shape, prefold):
    """Random weights of a shape of `prefold-bench model`, with MiniLM's tokenizer."""
    bench = prefold.with_name("prefold-bench")
    return made(shape, lambda out: run([bench, "model", "--shape", shape, "--tokenizer", minilm(), out]))


def reranker():
    """A cross-encoder with XLM-RoBERTa-base's sizes and random weights."""
    return made("xlm-r-base-reranker", lambda out: run([venvs.python("torch"), HERE / "make_reranker.py", out]))
