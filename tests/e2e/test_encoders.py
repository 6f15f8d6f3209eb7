"""Encoders over HTTP: Hugging Face's values, the routes of each head, and equal inputs computed once."""

import math
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import FIXTURES, Server
from reference import WIDE_HEADED_ENCODERS, assert_close, assert_raw, assert_score, assert_unit, expected, in_float32

EMBEDDERS = ["bert-mean-tiny", "bert-cls-tiny", "bert-legacy-tiny", "roberta-tiny", "xlm-roberta-tiny", "mpnet-tiny",
             "distilbert-tiny", "electra-tiny", "modernbert-tiny", "nomic-tiny", "gte-base-tiny", "llama-bidirec-tiny",
             "qwen3-bidirectional-tiny", "embeddinggemma-tiny", "jina-v2-tiny", "nomic-moe-tiny", "jina-v3-tiny", "jina-v2-code-tiny",
             "deberta-v2-tiny", "eurobert-tiny", "xlm-roberta-xl-tiny", "ministral3-tiny", "pplx-tiny", "bidirlm-tiny",
             "jina-v5-nano-tiny", "t5-tiny", "t5-gated-tiny", "umt5-tiny", "lfm2-bidirectional-tiny"]
STATIC = ["model2vec-tiny", "static-embedding-tiny"]
ROUTED = ["router-encoders-tiny", "router-static-tiny", "asym-tiny"]
RERANKERS = ["bert-reranker-tiny", "xlm-roberta-reranker-tiny", "mpnet-reranker-tiny", "electra-reranker-tiny",
             "modernbert-reranker-tiny", "modernbert-bias-tiny", "gte-reranker-tiny", "deberta-v2-reranker-tiny", "eurobert-late-tiny", "eurobert-bos-tiny",
             "xlm-roberta-xl-reranker-tiny"]
# Ways to group tokens into entities.
STRATEGIES = ["none", "simple", "first", "average", "max"]
TOKEN_CLASSIFIERS = ["bert-ner-tiny", "xlm-roberta-ner-tiny", "modernbert-ner-tiny", "eurobert-ner-tiny", "xlm-roberta-xl-ner-tiny"]


@pytest.mark.parametrize("model", EMBEDDERS + WIDE_HEADED_ENCODERS + STATIC)
def test_embeddings(served, model):
    server, values = served(model, *in_float32(model)), expected(model)
    cases = [case for case in values["cases"] if "prompt_name" not in case and "task" not in case]
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
    assert info["model_type"] == {"embedding": {"pooling": {"last": "last_token"}.get(pooling, pooling)}}
    assert info["attention"] == ("none" if model in STATIC else "full")


def test_a_task_selects_an_adapter_and_its_instruction(served):
    server, values = served("jina-v3-tiny"), expected("jina-v3-tiny")
    cases = [case for case in values["cases"] if "task" in case]
    assert server.get("/info").json()["tasks"] == list(dict.fromkeys(case["task"] for case in cases))
    for case in cases:
        unit = server.ask("/embed", inputs=case["text"], task=case["task"])[0]
        assert_unit(unit, case["mean_normalized"], case["name"])
        openai = server.ask("/v1/embeddings", input=case["text"], task=case["task"])
        assert openai["data"][0]["embedding"] == unit and openai["usage"]["prompt_tokens"] == case["n_tokens"]
        assert server.ask("/embed", inputs=case["input_ids"], task=case["task"]) == [unit], "token ids as they are"
    by_type = server.ask("/embed", inputs=cases[0]["text"], input_type="query")
    assert by_type == server.ask("/embed", inputs=cases[0]["text"], task="retrieval.query")


@pytest.mark.parametrize("model", ["jina-v5-small-tiny", "jina-v5-nano-tiny"])
def test_a_task_selects_an_adapter_in_a_folder_of_its_own(served, model):
    server, cases = served(model), expected(model)["task_cases"]
    tasks = {case["task"]: {"task": case["task"]} for case in cases if "task" in case}
    info = server.get("/info").json()
    assert set(info["tasks"]) == set(tasks) and any("have the adapter `retrieval`" in warning for warning in info["warnings"])
    for case in cases:
        unit = server.ask("/embed", inputs=case["text"], **tasks.get(case.get("task"), {}))[0]
        assert_unit(unit, case["last_normalized"], case["name"])
    by_type = server.ask("/embed", inputs=cases[0]["text"], input_type="query")
    assert cases[0]["task"] == "retrieval.query" and by_type == server.ask("/embed", inputs=cases[0]["text"], task="retrieval.query")


