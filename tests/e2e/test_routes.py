"""The happy path of every route, with the built-in model unless stated otherwise."""

import re
import struct

import pytest

from reference import assert_close, dot, norm, normalized

QUERY = "How do I restart a service after a crash?"
DOCUMENTS = [
    "A dog runs across a field.",
    "To start it again when it fails, enable automatic restarts.",
    "Set Restart=on-failure in the unit file.",
]


def cosines(server):
    query, *documents = server.ask("/embed", inputs=[QUERY, *DOCUMENTS])
    return [dot(query, document) for document in documents]


def test_embed_takes_a_text_or_a_list(builtin):
    one = builtin.ask("/embed", inputs=QUERY)
    many = builtin.ask("/embed", inputs=[QUERY, *DOCUMENTS])
    assert (len(one), len(many)) == (1, 4)
    assert_close(one[0], many[0], 1e-6)


def test_embed_dimensions_and_normalize(builtin):
    raw = builtin.ask("/embed", inputs=QUERY, normalize=False)[0]
    assert norm(raw) > 2
    assert_close(builtin.ask("/embed", inputs=QUERY)[0], normalized(raw), 1e-6)
    assert_close(builtin.ask("/embed", inputs=QUERY, normalize=False, dimensions=100)[0], raw[:100], 1e-5)
    assert_close(builtin.ask("/embed", inputs=QUERY, dimensions=100)[0], normalized(raw[:100]), 1e-6)


def test_truncation_cuts_the_end_that_is_asked_for(served):
    """Truncation removes tokens of the text and keeps special tokens."""
    server = served("qwen3-tiny", "--radix-mlp-threshold", "1")
    limit = server.get("/info").json()["max_input_length"]
    long = " ".join(f"word {i}" for i in range(limit))
    (tokens,) = server.ask("/tokenize", inputs=long)
    *ids, end = [token["id"] for token in tokens]
    assert len(ids) > limit
    for direction, kept in [("right", ids[:limit - 1]), ("Right", ids[:limit - 1]), ("left", ids[1 - limit:])]:
        response = server.post("/embed", {"inputs": long, "truncate": True, "truncation_direction": direction})
        assert response.status == 200 and int(response.headers["x-compute-tokens"]) == limit
        assert_close(response.json()[0], server.ask("/embed", inputs=[[*kept, end]])[0], 1e-6, direction)
    assert server.post("/embed", {"inputs": long}).status == 200, "--auto-truncate is the default"
    refused = server.post("/embed", {"inputs": long, "truncate": False})
    assert refused.status == 413 and str(limit) in refused.json()["error"]
    refused = server.post("/embed", {"inputs": [ids], "truncate": False})
    assert refused.status == 413 and str(limit) in refused.json()["error"]


def test_embed_all_has_a_vector_for_each_token(builtin):
    texts = [QUERY, *DOCUMENTS]
    tokens = builtin.ask("/tokenize", inputs=texts)
    rows = builtin.ask("/embed_all", inputs=texts)
    assert [len(row) for row in rows] == [len(row) for row in tokens]
    for row, pooled in zip(rows, builtin.ask("/embed", inputs=texts), strict=True):
        assert_close(normalized(row[-1]), pooled, 1e-6)


def test_binary_answers_are_the_same_vectors(builtin):
    want = [x for row in builtin.ask("/embed", inputs=[QUERY, *DOCUMENTS]) for x in row]
    for path, field in (("/embed", "inputs"), ("/v1/embeddings", "input")):
        for accept, dtype, code, tolerance in (("application/octet-stream", "float32", "f", 0),
                                               ("application/octet-stream;dtype=float16", "float16", "e", 1e-3)):
            response = builtin.post(path, {field: [QUERY, *DOCUMENTS]}, {"accept": accept})
            assert response.status == 200 and response.headers["content-type"] == "application/octet-stream"
            assert response.headers["x-embedding-shape"] == "4,384" and response.headers["x-embedding-dtype"] == dtype
            got = struct.unpack(f"<{4 * 384}{code}", response.body)
            # JSON has the shortest decimals that parse to the same float32.
            assert_close(got, [struct.unpack("<f", struct.pack("<f", x))[0] for x in want], tolerance, path)


