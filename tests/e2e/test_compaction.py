"""Compaction computes each shared prefix once and changes no result."""

import random

import pytest

from reference import difference

MODELS = ["qwen3-tiny", "llama-tiny", "qwen2-tiny", "mistral-tiny", "gemma3-causal-tiny", "gemma2-tiny", "lfm2-tiny", "jina-v5-small-tiny"]
# Of the model with the fewest tokens.
VOCABULARY = 432


def sharing_tree(seed):
    """Token sequences that share prefixes of random lengths; some are equal, some a prefix of another."""
    rng = random.Random(seed)
    sequences = [[rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 60))]]
    for _ in range(rng.randint(2, 30)):
        parent = rng.choice(sequences)
        kept = parent[:rng.randint(0, len(parent))]
        own = [rng.randrange(VOCABULARY) for _ in range(rng.choice([0, 1, 5, 40]))]
        if kept + own:
            sequences.append(kept + own)
    rng.shuffle(sequences)
    return sequences


def nodes(sequences):
    """Number N' of distinct non-empty prefixes."""
    return len({tuple(s[:n]) for s in sequences for n in range(1, len(s) + 1)})


@pytest.mark.parametrize("model", MODELS)
def test_on_and_off_agree_and_the_ratio_is_the_trees(served, model):
    off, on = (served(model, "--radix-mlp-threshold", threshold) for threshold in ("0", "1"))
    for seed in range(10):
        sequences = sharing_tree(seed)
        tokens = sum(map(len, sequences))
        answers = [server.post("/embed", {"inputs": sequences, "normalize": True}) for server in (off, on)]
        assert [answer.status for answer in answers] == [200, 200]
        for one, other in zip(*(answer.json() for answer in answers), strict=True):
            assert difference(one, other) <= 1e-5, f"seed {seed}"
        ratios = [float(answer.headers["x-compaction-ratio"]) for answer in answers]
        assert ratios[0] == 1.0
        assert ratios[1] == pytest.approx(nodes(sequences) / tokens, abs=1e-3), f"seed {seed}"


def test_the_threshold_decides(served):
    """Batches with ratios 0.9 and 1: the first is compacted at thresholds of at least 0.9."""
    shared = [list(range(20)), [*range(4), *range(100, 116)]]
    assert nodes(shared) / 40 == 0.9
    unshared = [list(range(20)), list(range(100, 120))]
    for threshold, want in [("0", 1.0), ("0.85", 1.0), ("0.95", 0.9), ("1", 0.9)]:
        server = served("qwen3-tiny", "--radix-mlp-threshold", threshold)
        for sequences, ratio in [(shared, want), (unshared, 1.0)]:
            response = server.post("/embed", {"inputs": sequences})
            assert float(response.headers["x-compaction-ratio"]) == pytest.approx(ratio, abs=1e-6), threshold


def test_padding_changes_nothing(served):
    plain = served("qwen3-tiny", "--radix-mlp-threshold", "1")
    padded = served("qwen3-tiny", "--radix-mlp-threshold", "1", "--radix-mlp-pad", "16")
    for seed in range(3):
        sequences = sharing_tree(seed)
        for one, other in zip(*(s.ask("/embed", inputs=sequences) for s in (plain, padded)), strict=True):
            assert difference(one, other) <= 1e-5


def test_the_built_in_model_agrees_with_itself(servers):
    off, on = (servers("--radix-mlp-threshold", threshold) for threshold in ("0", "1"))
    prompt = "Instruct: Find the passage of the documentation that answers the question.\nText: "
    texts = [prompt + tail for tail in ("", "a", "how do I lock a file?", "how do I lock a door?", "東京")]
    for path in ("/embed", "/embed_all"):
        for one, other in zip(*(server.ask(path, inputs=texts) for server in (off, on)), strict=True):
            rows = [(one, other)] if path == "/embed" else zip(one, other, strict=True)
            # Rows of /embed_all are not normalised; their norm is about 20.
            assert max(difference(a, b) for a, b in rows) <= (1e-5 if path == "/embed" else 2e-4)
