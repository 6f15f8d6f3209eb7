"""The built-in model's ranking quality over HTTP matches its model card."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import pytest
from reference import WORKLOAD, dot

MODEL_CARD_NDCG = 0.647
REQUEST = 64


def embed(server, texts):
    chunks = [texts[i:i + REQUEST] for i in range(0, len(texts), REQUEST)]
    with ThreadPoolExecutor(2) as pool:
        return [row for rows in pool.map(lambda chunk: server.ask("/embed", inputs=chunk), chunks) for row in rows]


def ndcg(relevances, k=10):
    gain = sum(1 / math.log2(i + 2) for i, relevant in enumerate(relevances[:k]) if relevant)
    return gain / sum(1 / math.log2(i + 2) for i in range(min(k, sum(relevances))))


@pytest.fixture(scope="module")
def queries():
    return [json.loads(line) for line in WORKLOAD.read_text().splitlines()]


def similarities(server, queries):
    """Similarities of each query's passages."""
    passages = {passage["id"]: passage["text"] for query in queries for passage in query["passages"]}
    passage_rows = dict(zip(passages, embed(server, list(passages.values())), strict=True))
    query_rows = embed(server, [query["query"] for query in queries])
    return [
        [dot(row, passage_rows[passage["id"]]) for passage in query["passages"]]
        for query, row in zip(queries, query_rows, strict=True)
    ]


@pytest.fixture(scope="module")
def exact(exact_builtin, queries):
    return similarities(exact_builtin, queries)


def test_ndcg_on_the_rerank_workload(queries, exact):
    assert (len(queries), sum(map(len, exact))) == (200, 2000)
    values = []
    for query, scores in zip(queries, exact, strict=True):
        # Python's sort is stable: equal scores keep the file's order.
        ranked = sorted(zip(scores, query["passages"], strict=True), key=lambda pair: -pair[0])
        values.append(ndcg([passage["relevant"] for _, passage in ranked]))
    assert abs(sum(values) / len(values) - MODEL_CARD_NDCG) <= 0.005, sum(values) / len(values)


def test_bfloat16_ranks_as_float32(servers, queries, exact):
    rounded = similarities(servers("--dtype", "bfloat16"), queries)
    assert rounded != exact
    pairs = [
        (a - b) * (c - d) > 0
        for exact, rounded in zip(exact, rounded, strict=True)
        for (a, c), (b, d) in combinations(zip(exact, rounded, strict=True), 2)
        if abs(a - b) > 1e-3
    ]
    assert len(pairs) > 8000
    assert sum(pairs) / len(pairs) >= 0.99, sum(pairs) / len(pairs)