@pytest.mark.parametrize("model", ROUTED)
def test_a_task_selects_the_modules_of_its_route(served, model):
    """Texts of all tasks at once have sentence-transformers' vectors."""
    server, cases = served(model), expected(model)["cases"]
    info = server.get("/info").json()
    assert info["tasks"] == expected(model)["tasks"]

    def vector(case):
        task = {"task": case["task"]} if case["task"] else {}
        answer = server.ask("/v1/embeddings", input=case["text"], truncate=True, **task)
        assert answer["usage"]["prompt_tokens"] == case["n_tokens"], case["name"]
        return answer["data"][0]["embedding"]

    alone = [vector(case) for case in cases]
    for case, found in zip(cases, alone, strict=True):
        assert_unit(found, case["normalized"], case["name"])
    with ThreadPoolExecutor(len(cases)) as pool:
        assert list(pool.map(vector, cases * 4)) == alone * 4
    document = info["tasks"][1]
    for input_type, task in (("search_query", "query"), ("search_document", document)):
        by_type = server.ask("/embed", inputs="river", input_type=input_type)
        assert by_type == server.ask("/embed", inputs="river", task=task)
    # Without a task, both are on the default route.
    texts = [cases[0]["text"], cases[3]["text"]]
    plain = server.ask("/embed", inputs=texts, truncate=True)
    score = server.ask("/rerank", query=texts[0], texts=texts[1:], truncate=True)[0]["score"]
    assert_close([score], [sum(a * b for a, b in zip(*plain))], 1e-5, "rerank")
    refused = server.post("/embed", {"inputs": "river", "task": "other"})
    assert refused.status == 422 and f"it has: query, {document}" in refused.json()["error"]


def test_a_route_has_its_own_limit_and_vocabulary(served):
    server = served("router-encoders-tiny")
    info = server.get("/info").json()
    assert (info["max_input_length"], info["max_input_lengths"]) == (48, {"document": 48, "query": 24})
    assert info["architecture"] == "xlm-roberta, bert"
    ids = [5] * 30
    assert server.post("/embed", {"inputs": [ids], "truncate": False, "task": "document"}).status == 200
    refused = server.post("/embed", {"inputs": [ids], "truncate": False, "task": "query"})
    assert refused.status == 413 and "length is 24" in refused.json()["error"]
    # The vocabulary of the documents' encoder has a few more tokens.
    beyond = server.post("/embed", {"inputs": [[100000]], "task": "query"})
    assert beyond.status == 422 and "ids must be below 159" in beyond.json()["error"]
    assert len(server.ask("/embed_all", inputs="river", task="query")[0][0]) == 16
    assert len(server.ask("/embed_all", inputs="river")[0][0]) == 24


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


@pytest.mark.parametrize("model", TOKEN_CLASSIFIERS)
def test_token_classifiers(served, model):
    """A text has the same result in a batch and alone."""
    server, values = served(model), expected(model)
    cases = [case for case in values["cases"] if case["text"]]
    assert_labels_of_tokens(server, values, cases)
    for strategy in STRATEGIES:
        found = server.ask("/predict_tokens", inputs=[case["text"] for case in cases], aggregation_strategy=strategy)
        assert server.ask("/predict_tokens", inputs=cases[2]["text"], aggregation_strategy=strategy) == found[2]
    info = server.get("/info").json()
    assert info["answers"] == ["classify-tokens"] and info["model_type"]["classifier"]["id2label"] == values["id2label"]