def test_a_large_request_is_split_and_loses_nothing(servers):
    server = servers("--max-client-batch-size", "5")
    texts = [f"{DOCUMENTS[i % 3]} {i}" for i in range(23)]
    vectors = server.ask("/embed", inputs=texts)
    assert len(vectors) == 23
    for i in (0, 4, 5, 22):
        assert vectors[i] == server.ask("/embed", inputs=texts[i])[0]
    results = server.ask("/v1/rerank", query=QUERY, documents=texts)["results"]
    assert sorted(item["index"] for item in results) == list(range(23))


def test_scores_and_classes_as_vllm_gives_them(builtin, served):
    want = cosines(builtin)
    answer = builtin.ask("/v1/score", model="m", text_1=QUERY, text_2=DOCUMENTS)
    assert [item["score"] for item in answer["data"]] == pytest.approx(want, abs=1e-6)
    classifier = served("qwen3-seqcls-tiny", "--radix-mlp-threshold", "1")
    (item,) = classifier.ask("/v1/classify", input=QUERY)["data"]
    best = classifier.ask("/predict", inputs=QUERY)[0]
    assert (item["label"], max(item["probs"]), item["num_classes"]) == (best["label"], best["score"], 3)


def test_names_and_aliases(servers):
    server = servers("--served-model-name", "mini,small/one")
    assert [model["id"] for model in server.get("/v1/models").json()["data"]] == ["mini", "small/one", "prefold-mini"]
    assert server.get("/v1/models/small/one").status == 200
    assert server.ask("/v1/embeddings", input="a")["model"] == "mini"


def test_ready(builtin):
    response = builtin.get("/ready")
    assert response.status == 200 and response.json() == {"status": "ready", "model": "prefold-mini"}


def test_metrics_on_a_port_of_their_own(servers):
    server = servers("--prometheus-port", "0", "--log-level", "info")
    assert server.get("/metrics").status == 404
    assert b"te_queue_size" in server.metrics().get("/metrics").body


def test_docs(builtin):
    page = builtin.get("/docs/")
    assert page.status == 200 and b"swagger-ui" in page.body
    for asset in re.findall(rb'(?:src|href)="\./([^"]+)"', page.body):
        assert builtin.get(f"/docs/{asset.decode()}").status == 200, asset


def test_rerank_on_an_embedding_model_is_the_cosine(builtin):
    want = cosines(builtin)
    items = builtin.ask("/rerank", query=QUERY, texts=DOCUMENTS, return_text=True)
    assert [item["score"] for item in items] == sorted((item["score"] for item in items), reverse=True)
    assert {item["index"] for item in items} == {0, 1, 2}
    for item in items:
        assert item["score"] == pytest.approx(want[item["index"]], abs=1e-6)
        assert item["text"] == DOCUMENTS[item["index"]]
    assert all("text" not in item for item in builtin.ask("/rerank", query=QUERY, texts=DOCUMENTS))
    assert "cosine" in str(builtin.get("/info").json()).lower()


def test_v1_rerank_in_the_shape_of_cohere_and_jina(builtin):
    want = cosines(builtin)
    documents = [DOCUMENTS[0], {"text": DOCUMENTS[1]}, DOCUMENTS[2]]
    answer = builtin.ask("/v1/rerank", model="m", query=QUERY, documents=documents, top_n=2, return_documents=True)
    results = answer["results"]
    assert [item["index"] for item in results] == sorted(range(3), key=lambda i: -want[i])[:2]
    for item in results:
        assert item["relevance_score"] == pytest.approx(want[item["index"]], abs=1e-6)
        assert item["document"] == {"text": DOCUMENTS[item["index"]]}
    assert answer["usage"]["total_tokens"] > 0
    everything = builtin.ask("/v1/rerank", query=QUERY, documents=documents)["results"]
    assert len(everything) == 3


