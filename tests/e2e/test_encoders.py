"""Encoders through HTTP: the values of Hugging Face, the routes of each head, and equal inputs computed once."""

import math
import os

import pytest

from harness import FIXTURES, Server
from reference import assert_close, assert_raw, assert_score, assert_unit, expected

EMBEDDERS = ["bert-mean-tiny", "bert-cls-tiny", "bert-legacy-tiny", "roberta-tiny", "xlm-roberta-tiny", "mpnet-tiny",
             "distilbert-tiny", "electra-tiny", "modernbert-tiny", "nomic-tiny", "gte-base-tiny", "llama-bidirec-tiny",
             "qwen3-bidirectional-tiny", "embeddinggemma-tiny", "jina-v2-tiny"]
# Run on a CPU only, so far.
CPU_EMBEDDERS = ["nomic-moe-tiny"]
STATIC = ["model2vec-tiny", "static-embedding-tiny"]
RERANKERS = ["bert-reranker-tiny", "xlm-roberta-reranker-tiny", "mpnet-reranker-tiny", "electra-reranker-tiny",
             "modernbert-reranker-tiny", "gte-reranker-tiny"]


@pytest.mark.parametrize("model", EMBEDDERS + CPU_EMBEDDERS + STATIC)
def test_embeddings(served, model):
    server, values = served(model), expected(model)
    cases = [case for case in values["cases"] if "prompt_name" not in case]
    texts, pooling = [case["text"] for case in cases], values["default"]["pooling"]
    key = values["default"]["key"]
    raw, unit = (server.ask("/embed", inputs=texts, normalize=flag) for flag in (False, True))
    for i, case in enumerate(cases):
        assert_raw(raw[i], case[key], case["name"])
        assert_unit(unit[i], case[f"{key}_normalized"], case["name"])
        assert server.ask("/embed", inputs=texts[i], normalize=False) == [raw[i]], f"{case['name']} alone"
    tokens = server.ask("/tokenize", inputs=texts)
    assert [[token["id"] for token in row] for row in tokens] == [case["input_ids"] for case in cases]
    info = server.get("/info").json()
    assert info["model_type"] == {"embedding": {"pooling": pooling}}
    assert info["attention"] == ("none" if model in STATIC else "full")


def test_a_prompt_by_name(served):
    server, text = served("bert-cls-tiny"), "how do bees show where food is"
    prompt = "Represent this sentence for searching relevant passages: "
    assert server.ask("/embed", inputs=text, prompt_name="query") == server.ask("/embed", inputs=prompt + text)
    assert server.ask("/embed", inputs=text, prompt_name="query") != server.ask("/embed", inputs=text)


@pytest.mark.parametrize("model", RERANKERS)
def test_cross_encoders(served, model):
    server = served(model)
    queries = {}
    for case in expected(model)["pair_cases"]:
        queries.setdefault(case["text"], []).append(case)
    for query, cases in queries.items():
        ask = {"query": query, "texts": [case["text_pair"] for case in cases]}
        for flag, key in ((False, "sigmoid"), (True, "logits")):
            items = server.ask("/rerank", **ask, raw_scores=flag)
            for item in items:
                case = cases[item["index"]]
                assert_score(item["score"], case[key][0], f"{case['name']} {key}")
        answer = server.ask("/v1/score", queries=query, documents=ask["texts"])
        own = "logits" if model == "bert-reranker-tiny" else "sigmoid"
        for item in answer["data"]:
            assert_score(item["score"], cases[item["index"]][own][0], f"{cases[item['index']]['name']} own")
    info = server.get("/info").json()
    assert "reranker" in info["model_type"] and info["rerank_scores"] == "probability"
    assert info["pair_activation"] == ("identity" if model == "bert-reranker-tiny" else "sigmoid")


@pytest.mark.parametrize("model, activation", [("bert-nli-tiny", "softmax"), ("distilbert-nli-tiny", "sigmoid")])
def test_classifiers(served, model, activation):
    server, values = served(model), expected(model)
    labels = values["id2label"]
    for case in values["cases"] + values["pair_cases"]:
        inputs = [[case["text"], case["text_pair"]]] if "text_pair" in case else [[case["text"]]]
        for raw, key in ((False, activation), (True, "logits")):
            (found,) = server.ask("/predict", inputs=inputs, raw_scores=raw)
            scores = {item["label"]: item["score"] for item in found}
            assert_close([scores[labels[str(i)]] for i in range(len(labels))], case[key], 1e-4, f"{case['name']} {key}")
    assert server.get("/info").json()["activation"] == activation


def test_only_equal_inputs_are_computed_once(served):
    """A common prefix saves nothing; inputs that differ in token types alone are not equal."""
    server = served("bert-reranker-tiny")

    def computed(pairs):
        answer = server.post("/predict", {"inputs": pairs})
        assert answer.status == 200, answer
        return int(answer.headers["x-compute-tokens"]), int(answer.headers["x-compute-compact-tokens"])

    long = "honey bees tell each other where to find flowers by dancing"
    assert len(set(computed([[long, "a"], [long, "b"]]))) == 1
    total, rows = computed([[long, "a"]] * 4)
    assert rows * 4 == total
    # The same ids, of which the second half has another type.
    one, two = server.ask("/predict", inputs=[["a [SEP] b"], ["a", "b"]])
    assert not math.isclose(one[0]["score"], two[0]["score"], abs_tol=1e-6)
    total, rows = computed([["a [SEP] b"], ["a", "b"]])
    assert total == rows


def test_inputs_beyond_the_table_of_positions():
    """RoBERTa's table has two rows more than tokens."""
    words = ["word"] * 2000
    with Server("--model-id", FIXTURES / "roberta-tiny") as server:
        assert server.get("/info").json()["max_input_length"] == 368
        answer = server.post("/embed", {"inputs": " ".join(words)})
        assert (answer.status, answer.headers["x-truncated-inputs"]) == (200, "1")
        refused = server.post("/embed", {"inputs": " ".join(words), "truncate": False})
        assert refused.status == 413 and "368" in refused.json()["error"], refused


@pytest.mark.skipif("PREFOLD_MINILM" not in os.environ, reason="PREFOLD_MINILM is not set (scripts/fetch-minilm.sh)")
def test_minilm(servers):
    """Texts of up to 256 tokens; sentence_bert_config.json truncates longer ones."""
    server, values = servers("--model-id", os.environ["PREFOLD_MINILM"], "--allow-empty-inputs"), expected("all-minilm-l6-v2")
    cases = [case for case in values["cases"] if case["n_tokens"] <= 256]
    for row, case in zip(server.ask("/embed", inputs=[case["text"] for case in cases]), cases, strict=True):
        assert_unit(row, case["mean_normalized"], case["name"])
    assert server.get("/info").json()["max_input_length"] == 256
