"""The server's results equal Hugging Face's, regardless of the batch."""

import json
import os

import pytest

import reference
from harness import FIXTURES
from reference import BUILTIN, WIDE_HEADED_DECODERS, assert_logits, assert_raw, assert_score, assert_unit, expected, in_float32

# Models that a GPU refuses, because it has no kernel for them, and what the refusal names.
CPU_ONLY = {"gemma2-tiny": "`attn_logit_softcapping`", "lfm2-tiny": "short convolutions", "lfm2-bidirectional-tiny": "short convolutions"}
EMBEDDING_MODELS = ["qwen3-tiny", "llama-tiny", "qwen2-tiny", "mistral-tiny", "gemma3-causal-tiny", "gemma2-tiny", "lfm2-tiny",
                    "jina-v5-small-tiny"]
THRESHOLDS = ["0", "1"]
POOLING_FLAG = {"last": "last-token", "mean": "mean", "cls": "cls"}


def check_embeddings(server, model, pooling):
    """All cases in two requests (texts, ids), then each case alone, raw and normalised."""
    cases = expected(model)["cases"]
    for kind, chosen in [("text", [c for c in cases if "text" in c]), ("input_ids", [c for c in cases if "text" not in c])]:
        if not chosen:
            continue
        inputs = [case[kind] for case in chosen]
        together = {flag: server.ask("/embed", inputs=inputs, normalize=flag) for flag in (False, True)}
        for i, case in enumerate(chosen):
            what = f"{model} {case['name']} {pooling}"
            assert_raw(together[False][i], case[pooling], what)
            assert_unit(together[True][i], case[f"{pooling}_normalized"], what)
            (alone,) = server.ask("/embed", inputs=[inputs[i]], normalize=False)
            assert_raw(alone, case[pooling], f"{what}, alone")


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("model", EMBEDDING_MODELS + WIDE_HEADED_DECODERS)
def test_embeddings_with_the_pooling_of_the_checkpoint(served, model, threshold):
    server = served(model, "--radix-mlp-threshold", threshold, *in_float32(model))
    check_embeddings(server, model, expected(model)["default"]["pooling"])


@pytest.mark.parametrize("model, pooling", [("qwen3-tiny", "mean"), ("qwen3-tiny", "cls"), ("llama-tiny", "last")])
def test_embeddings_with_another_pooling(served, model, pooling):
    server = served(model, "--pooling", POOLING_FLAG[pooling])
    check_embeddings(server, model, pooling)


@pytest.mark.parametrize("model", EMBEDDING_MODELS + WIDE_HEADED_DECODERS)
def test_tokens(served, model):
    server = served(model, "--radix-mlp-threshold", "1", *in_float32(model))
    cases = [case for case in expected(model)["cases"] if "text" in case]
    tokens = server.ask("/tokenize", inputs=[case["text"] for case in cases])
    assert [[token["id"] for token in row] for row in tokens] == [case["input_ids"] for case in cases]


def test_a_named_prompt_is_put_before_the_text(served):
    server = served("qwen3-tiny", "--radix-mlp-threshold", "1")
    prompt = json.loads((FIXTURES / "qwen3-tiny" / "config_sentence_transformers.json").read_text())["prompts"]["query"]
    cases = [case for case in expected("qwen3-tiny")["cases"] if case["name"].startswith("query_")]
    assert cases and all(case["text"].startswith(prompt) for case in cases)
    rows = server.ask("/embed", inputs=[case["text"].removeprefix(prompt) for case in cases], prompt_name="query")
    for row, case in zip(rows, cases, strict=True):
        assert_unit(row, case["last_normalized"], case["name"])


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_reranker_scores(served, threshold):
    server = served("qwen3-reranker-tiny", "--radix-mlp-threshold", threshold)
    requests = {}
    for case in expected("qwen3-reranker-tiny")["cases"]:
        requests.setdefault((case["instruction"], case["query"]), []).append(case)
    assert len({instruction for instruction, _ in requests}) == 2
    for (instruction, query), cases in requests.items():
        ask = {"instruction": instruction, "query": query, "texts": [case["document"] for case in cases]}
        items = server.ask("/rerank", **ask)
        raw = {item["index"]: item["score"] for item in server.ask("/rerank", **ask, raw_scores=True)}
        assert [item["score"] for item in items] == sorted((item["score"] for item in items), reverse=True)
        assert sorted(item["index"] for item in items) == list(range(len(cases)))
        for item in items:
            case = cases[item["index"]]
            assert_score(item["score"], case["score"], case["name"])
            assert abs(raw[item["index"]] - (case["logit_yes"] - case["logit_no"])) <= 1e-3, case["name"]


