"""Invalid requests get the right status and message, and affect no other request."""

import gzip
import json

import pytest

from raw import Vitals

TEXT = "How do I restart a service after a crash?"
KEY = "sesame-9d21f0"
JSON = {"content-type": "application/json"}


def problem(response):
    """Message of an error in either of the two formats."""
    body = response.json()
    if isinstance(body["error"], dict):
        assert body["error"]["type"], body
        return body["error"]["message"]
    assert isinstance(body["error_type"], str) and body["error_type"], body
    return body["error"]


def zstd_frame(content):
    """A frame of one uncompressed block (RFC 8878): a magic number, one byte each for the form and the content's size, the block."""
    block = (len(content) << 3 | 1).to_bytes(3, "little") + content
    return bytes.fromhex("28b52ffd") + bytes([0x20, len(content)]) + block


def zstd_zeros(blocks):
    """A frame with a window of 1 MiB and blocks that repeat a zero 131,072 times."""
    repeated = (2**17 << 3 | 2).to_bytes(3, "little") + b"\0"
    return bytes.fromhex("28b52ffd") + bytes([0, 80]) + repeated * blocks + (1).to_bytes(3, "little")


def refused(path, status):
    """The status of a refusal at `path`, given that TEI's routes answer `status`."""
    return 400 if path.startswith(("/v1/", "/v2/")) else status


@pytest.mark.parametrize("path, request_body, field", [
    ("/embed", {}, "inputs"),
    ("/embed", {"inputs": 7}, "inputs"),
    ("/embed", {"inputs": {"a": "b"}}, "inputs"),
    ("/embed", {"inputs": ["a", None]}, "inputs"),
    ("/embed", {"inputs": [[1, -2]]}, "inputs"),
    ("/embed", {"inputs": [[1, 14000]]}, "inputs"),
    ("/embed", {"inputs": [[1, 2.5]]}, "inputs"),
    ("/embed", {"inputs": TEXT, "normalize": "yes"}, "normalize"),
    ("/embed", {"inputs": TEXT, "dimensions": 0}, "dimensions"),
    ("/embed", {"inputs": TEXT, "dimensions": 385}, "dimensions"),
    ("/embed", {"inputs": TEXT, "dimensions": "64"}, "dimensions"),
    ("/embed", {"inputs": TEXT, "truncation_direction": "up"}, "truncation_direction"),
    ("/embed", {"inputs": TEXT, "prompt_name": "nonsense"}, "prompt_name"),
    ("/embed_all", {"inputs": False}, "inputs"),
    ("/v1/embeddings", {"model": "m"}, "input"),
    ("/v1/embeddings", {"input": {"a": 1}}, "input"),
    ("/v1/embeddings", {"input": TEXT, "encoding_format": "hex"}, "encoding_format"),
    ("/v1/embeddings", {"input": TEXT, "dimensions": 100_000}, "dimensions"),
    ("/rerank", {"texts": ["a"]}, "query"),
    ("/rerank", {"query": TEXT, "texts": "a"}, "texts"),
    ("/rerank", {"query": 1, "texts": ["a"]}, "query"),
    ("/v1/rerank", {"query": TEXT, "documents": [{"body": "a"}]}, "documents"),
    ("/v1/rerank", {"query": TEXT, "documents": ["a"], "top_n": -1}, "top_n"),
    ("/v1/embeddings", {"input": "a " * 5000, "truncate": False}, "tokens"),
    ("/v1/embeddings", {"input": TEXT, "output_dtype": "int4"}, "output_dtype"),
    ("/v1/embeddings", {"input": TEXT, "late_chunking": True}, "late_chunking"),
    ("/v2/embed", {"texts": ["a " * 5000], "truncate": "NONE"}, "tokens"),
    ("/v2/embed", {"texts": [TEXT], "embedding_types": ["int4"]}, "embedding_types"),
    ("/v2/rerank", {"query": TEXT, "documents": ["a"], "max_tokens_per_doc": -1}, "max_tokens_per_doc"),
    ("/v1/rerank", {"query": TEXT, "documents": [{"text": "a"}], "rank_fields": ["title"]}, "rank_fields"),
    ("/v1/score", {"queries": TEXT, "documents": "a " * 5000, "truncate": False}, "tokens"),
    ("/tokenize", {"inputs": [1.5]}, "inputs"),
    ("/decode", {"ids": "a"}, "ids"),
    ("/decode", {"ids": [4_294_967_295]}, "ids"),
])
def test_invalid_input_is_refused_and_names_the_field(builtin, path, request_body, field):
    response = builtin.post(path, request_body)
    assert response.status == refused(path, 422), response
    assert field in problem(response), response


