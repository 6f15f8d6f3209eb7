"""`--device cuda` on the simulated device: Hugging Face's values for every family and head, under every order of asynchronous work."""

import json
import re

import pytest

from harness import FIXTURES, Server, run_to_end
from reference import WIDE_HEADED_DECODERS, WIDE_HEADED_ENCODERS, difference, expected
from simulated import LEAST_COSINE, LIBRARIES, Simulated, assert_values, cosine, on, required
from test_encoders import (EMBEDDERS, RERANKERS, STATIC, TOKEN_CLASSIFIERS, assert_labels_of_tokens,
                           assert_places_of_what_is_left)
from test_reference_values import CPU_ONLY, EMBEDDING_MODELS

pytestmark = required

DTYPES = ["bfloat16", "float16", "float32"]
# Order of the work: SIM_SEED picks one of three orders, and within it the next work to run.
MODELS = [model for model in EMBEDDING_MODELS + EMBEDDERS if model not in CPU_ONLY]
SEEDS = range(len(MODELS))
MODES = [("compact", "1"), ("compact", "0"), ("ragged", "1")]


@pytest.mark.parametrize("seed", SEEDS)
def test_embeddings_in_any_order(seed):
    """Each seed has another order; the families, dtypes and compaction modes alternate."""
    model, dtype = MODELS[seed], DTYPES[seed // 3 % 3]
    attention, threshold = MODES[seed // 2 % 3]
    flags = ["--dtype", dtype, "--attention", attention, "--radix-mlp-threshold", threshold]
    with Simulated(model, *flags, SIM_SEED=seed) as server:
        assert server.get("/info").json()["device"] == "cuda:0"
        assert_values(server, model, dtype)


@pytest.mark.parametrize("order", ["at-once", "soon", "late"])
@pytest.mark.parametrize("model, dtype", [("qwen3-tiny", "bfloat16"), ("bert-mean-tiny", "float32"), ("llama-tiny", "float16")])
def test_embeddings_in_each_order(model, dtype, order):
    with Simulated(model, "--dtype", dtype, SIM_ORDER=order) as server:
        assert_values(server, model, dtype)


def test_a_task_selects_an_adapter():
    cases = [case for case in expected("jina-v3-tiny")["cases"] if "task" in case and len(case["input_ids"]) <= 64]
    assert len({case["task"] for case in cases}) >= 3
    with Simulated("jina-v3-tiny", "--dtype", "float16", SIM_SEED=6) as server:
        for case in cases:
            assert cosine(server.ask("/embed", inputs=case["text"], task=case["task"])[0], case["mean_normalized"]) >= 0.9999, case["name"]


def test_the_built_in_model():
    """Its heads have 64 values, the size of the tensor core kernel."""
    texts = ["how do I lock a file?", "how do I lock a door?", "a file", "x"]
    with Server("--device", "cpu", "--dtype", "float32") as exact, Simulated("../../router/builtin", tokens=64) as server:
        for found, want in zip(server.ask("/embed", inputs=texts), exact.ask("/embed", inputs=texts), strict=True):
            assert difference(found, want) <= 0.03
        # Hidden states of each token, their norm is about 20.
        for found, want in zip(server.ask("/embed_all", inputs=texts), exact.ask("/embed_all", inputs=texts), strict=True):
            assert max(difference(a, b) for a, b in zip(found, want, strict=True)) <= 0.5


@pytest.mark.parametrize("dtype, name", [("bfloat16", "bf16"), ("float16", "f16")])
@pytest.mark.parametrize("model", WIDE_HEADED_DECODERS + WIDE_HEADED_ENCODERS)
def test_heads_of_64_and_128_use_the_tensor_cores(tmp_path, model, dtype, name):
    """One word is in a tile of 64 queries, a long text in tiles of 128."""
    head_dim, data = re.search("head([0-9]+)", model)[1], expected(model)
    key = f"{data['default']['pooling']}_normalized"
    long = next(case for case in data["cases"] if len(case["input_ids"]) > 64)
    with Simulated(model, "--dtype", dtype, tokens=100, SIM_COUNT=tmp_path / "counts") as server:
        assert_values(server, model, dtype)
        for case in (data["cases"][0], long):
            assert cosine(server.ask("/embed", inputs=case["text"])[0], case[key]) >= LEAST_COSINE[dtype], case["name"]
    launched = {kernel for line in (tmp_path / "counts").read_text().splitlines() for kernel in json.loads(line)["kernels"]}
    assert {kernel for kernel in launched if "attention" in kernel} == {f"flash_attention_{name}_{head_dim}_{m}" for m in (1, 2)}


@pytest.mark.parametrize("model", RERANKERS)
def test_cross_encoders(model):
    short = [case for case in expected(model)["pair_cases"] if len(case["input_ids"]) <= 100]
    query, cases = max(by_query(short, "text").items(), key=lambda group: len(group[1]))
    assert len(cases) >= 3
    with Simulated(model, "--dtype", "float32", "--allow-empty-inputs", SIM_SEED=4) as server:
        for item in server.ask("/rerank", query=query, texts=[case["text_pair"] for case in cases]):
            assert abs(item["score"] - cases[item["index"]]["sigmoid"][0]) <= 1e-3, cases[item["index"]]["name"]


@pytest.mark.parametrize("attention", ["compact", "ragged"])
def test_a_language_model_reranks(attention):
    cases = expected("qwen3-reranker-tiny")["cases"]
    asked = {}
    for case in cases:
        asked.setdefault((case["instruction"], case["query"]), []).append(case)
    (instruction, query), cases = next(iter(asked.items()))
    cases = [case for case in cases if case["document"]][:3]
    with Simulated("qwen3-reranker-tiny", "--attention", attention, "--dtype", "float32", tokens=400) as server:
        texts = [case["document"] for case in cases]
        for item in server.ask("/rerank", query=query, texts=texts, instruction=instruction):
            assert abs(item["score"] - cases[item["index"]]["score"]) <= 1e-3, cases[item["index"]]["name"]


@pytest.mark.parametrize("model, activation", [("llama-seqcls-tiny", "sigmoid"), ("qwen3-seqcls-tiny", "softmax"),
                                               ("bert-nli-tiny", "softmax"), ("distilbert-nli-tiny", "sigmoid")])
def test_classifiers(model, activation):
    values = expected(model)
    cases = [case for case in values["cases"] if case.get("text") and len(case["input_ids"]) <= 64]
    labels = values.get("id2label")
    labels = labels if isinstance(labels, dict) else dict(enumerate(labels))
    with Simulated(model, "--dtype", "float32", SIM_SEED=5) as server:
        for found, case in zip(server.ask("/predict", inputs=[[case["text"]] for case in cases]), cases, strict=True):
            scores = {item["label"]: item["score"] for item in found}
            assert difference([scores[labels[str(i)]] for i in range(len(scores))], case[activation]) <= 1e-3, case["name"]


@pytest.mark.parametrize("model", TOKEN_CLASSIFIERS)
def test_token_classifiers(model):
    values = expected(model)
    cases = [case for case in values["cases"] if case["text"] and len(case["input_ids"]) <= 64]
    with Simulated(model, "--dtype", "float32", SIM_SEED=6) as server:
        assert_labels_of_tokens(server, values, cases)


def test_a_truncated_text_keeps_the_places_of_what_is_left():
    """The model has positions for this many tokens."""
    with Simulated("bert-ner-tiny", "--dtype", "float32", tokens=288) as server:
        assert_places_of_what_is_left(server)


@pytest.mark.parametrize("model", STATIC)
def test_a_table_of_vectors_stays_on_the_cpu(model):
    with Server(FIXTURES / model, env=on(LIBRARIES, {})) as server:
        info = server.get("/info").json()
        assert info["device"] == "cpu" and any("static embeddings" in warning for warning in info["warnings"])
        assert "static embeddings" in server.log()
        assert_values(server, model, info["dtype"])
    with Server(FIXTURES / model, "--device", "cpu", env=on(LIBRARIES, {})) as server:
        assert not any("static embeddings" in warning for warning in server.get("/info").json()["warnings"])
    status, output = run_to_end(FIXTURES / model, "--device", "cuda", env=on(LIBRARIES, {}))
    assert status == 1 and "static embeddings (Model2Vec, StaticEmbedding) run on the CPU" in output, output


@pytest.mark.parametrize("model, feature", CPU_ONLY.items())
def test_what_has_no_kernel_is_refused_by_name(model, feature):
    status, output = run_to_end(FIXTURES / model, "--device", "cuda", env=on(LIBRARIES, {}))
    assert status == 1 and feature in output and "--device cpu" in output, output


def by_query(cases, key):
    groups = {}
    for case in cases:
        groups.setdefault(case[key], []).append(case)
    return groups