def test_the_rerankers_own_instruction_is_the_default(served):
    server = served("qwen3-reranker-tiny", "--radix-mlp-threshold", "1")
    data = expected("qwen3-reranker-tiny")
    case = next(c for c in data["cases"] if c["instruction"] == data["prompt"]["default_instruction"])
    (item,) = server.ask("/rerank", query=case["query"], texts=[case["document"]])
    assert_score(item["score"], case["score"], case["name"])


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("model, activation", [("llama-seqcls-tiny", "sigmoid"), ("qwen3-seqcls-tiny", "softmax")])
def test_classification(served, model, activation, threshold):
    server = served(model, "--radix-mlp-threshold", threshold)
    data = expected(model)
    labels = [data["id2label"][str(i)] for i in range(data["num_labels"])]
    texts = [case for case in data["cases"] if "text" in case]
    inputs = [[case["text"]] for case in texts] + [[case["text"], case["text_pair"]] for case in data["pair_cases"]]
    cases = texts + data["pair_cases"]
    scores = server.ask("/predict", inputs=inputs)
    raw = server.ask("/predict", inputs=inputs, raw_scores=True)
    for case, score_row, raw_row in zip(cases, scores, raw, strict=True):
        what = f"{model} {case['name']}"
        assert [item["score"] for item in score_row] == sorted((i["score"] for i in score_row), reverse=True)
        by_label = {item["label"]: item["score"] for item in score_row}
        for label, want in zip(labels, case[activation], strict=True):
            assert_score(by_label[label], want, what)
        by_label = {item["label"]: item["score"] for item in raw_row}
        assert_logits([by_label[label] for label in labels], case["logits"], what)


def test_one_text_and_one_pair_are_classified_without_a_batch(served):
    server = served("qwen3-seqcls-tiny", "--radix-mlp-threshold", "1")
    data = expected("qwen3-seqcls-tiny")
    text, pair = data["cases"][0], data["pair_cases"][0]
    for inputs, case in [(text["text"], text), ([pair["text"], pair["text_pair"]], pair)]:
        by_label = {item["label"]: item["score"] for item in server.ask("/predict", inputs=inputs)}
        assert_score(by_label["negative"], case["softmax"][0], case["name"])


def test_a_classifier_with_one_label_reranks(served):
    server = served("llama-seqcls-tiny", "--radix-mlp-threshold", "1")
    pairs = expected("llama-seqcls-tiny")["pair_cases"]
    items = server.ask("/rerank", query=pairs[0]["text"], texts=[pair["text_pair"] for pair in pairs])
    for item in items:
        assert_score(item["score"], pairs[item["index"]]["sigmoid"][0], pairs[item["index"]]["name"])


def test_the_built_in_model_has_its_own_values(exact_builtin):
    builtin = exact_builtin
    data = json.loads((BUILTIN / "expected.json").read_text())
    texts = [case["text"] for case in data["texts"]]
    tokens = builtin.ask("/tokenize", inputs=texts)
    assert [[token["id"] for token in row] for row in tokens] == [case["token_ids"] for case in data["texts"]]
    raw = builtin.ask("/embed", inputs=texts, normalize=False)
    for i, (row, case) in enumerate(zip(builtin.ask("/embed", inputs=texts), data["texts"], strict=True)):
        assert len(row) == data["dimension"]
        assert_unit(row[:32], case["embedding_first32"], case["text"])
        assert reference.norm(raw[i]) == pytest.approx(case["l2_raw"], rel=1e-4)
        assert reference.norm(row) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.skipif("PREFOLD_SMOLLM2_GGUF" not in os.environ, reason="PREFOLD_SMOLLM2_GGUF is not set")
@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_smollm2_from_gguf(servers, pooling):
    server = servers("--model-id", os.environ["PREFOLD_SMOLLM2_GGUF"], "--pooling", POOLING_FLAG[pooling])
    data = expected("smollm2-135m")
    rows = server.ask("/embed", inputs=[case["text"] for case in data["cases"]], normalize=False)
    for row, case in zip(rows, data["cases"], strict=True):
        want, what = case[pooling], f"smollm2 {case['name']} {pooling}"
        assert len(row) == data["hidden_size"]
        reference.assert_close(row[:32], want["first32"], 1e-4 * want["l2"], what)
        if "full" in want:
            reference.assert_close(row, want["full"], 1e-4 * want["l2"], what)
        assert reference.norm(row) == pytest.approx(want["l2"], rel=1e-4), what
        assert abs(sum(row) - want["sum"]) <= 1e-3 * want["l2"], what
    tokenizer_only = data["tokenizer_only"]
    tokens = server.ask("/tokenize", inputs=[t["text"] for t in tokenizer_only])
    assert [[token["id"] for token in row] for row in tokens] == [t["input_ids"] for t in tokenizer_only]
