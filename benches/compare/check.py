"""Answers against reference values: the speed of an engine counts only if it computes the same."""

import json
import math

from venvs import ROOT

# float32: largest difference of a component of a unit vector, or of a logit. The others: mean and least cosine of vectors; largest difference
# of a logit relative to its size where that is above 1. PyTorch rounds the residual stream to bfloat16 too and is off by 0.14 with random
# weights. In int8, one scale for all activations of a tensor, which is ONNX Runtime's way, is the coarsest that must pass.
FLOAT32, LOGIT = 1e-4, 0.2
COSINES = {"bfloat16": (0.999, 0.999), "float16": (0.999, 0.999), "int8": (0.99, 0.97)}


def minilm_cases():
    """Texts and vectors of all-MiniLM-L6-v2, computed by transformers in float32; without the empty text, which prefold refuses."""
    expected = json.loads((ROOT / "tests/fixtures/all-minilm-l6-v2/expected.json").read_text())
    cases = [case for case in expected["cases"] if case["text"]]
    return [case["text"] for case in cases], [case["mean_normalized"] for case in cases]


def difference(values, expected):
    return max(abs(a - b) for a, b in zip(values, expected, strict=True))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def cosines(values, expected):
    """(mean, least)."""
    found = [cosine(*pair) for pair in zip(values, expected, strict=True)]
    return sum(found) / len(found), min(found)


def vectors(dtype, values, expected):
    """(right, what was found) of unit vectors."""
    pairs = list(zip(values, expected, strict=True))
    if dtype == "float32":
        worst = max(difference(*pair) for pair in pairs)
        return worst <= FLOAT32, f"differs by {worst:.1e}, at most {FLOAT32:g} allowed"
    mean, least = cosines(values, expected)
    mean_bound, least_bound = COSINES[dtype]
    return (mean >= mean_bound and least >= least_bound,
            f"cosine {mean:.5f} in the mean, {least:.5f} at least; {mean_bound} and {least_bound} required")


def logits(dtype, values, expected):
    """(right, what was found) of a cross-encoder's logits."""
    bound = FLOAT32 if dtype == "float32" else LOGIT
    worst = max(abs(a - b) / max(1, abs(b)) for a, b in zip(values, expected, strict=True))
    return worst <= bound, f"differs by {worst:.1e}, at most {bound:g} allowed"
