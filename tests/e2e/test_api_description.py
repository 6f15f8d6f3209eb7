"""Responses match /api-doc/openapi.json."""

import json
import re

import jsonschema
import pytest

from harness import ROOT

TEXT = "How do I restart a service after a crash?"
CLASSIFIER = ("qwen3-seqcls-tiny", "--radix-mlp-threshold", "1")


@pytest.fixture(scope="module")
def description(builtin):
    return builtin.get("/api-doc/openapi.json").json()


def check(description, path, method, status, answer):
    """Asserts that the response matches the description for its status."""
    response = description["paths"][path][method]["responses"][str(status)]
    schema = response["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": description["components"]}).validate(answer)


def test_it_is_the_one_that_is_checked_in(description):
    assert description == json.loads((ROOT / "docs" / "openapi.json").read_text())
    assert description["openapi"].startswith("3.1")


@pytest.mark.parametrize("path, request_body", [
    ("/embed", {"inputs": [TEXT, [1, 2]]}),
    ("/embed_all", {"inputs": TEXT}),
    ("/similarity", {"inputs": {"source_sentence": TEXT, "sentences": [TEXT, "a"]}}),
    ("/rerank", {"query": TEXT, "texts": [TEXT, "a"], "return_text": True}),
    ("/rerank", {"query": TEXT, "documents": [TEXT, "a"]}),
    ("/v1/rerank", {"query": TEXT, "documents": [TEXT, {"text": "a"}], "top_n": 1, "return_documents": True}),
    ("/v2/rerank", {"model": "m", "query": TEXT, "documents": [TEXT, "a"]}),
    ("/v1/score", {"queries": TEXT, "documents": [TEXT, "a"]}),
    ("/score", {"text_1": [TEXT, "a"], "text_2": [TEXT, "a"]}),
    ("/v1/embeddings", {"input": TEXT, "encoding_format": "float", "dimensions": 8}),
    ("/embeddings", {"input": [TEXT, [5]], "encoding_format": "base64"}),
    ("/v1/embeddings", {"input": TEXT, "output_dtype": "int8"}),
    ("/v1/embeddings", {"input": TEXT, "embedding_type": "ubinary", "normalized": False}),
    ("/v1/embed", {"texts": [TEXT, "a"], "input_type": "search_document"}),
    ("/v1/embed", {"texts": [TEXT], "embedding_types": ["float", "binary"]}),
    ("/v2/embed", {"texts": [TEXT, "a"], "embedding_types": ["float", "int8", "uint8", "binary", "ubinary", "base64"]}),
    ("/v2/embed", {"inputs": [{"content": [{"type": "text", "text": TEXT}]}], "truncate": "END", "max_tokens": 4}),
    ("/v2/rerank", {"query": TEXT, "documents": [TEXT], "max_tokens_per_doc": 3, "relevant_spans": {"mode": "disabled"}}),
    ("/v1/tokenize", {"text": TEXT, "model": "m"}),
    ("/v1/detokenize", {"tokens": [1, 2, 3]}),
    ("/tokenize", {"inputs": TEXT}),
    ("/tokenize", {"prompt": TEXT, "return_token_strs": True}),
    ("/decode", {"ids": [1, 2, 3]}),
    ("/detokenize", {"tokens": [1, 2, 3]}),
    ("/pooling", {"input": TEXT}),
    ("/pooling", {"input": [TEXT, [5]], "task": "token_embed"}),
    ("/pooling", {"input": TEXT, "encoding_format": "base64", "embed_dtype": "fp8_e4m3", "endianness": "big"}),
    ("/invocations", {"input": TEXT}),
    ("/reranking", {"query": TEXT, "documents": [TEXT, "a"]}),
    ("/v1/reranking", {"query": TEXT, "documents": [TEXT, "a"]}),
    ("/api/embed", {"model": "m", "input": [TEXT], "keep_alive": "5m", "options": {"num_ctx": 512}, "truncate": True}),
    ("/api/embed", {"input": ""}),
    ("/api/embeddings", {"model": "m", "prompt": TEXT, "keep_alive": -1}),
    ("/api/show", {"model": "prefold-mini"}),
])
def test_answers_of_an_embedding_model(builtin, description, path, request_body):
    check(description, path, "post", 200, builtin.ask(path, **request_body))
    if "text_1" not in request_body and path != "/invocations":
        schema = description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator({**schema, "components": description["components"]}).validate(request_body)


@pytest.mark.parametrize("path, request_body", [
    ("/predict", {"inputs": TEXT}),
    ("/predict", {"inputs": [[TEXT], [TEXT, "a"]]}),
    ("/v1/classify", {"input": [TEXT, "a"]}),
    ("/classify", {"input": TEXT, "use_activation": False}),
    ("/classify", {"input": [TEXT], "raw_scores": False}),
    ("/pooling", {"input": [TEXT, "a"]}),
    ("/invocations", {"input": TEXT}),
])
def test_answers_of_a_classifier(served, description, path, request_body):
    check(description, path, "post", 200, served(*CLASSIFIER).ask(path, **request_body))


