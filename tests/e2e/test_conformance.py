"""Tables of the fields of other APIs (tests/conformance) against the description and live servers.

`UPDATE_DOCS=1` writes the tables of docs/api.md.
"""

import csv
import json
import os
import re

import pytest

from harness import ROOT

TABLES = ROOT / "tests" / "conformance"
APIS = ["OpenAI", "TEI", "Cohere", "Jina", "Voyage", "vLLM", "Infinity", "Ollama"]
COLUMNS = ["api", "route", "direction", "field", "type", "required", "treatment", "reason", "example", "source", "read"]
DIRECTIONS, TREATMENTS = ["query", "request", "response", "error", "route"], ["served", "ignored", "refused", "absent"]
DOCUMENT = ROOT / "docs" / "api.md"
PLACE = re.compile(r"(<!-- fields of (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)

T, NAME = "Use flock.", "prefold-mini"
RERANKER, CLASSIFIER = ("qwen3-reranker-tiny", "--radix-mlp-threshold", "1"), ("qwen3-seqcls-tiny", "--radix-mlp-threshold", "1")
MODELS = {RERANKER: re.compile("rerank|score"), CLASSIFIER: re.compile("predict|classify")}
INPUT, TEXTS, DOCUMENTS = {"input": [T]}, {"query": "q", "texts": [T]}, {"query": "q", "documents": [T]}
PAIRS = [{"queries": "q", "documents": [T]}, {"queries": "q", "items": [T]}, {"text_1": "q", "text_2": [T]}, {"data_1": "q", "data_2": [T]}]
COHERE = [{"texts": [T]}, {"inputs": []}]
# Element types are ignored in JSON numbers.
BINARY = {**INPUT, "encoding_format": "base64", "embed_dtype": "float32"}
# Requests that are complete, for routes and where routes serve two APIs, for an API's route. A field takes the first that has it.
REQUESTS = {
    "/v1/embeddings": [INPUT, BINARY], "/embeddings": [INPUT], "/embed": [{"inputs": [T]}], "/embed_all": [{"inputs": [T]}],
    "/similarity": [{"inputs": {"source_sentence": T, "sentences": [T]}}], "/v1/embed": COHERE, "/v2/embed": COHERE,
    "/rerank": [DOCUMENTS], "TEI /rerank": [TEXTS], "/v1/rerank": [DOCUMENTS], "/v2/rerank": [DOCUMENTS],
    "/score": PAIRS, "/v1/score": PAIRS, "/predict": [{"inputs": [[T]]}], "/classify": [INPUT], "/v1/classify": [INPUT], "/pooling": [INPUT, BINARY],
    "/invocations": [INPUT, DOCUMENTS, PAIRS[2]], "/tokenize": [{"prompt": T}], "TEI /tokenize": [{"inputs": [T]}], "/decode": [{"ids": [1]}],
    "/detokenize": [{"tokens": [1]}], "/v1/tokenize": [{"text": T}], "/v1/detokenize": [{"tokens": [1]}],
    "/api/embed": [INPUT], "/api/embeddings": [{"prompt": T}], "/api/show": [{"model": NAME}],
    "/api/pull": [{"model": NAME}],
}


def read(name, columns):
    with (TABLES / name).open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert rows and all(list(row) == columns and None not in row.values() for row in rows), name
    return rows


def key(row):
    return " ".join(row[column] for column in ("api", "route", "direction", "field", "type"))


def outermost(row):
    return re.match(r"\w+", row["field"])[0]


ROWS = [row for api in APIS for row in read(f"{api.lower()}.tsv", COLUMNS)]
OWN = read("own.tsv", ["route", "field", "reason"])


def each(chosen, key):
    return pytest.mark.parametrize("row", chosen, ids=[key(row) for row in chosen])


def rows(*directions, treatment=None):
    return each([row for row in ROWS if row["direction"] in directions and treatment in (None, row["treatment"])], key)


@pytest.fixture(scope="module")
def description():
    return json.loads((ROOT / "docs" / "openapi.json").read_text())


def variants(schema, description):
    """The schema and its alternatives, without references."""
    if "$ref" in schema:
        schema = description["components"]["schemas"][schema["$ref"].split("/")[-1]]
    inner = [one for kind in ("anyOf", "oneOf", "allOf") for one in schema.get(kind, [])]
    return [schema, *(found for one in inner for found in variants(one, description))]


def body_of(description, route):
    """The schema of a request's body; `None` if the route has none."""
    body = description["paths"].get(route, {}).get("post", {}).get("requestBody")
    return body and body["content"]["application/json"]["schema"]


def properties(schemas, description):
    return {name: inner for schema in schemas for one in variants(schema, description) for name, inner in one.get("properties", {}).items()}


def is_described(description, route, field):
    schemas = [body_of(description, route)]
    if schemas == [None]:
        return False
    for step in field.split("."):
        found = properties(schemas, description).get(step.rstrip("[]"))
        if found is None:
            return False
        schemas = [one["items"] for one in variants(found, description) if "items" in one] if step.endswith("[]") else [found]
    return True


def test_the_tables_are_well_formed():
    assert {path.name for path in TABLES.glob("*.tsv")} == {f"{api.lower()}.tsv" for api in APIS} | {"own.tsv"}
    for api in APIS:
        found = {row["api"] for row in read(f"{api.lower()}.tsv", COLUMNS)}
        assert found == {api}
    assert len({key(row) for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row["direction"] in DIRECTIONS and row["treatment"] in TREATMENTS, key(row)
        assert row["source"] and re.fullmatch(r"\d{4}-\d\d-\d\d", row["read"]), key(row)
        assert bool(row["reason"]) == (row["treatment"] != "served"), f"{key(row)}: a reason is for fields that are not served"
        assert row["required"] in ("yes", "no", "default", "") and bool(row["required"]) == (row["direction"] != "route"), key(row)
        assert bool(row["example"]) or row["direction"] not in ("request", "query") or row["treatment"] == "absent", key(row)


@rows("request", "query", treatment="served")
def test_what_is_served_is_described(description, row):
    if row["direction"] == "request":
        assert is_described(description, row["route"], row["field"])
    else:
        assert row["field"] in {parameter["name"] for parameter in description["paths"][row["route"]]["get"]["parameters"]}


def test_what_is_described_is_in_a_table(description):
    """Routes with the same body share their rows."""
    for route in description["paths"]:
        body = body_of(description, route)
        names = set(variants(body, description)[0].get("properties", {})) if body else set()
        same = [other for other in description["paths"] if body_of(description, other) == body]
        known = {outermost(row) for row in ROWS if row["route"] in same and row["direction"] == "request"}
        own = {row["field"] for row in OWN if row["route"] in same}
        assert names <= known | own, f"{route}: fields that are in no table, and not in own.tsv"
        assert not own & known, f"{route}: fields of other APIs in own.tsv"


@each(OWN, lambda row: f"{row['route']} {row['field']}")
def test_own_fields_are_described(description, row):
    assert is_described(description, row["route"], row["field"])


def requests_of(row):
    return REQUESTS.get(f"{row['api']} {row['route']}", REQUESTS[row["route"]])


@pytest.fixture
def send(builtin, served, description):
    """`send(row, added)`: the response of the row's route to a complete request with these fields."""
    def send(row, added):
        route = row["route"]
        model = next((model for model, routes in MODELS.items() if routes.search(route)), None)
        server = served(*model) if model else builtin
        if "get" in description["paths"].get(route, {}) or route not in REQUESTS:
            query = "&".join(f"{name}={json.dumps(value).strip(chr(34))}" for name, value in added.items())
            return server.get(f"{route.replace('{model}', NAME)}?{query}")
        requests = requests_of(row)
        request = next((request for request in requests if request.keys() & added.keys()), requests[0])
        return server.post(route, {**request, **added})

    return send


def ignored(response):
    return response.headers.get("x-ignored-fields", "").split(", ")


def sent(row):
    return {outermost(row): json.loads(row["example"])}


@rows("request", "query", treatment="served")
def test_what_is_served_has_an_answer(send, row):
    response = send(row, sent(row))
    assert response.status == 200, response
    assert row["field"] not in ignored(response)


@rows("request", treatment="ignored")
def test_what_is_ignored_is_named(send, row):
    response = send(row, sent(row))
    assert response.status == 200, response
    assert row["field"] in ignored(response)


@rows("request", treatment="refused")
def test_what_is_refused_is_named(send, row):
    response = send(row, sent(row))
    assert 400 <= response.status < 500, response
    error = response.json()
    message = error["error"]["message"] if isinstance(error["error"], dict) else error["error"]
    assert re.search(rf"\b{outermost(row)}\b", message), message


JSON = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "null": type(None)}


def is_a(value, type_):
    """True if the value has a type such as `number[]|string`."""
    for one in type_.split("|"):
        if one.endswith("[]"):
            if isinstance(value, list) and all(is_a(item, one[:-2]) for item in value):
                return True
        elif isinstance(value, JSON[one]) and (one == "boolean" or not isinstance(value, bool)):
            return True
    return False


def values(answer, path):
    """The values at a path such as `data[].embedding`; `None` where one is missing."""
    found = [answer]
    for step in re.findall(r"\[\]|[^.\[\]]+", path):
        if step == "[]":
            found = [item for value in found if isinstance(value, list) for item in value]
        else:
            found = [value.get(step, ...) if isinstance(value, dict) else ... for value in found]
    return found


def has(answer, row):
    found = values(answer, row["field"])
    return bool(found) and all(is_a(value, row["type"]) for value in found)


def answer_to(send, row):
    if row["direction"] == "error":
        response = send(row, {next(iter(requests_of(row)[0])): 5})
        assert 400 <= response.status < 500, response
    else:
        response = send(row, json.loads(row["example"] or "{}"))
        assert response.status == 200, response
    return response.json()


@rows("response", "error", treatment="served")
def test_answers_have_what_is_served(send, row):
    answer = answer_to(send, row)
    assert has(answer, row), answer


@rows("response", "error", treatment="absent")
def test_answers_have_nothing_that_is_absent(send, row):
    answer = answer_to(send, row)
    assert not has(answer, row), answer


@rows("route")
def test_absent_routes_are_not_found(builtin, description, row):
    assert row["treatment"] == "absent"
    if row["route"] in description["paths"]:
        assert "the path is" in row["reason"]
    else:
        assert builtin.post(row["route"], {}).status in (404, 405)


def names(found):
    return ", ".join(dict.fromkeys(f"`{row['field']}`" for row in found))


def others(found):
    """Fields that are not served: by treatment, with the reasons."""
    def by(treatment):
        reasons = {}
        for row in found:
            if row["treatment"] == treatment:
                reasons.setdefault(row["reason"], []).append(row)
        return "; ".join(f"{names(same)} ({reason})" for reason, same in reasons.items())

    return ". ".join(f"{treatment.capitalize()}: {text}" for treatment in TREATMENTS[1:] if (text := by(treatment)))


def table(api):
    """Routes with the same fields share a row."""
    chosen, same = [row for row in ROWS if row["api"] == api], {}
    for route in dict.fromkeys(row["route"] for row in chosen):
        for directions in (("query", "request"), ("response",), ("error",)):
            found = [row for row in chosen if row["route"] == route and row["direction"] in directions]
            if found:
                served = names(row for row in found if row["treatment"] == "served")
                same.setdefault((directions[-1], served, others(found)), []).append(route)
    lines = [f"| {', '.join(f'`{route}`' for route in routes)} | {direction} | {served} | {rest} |"
             for (direction, served, rest), routes in same.items()]
    absent = {}
    for row in chosen:
        if row["direction"] == "route":
            absent.setdefault(row["reason"], []).append(row["route"])
    lines = ["", "| route | | served | not served |", "|---|---|---|---|", *lines]
    without = "; ".join(f"{', '.join(f'`{route}`' for route in routes)} ({reason})" for reason, routes in absent.items())
    return "\n".join([*lines, *([f"\nRoutes that prefold does not have: {without}."] if absent else []), ""])


def test_the_tables_of_the_document():
    text = DOCUMENT.read_text()
    assert [api for _, api, _ in PLACE.findall(text)] == APIS
    written = PLACE.sub(lambda found: found[1] + table(found[2]) + found[3], text)
    if "UPDATE_DOCS" in os.environ:
        DOCUMENT.write_text(written)
    assert written == DOCUMENT.read_text(), "docs/api.md is stale: UPDATE_DOCS=1 pytest tests/e2e/test_conformance.py"
