"""Comparison of answers with reference values: an engine's speed counts only if its answers are right."""

import json
import math

from venvs import ROOT

# float32: largest difference of a component of a unit vector, or of a logit. Other types: mean and minimum cosine of vectors; largest
# difference of a logit, relative to its magnitude if that is above 1. PyTorch rounds the residual stream to bfloat16 too and is off by 0.14
# with random weights. In int8 the coarsest quantization that must pass is ONNX Runtime's, with one scale for all activations of a tensor.
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
    """Mean and minimum cosine."""
    found = [cosine(*pair) for pair in zip(values, expected, strict=True)]
    return sum(found) / len(found), min(found)


def vectors(dtype, values, expected):
    """Whether unit vectors are right, and a description of the differences."""
    pairs = list(zip(values, expected, strict=True))
    if dtype == "float32":
        worst = max(difference(*pair) for pair in pairs)
        return worst <= FLOAT32, f"differs by {worst:.1e}, at most {FLOAT32:g} allowed"
    mean, least = cosines(values, expected)
    mean_bound, least_bound = COSINES[dtype]
    return (mean >= mean_bound and least >= least_bound,
            f"cosine {mean:.5f} in the mean, {least:.5f} at least; {mean_bound} and {least_bound} required")


def logits(dtype, values, expected):
    """Whether a cross-encoder's logits are right, and a description of the differences."""
    bound = FLOAT32 if dtype == "float32" else LOGIT
    worst = max(abs(a - b) / max(1, abs(b)) for a, b in zip(values, expected, strict=True))
    return worst <= bound, f"differs by {worst:.1e}, at most {bound:g} allowed"
