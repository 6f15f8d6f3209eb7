"""Expected values of tests/fixtures and their tolerances (tests/fixtures/README.md)."""

import json
import math

from harness import FIXTURES, ROOT

BUILTIN = ROOT / "router" / "builtin"
WORKLOAD = ROOT / "tests" / "workloads" / "docs-rerank.jsonl"

# Models whose heads have 64 or 128 values. Their weights are stored in bfloat16, a CPU's default dtype for them.
WIDE_HEADED_DECODERS = ["qwen3-head128-tiny", "mistral-head64-tiny"]
WIDE_HEADED_ENCODERS = ["bert-head64-tiny", "modernbert-head64-tiny", "embeddinggemma-head128-tiny"]


def in_float32(model):
    """Flags for a server that gives the values of `expected(model)`."""
    return ["--dtype", "float32"] if model in WIDE_HEADED_DECODERS + WIDE_HEADED_ENCODERS else []


def expected(model):
    return json.loads((FIXTURES / model / "expected.json").read_text())


def norm(vector):
    return math.sqrt(math.fsum(x * x for x in vector))


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def normalized(vector):
    length = norm(vector)
    return [x / length for x in vector]


def difference(a, b):
    """Largest difference between corresponding values. NaN counts as infinite."""
    differences = [abs(x - y) for x, y in zip(a, b, strict=True)]
    return max((d if d == d else math.inf for d in differences), default=0.0)


def assert_close(got, want, tolerance, what=""):
    off = difference(got, want)
    assert off <= tolerance, f"{what}: off by {off}, tolerance {tolerance}"


def assert_unit(got, want, what=""):
    assert_close(got, want, 1e-4, what)


def assert_raw(got, want, what=""):
    assert_close(got, want, 1e-4 * max(1.0, norm(want)), what)


def assert_logits(got, want, what=""):
    for g, w in zip(got, want, strict=True):
        assert abs(g - w) <= 2e-3 * abs(w) + 1e-4, f"{what}: logit {g}, expected {w}"


def assert_score(got, want, what=""):
    assert abs(got - want) <= 1e-4, f"{what}: {got}, expected {want}"