def assert_labels_of_tokens(server, values, cases):
    """Labels, scores and character offsets of transformers' pipeline, with each aggregation strategy."""
    texts = [case["text"] for case in cases]
    for strategy in STRATEGIES:
        found = server.ask("/predict_tokens", inputs=texts, aggregation_strategy=strategy)
        for case, row in zip(cases, found, strict=True):
            wanted = case["entities"][strategy]
            keys = ("start", "end", "label") + (("token",) if strategy == "none" else ())
            shown = [{**item, "label": next(iter(item["results"]))} for item in row]
            assert [[item[key] for key in keys] for item in shown] == [[item[key] for key in keys] for item in wanted], \
                f"{case['name']} {strategy}"
            for item, entity in zip(row, wanted):
                assert_score(item["results"][entity["label"]], entity["score"], f"{case['name']} {strategy}")
                if strategy != "none":
                    assert (item["token"], item["token_id"]) == (case["text"][entity["start"]:entity["end"]], 0)
    # Texts in the format of Baseten's clients; a truncated text keeps the offsets of the remaining entities.
    assert server.ask("/predict_tokens", inputs=[[text] for text in texts]) == server.ask("/predict_tokens", inputs=texts)
    raw = server.ask("/predict_tokens", inputs=texts, raw_scores=True, ignore_labels=[])
    labels = [values["id2label"][str(i)] for i in range(values["num_labels"])]
    for case, row in zip(cases, raw, strict=True):
        # The token before a text has no place in it, nor the token behind it, which EuroBERT's tokenizer does not add.
        rows = case["logits"] if len(row) == len(case["logits"]) else case["logits"][1:][:len(row)]
        for item, logits in zip(row, rows, strict=True):
            assert_close([item["results"][label] for label in labels], logits, 2e-4, case["name"])


def test_a_truncated_text_keeps_the_places_of_what_is_left(served):
    assert_places_of_what_is_left(served("bert-ner-tiny"))


def assert_places_of_what_is_left(server):
    text = "\u00c9t\u00e9 " + "river valley " * 400
    for side in ("right", "left"):
        answer = server.post("/predict_tokens", {"inputs": text, "truncate": True, "truncation_direction": side, "ignore_labels": []})
        assert (answer.status, answer.headers["x-truncated-inputs"]) == (200, "1")
        found = answer.json()
        assert len(found) == 286
        for item in found:
            piece = text[item["start"]:item["end"]].lower().replace("\u00e9", "e")
            assert piece == item["token"].removeprefix("##"), item
        assert (found[0]["start"] == 0) == (side == "right") and (found[-1]["end"] == len(text.rstrip())) == (side == "left")


def test_other_models_have_no_labels_for_tokens(served):
    for model, route in (("bert-nli-tiny", "/predict"), ("bert-mean-tiny", "/v1/embeddings")):
        answer = served(model).post("/predict_tokens", {"inputs": ["a"]})
        assert answer.status == 422 and "token classification" in answer.json()["error"] and route in answer.json()["error"]
    server = served("bert-ner-tiny")
    assert server.post("/embed", {"inputs": "a"}).json()["error"].endswith("use /predict_tokens")
    for body, words in (({"inputs": [["a"], 3]}, "token id"), ({"inputs": "a", "aggregation_strategy": "best"}, "aggregation_strategy"),
                        ({"inputs": []}, "no items")):
        answer = server.post("/predict_tokens", body)
        assert 400 <= answer.status < 500 and words in answer.json()["error"], answer


def test_only_equal_inputs_are_computed_once(served):
    """A common prefix saves nothing; inputs that differ only in token types are not equal."""
    server = served("bert-reranker-tiny")

    def computed(pairs):
        answer = server.post("/predict", {"inputs": pairs})
        assert answer.status == 200, answer
        return int(answer.headers["x-compute-tokens"]), int(answer.headers["x-compute-compact-tokens"])

    long = "honey bees tell each other where to find flowers by dancing"
    assert len(set(computed([[long, "a"], [long, "b"]]))) == 1
    total, rows = computed([[long, "a"]] * 4)
    assert rows * 4 == total
    # The same ids; the second half has another token type.
    one, two = server.ask("/predict", inputs=[["a [SEP] b"], ["a", "b"]])
    assert not math.isclose(one[0]["score"], two[0]["score"], abs_tol=1e-6)
    total, rows = computed([["a [SEP] b"], ["a", "b"]])
    assert total == rows


def test_inputs_beyond_the_table_of_positions():
    """RoBERTa's position table has two more rows than the maximum number of tokens."""
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