@pytest.mark.parametrize("path, request_body, field", [
    ("/embed", {"inputs": []}, "inputs"),
    ("/embed", {"inputs": [[]]}, "inputs"),
    ("/v1/embeddings", {"input": []}, "input"),
    ("/rerank", {"query": TEXT, "texts": []}, "texts"),
    ("/v1/rerank", {"query": TEXT, "documents": []}, "documents"),
    ("/embed", {"inputs": ["a", ""]}, "item 1"),
    ("/v1/embeddings", {"input": ""}, "input"),
    ("/rerank", {"query": "", "texts": ["a"]}, "query"),
    ("/v1/rerank", {"query": TEXT, "documents": ["a", "", "b"]}, "item 1"),
])
def test_nothing_to_work_on(builtin, path, request_body, field):
    response = builtin.post(path, request_body)
    assert response.status == 400, response
    assert field in problem(response), response


# A field of each route with the beginning of a valid value.
ROUTES = {"/embed": b'{"inputs": "a', "/embed_all": b'{"inputs": "a', "/rerank": b'{"query": "a',
          "/v1/rerank": b'{"query": "a', "/predict": b'{"inputs": "a', "/tokenize": b'{"inputs": "a',
          "/decode": b'{"ids": [1', "/v1/embeddings": b'{"input": "a'}


@pytest.mark.parametrize("path", ROUTES)
def test_what_is_not_json_is_400(builtin, path):
    begun = ROUTES[path]
    for body in (b"", b"{", begun, begun + b"\xff", begun + b"}", b"\xff\xfe", b"inputs=a"):
        response = builtin.request("POST", path, body, JSON)
        assert response.status == 400, (body, response)
        assert "JSON" in problem(response), (body, response)


def test_deep_nesting_does_no_harm(builtin):
    for path, field in [("/embed", "inputs"), ("/v1/embeddings", "input"), ("/decode", "ids"), ("/rerank", "x")]:
        for depth in (200, 100_000):
            body = f'{{"{field}": {"[" * depth}{"]" * depth}}}'.encode()
            assert builtin.request("POST", path, body, JSON).status in (400, 422)
    assert builtin.get("/health").status == 200


@pytest.mark.parametrize("path", ROUTES)
def test_json_that_is_not_an_object_is_refused(builtin, path):
    for body in (b"[]", b'"text"', b"null", b"7", b'["a", null, null, null, null, null]'):
        response = builtin.request("POST", path, body, JSON)
        assert response.status == refused(path, 422), (body, response)
        assert problem(response)


def test_compressed_bodies(builtin):
    body = json.dumps({"inputs": ["a text", "another"]}).encode()
    zipped, framed = gzip.compress(body), zstd_frame(body)
    embed = lambda coding, sent: builtin.request("POST", "/embed", sent, {**JSON, "content-encoding": coding})  # noqa: E731
    plain = builtin.request("POST", "/embed", body, JSON)
    for coding, sent in [("gzip", zipped), ("X-GZIP", zipped), ("zstd", framed), ("identity", body)]:
        response = embed(coding, sent)
        assert (response.status, response.body) == (200, plain.body), coding
    for coding, sent in [("gzip", zipped[:-5]), ("gzip", body), ("zstd", framed[:-1]), ("zstd", zipped)]:
        response = embed(coding, sent)
        assert response.status == 400 and coding in problem(response), response
    response = embed("br", body)
    assert response.status == 415 and "br" in problem(response) and "gzip" in response.headers["accept-encoding"], response


