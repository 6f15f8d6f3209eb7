"""The examples of docs/api.md and docs/prompts.md match a live server.

An example is a block `http <server>` with a request, followed by a block with the response. `UPDATE_DOCS=1` writes the
responses into the documents instead of comparing them.
"""

import base64
import json
import os
import re
import struct
import textwrap

import pytest

from harness import ROOT

DOCUMENTS = [ROOT / "docs" / "api.md", ROOT / "docs" / "prompts.md"]
EXAMPLE = re.compile(r"```http (\w+)\n(.*?)\n```\n\n```(json|text)\n(.*?)\n```", re.DOTALL)
ONE = ("--radix-mlp-threshold", "1")
SERVERS = {
    "embedding": None,
    "small": ("qwen3-tiny",),
    "reranker": ("qwen3-reranker-tiny", *ONE),
    "classifier": ("qwen3-seqcls-tiny", *ONE),
    "tokens": ("bert-ner-tiny",),
}
# Width of a line, and fields that differ for each response or machine.
WIDTH = 110
NUMBERS = re.compile(r"\[[-+.\deE,\s]+\]")
MEASURED_ONCE = {"embedding_range"}  # Null before the server's first request for such vectors, whatever test sends it.
CHANGING = {"id", "created", "unix", "modified_at", "total_duration", "tokenization_workers", "version", "sha", "device", "kernels",
            "kernels_reason"}
EXAMPLES = [example for document in DOCUMENTS for example in EXAMPLE.finditer(document.read_text())]


def send(server, request):
    head, _, body = request.partition("\n\n")
    first, *lines = head.splitlines()
    method, path = first.split()
    headers = dict(line.split(": ", 1) for line in lines)
    return server.request(method, path, body or None, headers)


def short(value):
    """Floats rounded to six digits."""
    match value:
        case float():
            return float(f"{value:.6g}")
        case list():
            return [short(item) for item in value]
        case dict():
            return {key: short(item) for key, item in value.items()}
        case _:
            return value


def shown(response, kind):
    if kind == "json":
        value = short(response.json())
        text = json.dumps(value, ensure_ascii=False)
        if len(text) <= WIDTH:
            return text
        # Lists of numbers are wrapped into lines.
        return NUMBERS.sub(lambda match: textwrap.fill(" ".join(match.group().split()), WIDTH),
                           json.dumps(value, ensure_ascii=False, indent=1))
    names = [name for name in response.headers if name.startswith("x-embedding-")]
    names += ["content-type", "retry-after"]
    lines = [f"HTTP/1.1 {response.status}"]
    lines += [f"{name}: {response.headers[name]}" for name in names if name in response.headers]
    if response.headers["content-type"] == "application/octet-stream":
        lines += ["", response.body.hex(" ", 4)]
    return "\n".join(lines)


def alike(got, want, key=None):
    """Equal up to the last digits and the fields in CHANGING."""
    if key in CHANGING:
        return type(got) is type(want)
    if key in MEASURED_ONCE:
        return got is None or 0 < got <= 1
    match want:
        case float() | int() if not isinstance(want, bool):
            return isinstance(got, (float, int)) and abs(got - want) <= 1e-4 + 1e-4 * abs(want)
        case list():
            return isinstance(got, list) and len(got) == len(want) and all(map(alike, got, want))
        case dict():
            return isinstance(got, dict) and got.keys() == want.keys() and all(alike(got[k], want[k], k) for k in want)
        case str() if key == "embedding":
            def values(text):
                data = base64.b64decode(text)
                return list(struct.unpack(f"<{len(data) // 4}f", data))
            return alike(values(got), values(want))
        case _:
            return got == want


def is_as_shown(response, kind, text):
    if kind == "json":
        return alike(response.json(), json.loads(text))
    if "\n\n" in text:
        # Binary values are not compared; other tests do that.
        return shown(response, kind).partition("\n\n")[0] == text.partition("\n\n")[0]
    return shown(response, kind) == text


def server_of(name, exact_builtin, served):
    if not SERVERS[name]:
        return exact_builtin
    # The default name of a local model is its path, which depends on the machine.
    model, *flags = SERVERS[name]
    return served(model, "--served-model-name", model, *flags)


def test_there_are_examples_of_every_route():
    described = json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"]
    aliases = {"/embeddings", "/score", "/classify", "/reranking", "/v1/reranking", "/ping", "/", "/metrics", "/v1/models/{model}", "/api/version"}
    shown_routes = {match.group(2).split()[1] for match in EXAMPLES}
    assert described.keys() - aliases - shown_routes == set()


@pytest.mark.skipif("UPDATE_DOCS" not in os.environ, reason="the documents are only read")
def test_write_the_answers(exact_builtin, served):
    def example(match):
        name, request, kind, _ = match.groups()
        answer = shown(send(server_of(name, exact_builtin, served), request), kind)
        return f"```http {name}\n{request}\n```\n\n```{kind}\n{answer}\n```"

    for document in DOCUMENTS:
        document.write_text(EXAMPLE.sub(example, document.read_text()))


@pytest.mark.skipif("UPDATE_DOCS" in os.environ, reason="the documents are being written")
@pytest.mark.parametrize("match", EXAMPLES, ids=lambda match: match.group(2).splitlines()[0])
def test_an_example_is_true(match, exact_builtin, served):
    name, request, kind, text = match.groups()
    response = send(server_of(name, exact_builtin, served), request)
    assert is_as_shown(response, kind, text), f"UPDATE_DOCS=1 writes the documents anew; got\n{shown(response, kind)}"
