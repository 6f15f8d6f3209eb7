"""Language models as rerankers: prompts, instructions, truncation, scores, savings from the shared prefix."""

import json
import math
import struct

import pytest

from harness import FIXTURES, ROOT, run_to_end
from reference import assert_close, dot, expected

RERANKER = ("qwen3-reranker-tiny", "--radix-mlp-threshold", "1")
QUERY = "how do bees tell each other where flowers are"
DOCUMENTS = ["Honey bees dance.", "A prefix tree stores strings.", "The tide comes in twice a day."]
RECIPE = json.loads((ROOT / "core" / "recipes" / "mxbai-rerank-v2.json").read_text())


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def scores(server, **request):
    lines = server.ask("/rerank", texts=DOCUMENTS, **request)
    return [line["score"] for line in sorted(lines, key=lambda line: line["index"])]


def test_raw_scores_are_the_difference_of_the_logits(served):
    server = served(*RERANKER)
    for case in expected("qwen3-reranker-tiny")["cases"]:
        request = {"query": case["query"], "texts": [case["document"]], "instruction": case["instruction"]}
        (raw,) = server.ask("/rerank", raw_scores=True, **request)
        want = case["logit_yes"] - case["logit_no"]
        assert raw["score"] == pytest.approx(want, abs=2e-3 * abs(want) + 2e-4)
        (line,) = server.ask("/rerank", **request)
        assert line["score"] == pytest.approx(sigmoid(raw["score"]), abs=1e-6)


def test_an_instruction_comes_with_the_request_or_the_flag(served):
    plain, strict = served(*RERANKER), served(*RERANKER, "--rerank-instruction", "Be strict")
    asked = scores(plain, query=QUERY, instruction="Be strict")
    assert asked != scores(plain, query=QUERY)
    assert scores(strict, query=QUERY) == asked
    default = "Given a web search query, retrieve relevant passages that answer the query"
    assert scores(strict, query=QUERY, instruction=default) == scores(plain, query=QUERY)
    # Names of the field in other APIs.
    for field in ("instruct", "instruction"):
        answer = plain.ask("/v1/rerank", query=QUERY, documents=DOCUMENTS, **{field: "Be strict"})
        assert_close([line["relevance_score"] for line in sorted(answer["results"], key=lambda line: line["index"])],
                     asked, 1e-6)


def test_only_the_document_is_truncated(served):
    """The prompt's end is kept: a truncated document has the score of its beginning."""
    server = served(*RERANKER)
    limit = server.get("/info").json()["max_input_length"]
    beginning = "bees " * 200
    # 300 tokens hold only the prompt and the document's first tokens.
    cut = [server.post("/rerank", {"query": QUERY, "texts": [text], "truncate_prompt_tokens": 300})
           for text in (beginning, beginning + "and other words " * 100)]
    assert [int(response.headers["x-compute-tokens"]) for response in cut] == [300, 300]
    assert cut[0].json()[0]["score"] == cut[1].json()[0]["score"]
    whole = server.post("/rerank", {"query": QUERY, "texts": ["bees " * 2 * limit]})
    assert int(whole.headers["x-compute-tokens"]) == limit
    refused = server.post("/rerank", {"query": "why " * 2 * limit, "texts": ["a"]})
    assert refused.status == 413 and "leaves no room for a document" in refused.json()["error"]


def test_the_answer_tells_what_the_shared_prefix_saved(served):
    server = served(*RERANKER)
    alone = [server.ask("/v1/rerank", query=QUERY, documents=[text])["usage"] for text in DOCUMENTS]
    assert all(usage["prompt_tokens_details"]["cached_tokens"] == 0 for usage in alone)
    response = server.post("/v1/rerank", {"query": QUERY, "documents": DOCUMENTS})
    usage = response.json()["usage"]
    saved = usage["prompt_tokens_details"]["cached_tokens"]
    assert usage["total_tokens"] == sum(usage["total_tokens"] for usage in alone)
    # The instruction and the query are computed twice.
    assert saved > 2 * 80
    assert int(response.headers["x-compute-compact-tokens"]) == usage["total_tokens"] - saved