def test_a_compressed_body_has_the_limit_of_what_it_contains(builtin):
    """A gigabyte in 33 kB (zstd) and in 1 MB (gzip)."""
    zeros = gzip.compress(bytes(2**20)) * 1000
    for coding, sent in [("zstd", zstd_zeros(8192)), ("gzip", zeros)]:
        vitals = Vitals(builtin.process.pid)
        vitals.reset_peak()
        before = vitals.peak()
        response = builtin.request("POST", "/embed", sent, {**JSON, "content-encoding": coding})
        assert response.status == 413 and "32000000" in problem(response), response
        assert vitals.peak() < before + 150 * 2**20, coding


def test_unknown_fields_are_ignored_and_named(builtin):
    answer = builtin.post("/embed", {"inputs": TEXT, "colour": "green", "nested": {"a": [1]}})
    assert (answer.status, answer.headers["x-ignored-fields"]) == (200, "colour, nested")
    answer = builtin.post("/v1/embeddings", {"input": TEXT, "model": "m", "priority": 3, "input_type": "query"})
    assert answer.status == 200 and "x-ignored-fields" not in answer.headers


def test_classification_on_an_embedding_model(builtin):
    response = builtin.post("/predict", {"inputs": TEXT})
    assert response.status == 422, response
    assert "embed" in problem(response)


@pytest.mark.parametrize("path, request_body", [
    ("/embed", {"inputs": TEXT}),
    ("/v1/embeddings", {"input": TEXT}),
    ("/rerank", {"query": TEXT, "texts": [TEXT]}),
])
def test_a_classifier_with_three_labels_neither_embeds_nor_reranks(served, path, request_body):
    response = served("qwen3-seqcls-tiny", "--radix-mlp-threshold", "1").post(path, request_body)
    assert response.status == refused(path, 422), response
    assert "classif" in problem(response)


def test_unknown_routes_and_methods(builtin):
    assert builtin.post("/no/such/route", {}).status == 404
    for path in ("/docs/no-such-file", "/" + "a" * 10_000):
        lost = builtin.get(path)
        assert lost.status == 404 and path[:200] in lost.json()["error"] and len(lost.body) < 500, lost
    assert builtin.get("/embed").status == 405


@pytest.fixture(scope="module")
def limited(servers):
    return servers("--max-client-batch-size", "4", "--payload-limit", "10000")


@pytest.mark.parametrize("path, field, rest", [
    ("/embed", "inputs", {}), ("/v1/embeddings", "input", {}), ("/embed_all", "inputs", {}),
    ("/rerank", "texts", {"query": TEXT}), ("/v1/rerank", "documents", {"query": TEXT}), ("/tokenize", "inputs", {}),
])
def test_more_inputs_than_64_parts_are_refused(limited, path, field, rest):
    """A request of up to 64 chunks is processed; --max-client-batch-size is 4."""
    assert limited.post(path, {field: ["a"] * 256, **rest}).status == 200
    response = limited.post(path, {field: ["a"] * 257, **rest})
    assert response.status == refused(path, 413), response
    message = problem(response)
    assert field in message and "257" in message and "256" in message


@pytest.mark.parametrize("path", ["/embed", "/v1/embeddings"])
def test_a_body_over_the_limit_is_413(limited, path):
    body = {"input": TEXT, "inputs": TEXT}
    response = limited.post(path, {**body, "ignored": "a" * 10_000})
    assert response.status == 413, response
    assert "10000" in problem(response)
    assert limited.post(path, {**body, "ignored": "a" * 9_000}).status == 200