@pytest.mark.parametrize("request_body", [
    {"inputs": TEXT}, {"inputs": [TEXT, "a"], "aggregation_strategy": "first"}, {"inputs": [[TEXT], ["a"]], "raw_scores": True},
])
def test_answers_of_a_classifier_of_tokens(served, description, request_body):
    server = served("bert-ner-tiny")
    answer = server.ask("/predict_tokens", **request_body)
    check(description, "/predict_tokens", "post", 200, answer)
    assert server.ask("/", **request_body) == answer
    check(description, "/info", "get", 200, server.get("/info").json())


@pytest.mark.parametrize("path", [
    "/info", "/ready", "/health", "/ping", "/version", "/api/version", "/v1/models", "/models", "/api/tags", "/api/ps",
])
def test_what_the_server_tells(builtin, served, description, path):
    for server in (builtin, served(*CLASSIFIER)):
        check(description, path, "get", 200, server.get(path).json())


@pytest.mark.parametrize("path, request_body, status", [
    ("/embed", {"inputs": []}, 400),
    ("/v1/embeddings", {"input": []}, 400),
    ("/v1/score", {"queries": [], "documents": ["a"]}, 400),
    ("/pooling", {"input": []}, 400),
    ("/detokenize", {"tokens": "a"}, 400),
    ("/api/embed", {"input": "a", "dimensions": 1000}, 400),
    ("/api/show", {"model": "another"}, 404),
    ("/predict", {"inputs": "a"}, 422),
    ("/predict_tokens", {"inputs": "a"}, 422),
    ("/rerank", {"query": "a", "texts": []}, 400),
    ("/rerank", {"query": "a", "documents": ["a"], "top_n": -1}, 400),
])
def test_errors(builtin, description, path, request_body, status):
    response = builtin.post(path, request_body)
    assert response.status == status
    check(description, path, "post", status, response.json())


def test_examples_are_answered_by_the_models_that_can(builtin, served):
    """What Swagger UI fills in for each route, posted to a model of each task."""
    one = ("--radix-mlp-threshold", "1")
    servers = [builtin, served("qwen3-reranker-tiny", *one), served(*CLASSIFIER), served("bert-ner-tiny")]
    answered, paths = set(), set()
    for server in servers:
        described = server.get("/api-doc/openapi.json").json()
        for path, item in described["paths"].items():
            if "requestBody" not in item.get("post", {}):
                continue
            paths.add(path)
            content = item["post"]["requestBody"]["content"]["application/json"]
            schema = {**content["schema"], "components": described["components"]}
            jsonschema.Draft202012Validator(schema).validate(content["example"])
            response = server.post(path, content["example"])
            if response.status == 200:
                answered.add(path)
                assert "x-ignored-fields" not in response.headers, path
            else:
                assert response.status in (400, 422) and re.search(rb"is not possible|/predict_tokens answers", response.body), (path, response)
                assert path not in ("/", "/tokenize", "/decode"), (path, response)
    assert answered == paths and len(paths) > 15


def test_a_description_refuses_what_the_server_refuses(description):
    """Empty lists and texts, and bodies of several tasks."""
    def is_valid(name, value):
        schema = {"$ref": f"#/components/schemas/{name}", "components": description["components"]}
        return jsonschema.Draft202012Validator(schema).is_valid(value)

    for body in ({"input": []}, {"input": ""}, {"input": [""]}, {"input": [[]]}, {"input": [-1]}):
        assert not is_valid("EmbeddingsBody", body), body
    assert is_valid("TaskBody", {"inputs": "a"}) and is_valid("TaskBody", {"query": "a", "texts": ["b"]})
    assert is_valid("RerankBody", {"query": "a", "documents": ["b"], "top_n": 0, "top_k": None})
    for body in ({"query": "a", "documents": []}, {"query": "a", "documents": ["b"], "top_n": -1}, {"query": "", "texts": ["a"]}):
        assert not is_valid("RerankBody", body), body
    assert is_valid("PredictBody", {"inputs": ["a", "b"]}) and not is_valid("PredictBody", {"inputs": [["a", "b", "c"]]})
    properties = description["components"]["schemas"]["EmbeddingsBody"]["properties"]
    assert {"user", "output_dimension", "truncation", "use_activation", "normalize"} <= set(properties)


def test_headers(builtin, description):
    response = builtin.request("POST", "/embed", json.dumps({"inputs": TEXT}), {"accept": "application/octet-stream"})
    described = description["paths"]["/embed"]["post"]["responses"]["200"]["headers"]
    assert {name for name in described if name not in response.headers} == set()


def test_an_unknown_model(builtin, description):
    response = builtin.get("/v1/models/nobody/nothing")
    assert response.status == 404
    check(description, "/v1/models/{model}", "get", 404, response.json())