def test_tokenize_and_decode_are_inverse(builtin):
    texts = ["naïve café — 東京 🙂", QUERY]
    rows = builtin.ask("/tokenize", inputs=texts)
    for text, row in zip(texts, rows, strict=True):
        end = row[-1]
        assert (end["text"], end["special"], end["start"], end["stop"]) == ("<|endoftext|>", True, None, None)
        assert [text[token["start"]:token["stop"]] for token in row[:-1] if token["text"].isascii()] == [
            token["text"] for token in row[:-1] if token["text"].isascii()]
    ids = [[token["id"] for token in row] for row in rows]
    assert builtin.ask("/decode", ids=ids) == texts
    assert builtin.ask("/decode", ids=ids[0]) == texts[:1]
    assert builtin.ask("/decode", ids=ids[0], skip_special_tokens=False) == [texts[0] + "<|endoftext|>"]
    bare = builtin.ask("/tokenize", inputs=QUERY, add_special_tokens=False)
    assert [token["id"] for token in bare[0]] == ids[1][:-1]


def test_info_says_what_is_served(builtin, served):
    info = builtin.get("/info").json()
    assert info["model_id"] == "prefold-mini"
    assert info["model_type"] == {"embedding": {"pooling": "last_token"}}
    assert info["radix_mlp_threshold"] == pytest.approx(0.95)
    assert info["max_input_length"] == 2048
    for limit in ("max_concurrent_requests", "max_batch_tokens", "max_client_batch_size", "tokenization_workers"):
        assert info[limit] >= 1, limit
    assert info["version"] and info["auto_truncate"] is True
    classifier = served("qwen3-seqcls-tiny", "--radix-mlp-threshold", "1").get("/info").json()["model_type"]
    assert list(classifier) == ["classifier"]
    assert classifier["classifier"]["id2label"] == {"0": "negative", "1": "neutral", "2": "positive"}
    reranker = served("qwen3-reranker-tiny", "--radix-mlp-threshold", "1").get("/info").json()["model_type"]
    assert list(reranker) == ["reranker"]


def test_health(builtin):
    assert builtin.get("/health").status == 200


def test_headers_tell_the_cost(builtin):
    response = builtin.post("/embed", {"inputs": [QUERY, QUERY]})
    tokens = len(builtin.ask("/tokenize", inputs=QUERY)[0])
    assert int(response.headers["x-compute-tokens"]) == 2 * tokens
    assert int(response.headers["x-compute-characters"]) == 2 * len(QUERY)
    assert float(response.headers["x-compaction-ratio"]) == pytest.approx(0.5)
    for name in ("x-total-time", "x-tokenization-time", "x-queue-time", "x-inference-time"):
        assert float(response.headers[name]) >= 0, name


def test_metrics_count_what_was_asked(servers):
    server = servers("--radix-mlp-threshold", "1")
    before = {name: server.metric(name) for name in ("te_request_count", "te_request_success", "te_request_failure")}
    assert server.post("/embed", {"inputs": QUERY}).status == 200
    assert server.post("/embed", {"inputs": []}).status >= 400
    assert server.metric("te_request_count") == before["te_request_count"] + 2
    assert server.metric("te_request_success") == before["te_request_success"] + 1
    assert server.metric("te_request_failure") == before["te_request_failure"] + 1
    text = server.get("/metrics").body.decode()
    for name in ("te_request_duration", "te_request_tokenization_duration", "te_request_queue_duration",
                 "te_request_inference_duration", "te_request_input_length", "te_batch_next_size",
                 "te_batch_next_tokens", "te_queue_size", "te_radix_mlp_compression_ratio"):
        assert f"# TYPE {name} " in text, name
    assert server.metric("te_queue_size") == 0