def test_a_chunked_body_over_the_limit_is_413(limited):
    """The limit also applies without content-length."""
    response = limited.request("POST", "/embed", (b'{"inputs": "' if i == 0 else b"a" * 1000 for i in range(20)), JSON)
    assert response.status == 413, response


@pytest.fixture(scope="module")
def locked(servers):
    return servers("--api-key", KEY, "--json-output")


def test_the_key_is_needed(locked):
    request = {"inputs": TEXT, "input": TEXT}
    for headers in ({}, {"authorization": f"Bearer {KEY}x"}, {"authorization": KEY}, {"authorization": "Bearer "}):
        for response in (locked.post("/embed", request, headers), locked.post("/v1/embeddings", request, headers),
                         locked.get("/info", headers)):
            assert response.status == 401, (headers, response)
            assert "API key" in problem(response)
    headers = {"authorization": f"Bearer {KEY}"}
    assert locked.post("/embed", request, headers).status == 200
    assert locked.get("/info", headers).status == 200
    assert locked.get("/health").status == 200


def test_documents_and_metrics_are_open_unless_protected(locked, servers):
    paths = ["/docs/", "/docs/swagger-ui.css", "/api-doc/openapi.json", "/metrics"]
    assert [locked.get(path).status for path in paths] == [200] * 4
    closed = servers("--api-key", KEY, "--protect-docs", "--protect-metrics", "--prometheus-port", "0")
    for headers, status in [({}, 401), ({"authorization": f"Bearer {KEY}"}, 200)]:
        assert [closed.get(path, headers).status for path in paths[:3]] == [status] * 3
        assert closed.metrics().get("/metrics", headers).status == status
    assert closed.get("/ready").status == 200


def test_the_key_is_not_in_the_log_and_the_log_is_json(locked):
    locked.post("/embed", {"inputs": TEXT}, {"authorization": f"Bearer {KEY}"})
    locked.post("/embed", {"inputs": TEXT}, {"authorization": f"Basic {KEY}"})
    log = locked.log()
    assert KEY not in log
    requests = [line for line in map(json.loads, log.splitlines()) if line.get("path") == "/embed"]
    assert {request["status"] for request in requests} == {200, 401}


def test_each_request_is_logged_with_its_times_and_the_compaction_ratio(locked):
    headers = {"authorization": f"Bearer {KEY}"}
    assert locked.post("/embed", {"inputs": [TEXT, TEXT]}, headers).status == 200
    lines = [json.loads(line) for line in locked.whole_log().splitlines()]
    line = next(line for line in reversed(lines) if line.get("path") == "/embed")
    assert (line["method"], line["status"], line["compaction_ratio"]) == ("POST", 200, 0.5)
    assert (line["model"], line["key"]) == ("prefold-mini", "1")
    assert next(line for line in lines if line["message"] == "serving")["radix_mlp_threshold"] == 0.95
    for stage in ("tokenization_ms", "queue_ms", "planning_ms", "inference_ms", "total_ms"):
        assert line[stage] >= 0, line


def test_the_log_names_the_key_and_quotes_what_has_spaces(servers, tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"{KEY} # team of search\nsecond\n")
    server = servers("--api-key-file", path)
    for key in (KEY, "second"):
        assert server.post("/embed", {"inputs": ""}, {"authorization": f"Bearer {key}"}).status == 400
    first, second = [line for line in server.log().splitlines() if 'path="/embed"' in line]
    assert ' key="team of search" ' in first and ' key="2" ' in second
    assert ' status=400 ' in first and ' error="`inputs` is an empty text"' in first


def test_neighbours_of_a_bad_request_are_answered(builtin):
    """A list with one invalid input fails as a whole and leaves no trace."""
    before = builtin.ask("/embed", inputs=TEXT)
    assert builtin.post("/embed", {"inputs": [[1, 2, 3], [1, 2, 99_999_999]]}).status == 422
    assert builtin.ask("/embed", inputs=TEXT) == before
