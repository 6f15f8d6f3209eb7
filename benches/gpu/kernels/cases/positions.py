"""Cases of attention with relative position embeddings (DeBERTa)."""

from attention_run import Heads, attention
from case import case
from cases.attention import equal, timed, tree, whole
from elements import BF16, F16, FLOATS

BOTH, KEYS, QUERIES = ("keys", "queries"), ("keys",), ("queries",)

# `near=200`: every distance has its own row, so that whole tiles use all rows of their window.
SCENARIOS = {
    "full": dict(paths=whole(150, 17, 1), positions=BOTH, near=200),
    "full, shared rows": dict(paths=whole(130, 17), positions=BOTH),
    "full pieces": dict(paths=whole(140, 9, most=40), positions=BOTH, near=200),
    "full, window 40": dict(paths=whole(130, 70), positions=BOTH, window=40),
    "full, keys alone": dict(paths=whole(90, 65), positions=KEYS),
    "full, queries alone": dict(paths=whole(130, 65), positions=QUERIES, near=200),
    "causal tree": dict(paths=tree(4, 90), positions=BOTH),
}


def checks():
    for element in FLOATS:
        for variant, scenario in SCENARIOS.items():
            if element in (BF16, F16):
                kernel = f"flash_attention_positions_{element.name}_64_1"
                yield case(kernel, variant, attention, element, Heads(2, 2, 64), wanted=kernel, **scenario)
            kernel = f"plain_attention_{element.name}"
            yield case(kernel, f"positions, {variant}", attention, element, Heads(2, 2, 20), wanted=kernel, **scenario)


def timings(rows):
    for element in (BF16, F16):
        lens = equal(rows, 512)
        yield timed("DeBERTa-v3-base: full 512", element, Heads(12, 12, 64), lens, full=True, positions=BOTH, near=128)