def test_every_route_has_the_same_scores(served):
    server = served(*RERANKER)
    want = scores(server, query=QUERY)
    for path in ("/v1/score", "/score"):
        data = server.ask(path, queries=QUERY, documents=DOCUMENTS)["data"]
        assert [item["score"] for item in data] == want
    data = server.ask("/v1/score", queries=[QUERY] * 3, documents=DOCUMENTS)["data"]
    assert [item["score"] for item in data] == want
    swapped = server.ask("/v1/score", queries=["tides", QUERY, QUERY], documents=DOCUMENTS)["data"]
    assert swapped[0]["score"] != want[0] and [item["score"] for item in swapped[1:]] == want[1:]


def tensor_rows(path, name, rows):
    """Rows of a float32 tensor in a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8:8 + length])[name]
    width = entry["shape"][1]
    begin = 8 + length + entry["data_offsets"][0]
    return [struct.unpack(f"<{width}f", data[begin + 4 * width * row:begin + 4 * width * (row + 1)]) for row in rows]


def ids(server, text):
    return [token["id"] for token in server.ask("/tokenize", inputs=text, add_special_tokens=False)[0]]


@pytest.mark.parametrize("instruction", [None, "Be strict"])
def test_a_recipe_scores_as_its_library_does(served, instruction):
    """mxbai-rerank-v2 by hand: encodes its pieces separately, multiplies the last state by the output rows of "1" and "0"."""
    reranker = served("qwen2-tiny", "--rerank-recipe", "mxbai-rerank-v2", "--radix-mlp-threshold", "1")
    embedder = served("qwen2-tiny")
    task, end = RECIPE["template"]["after"][1:]
    query = f"instruction: {instruction}\nquery: {QUERY}" if instruction else f"query: {QUERY}"
    want = []
    for document in DOCUMENTS:
        pieces = [RECIPE["template"]["before"][0], query, "\n", f"document: {document}", "\n", task, end]
        prompt = [token for piece in pieces for token in ids(embedder, piece)]
        state = embedder.ask("/embed", inputs=[prompt], normalize=False)[0]
        one, zero = tensor_rows(FIXTURES / "qwen2-tiny" / "model.safetensors", "lm_head.weight",
                                [ids(embedder, "1")[0], ids(embedder, "0")[0]])
        want.append(dot(state, one) - dot(state, zero))
    got = scores(reranker, query=QUERY, raw_scores=True, **({"instruction": instruction} if instruction else {}))
    assert_close(got, want, 1e-3)
    assert_close(scores(reranker, query=QUERY, **({"instruction": instruction} if instruction else {})),
                 list(map(sigmoid, want)), 1e-4)


def test_a_recipe_from_a_file_with_one_token(served, tmp_path_factory):
    """The score is the logit of the positive token, as for bge-reranker-v2-gemma."""
    path = tmp_path_factory.mktemp("recipe") / "recipe.json"
    recipe = {"positive": "1", "template": {"before": ["A: {query}", "\n"], "document": "B: {document}",
                                            "after": ["\n", "Does B answer A?"]}}
    path.write_text(json.dumps(recipe))
    reranker, embedder = served("qwen2-tiny", "--rerank-recipe", path), served("qwen2-tiny")
    pieces = [f"A: {QUERY}", "\n", f"B: {DOCUMENTS[0]}", "\n", "Does B answer A?"]
    prompt = [token for piece in pieces for token in ids(embedder, piece)]
    state = embedder.ask("/embed", inputs=[prompt], normalize=False)[0]
    (row,) = tensor_rows(FIXTURES / "qwen2-tiny" / "model.safetensors", "lm_head.weight", [ids(embedder, "1")[0]])
    assert scores(reranker, query=QUERY, raw_scores=True)[0] == pytest.approx(dot(state, row), abs=1e-3)


@pytest.mark.parametrize("recipe, words", [
    ({"positive": "1", "template": {"document": "{document} {query}"}}, "must end with {document}"),
    ({"positive": "one two three", "template": {"document": "{query}{document}"}}, "must be one"),
    ({"template": {"document": "{query}{document}"}}, "positive"),
])
def test_a_recipe_that_is_wrong_is_refused_at_start_up(recipe, words, tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(recipe))
    status, output = run_to_end("--model-id", FIXTURES / "qwen2-tiny", "--rerank-recipe", path)
    assert status != 0 and words in output, output


def test_an_instruction_for_a_model_without_words_is_refused():
    status, output = run_to_end("--rerank-instruction", "Be strict")
    assert status != 0 and "--rerank-instruction" in output, output
