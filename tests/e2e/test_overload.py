"""Overload: every request gets one response, and memory stays within its limits."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import overload
import pytest
from client import Answer, BadAnswer, Client, check_error, request

from harness import FIXTURES, Server, eventually
from raw import Raw, Vitals, is_idle, post, unharmed
from test_slow_clients import artefact

CONCURRENCY = 8
MB = 1_000_000


class Watch:
    """Context manager that records the largest values of gauges."""

    def __init__(self, server, *names):
        self.server, self.largest, self.over = server, dict.fromkeys(names, 0.0), threading.Event()
        self.thread = threading.Thread(target=self._look)

    def _look(self):
        while not self.over.wait(0.01):
            for name, largest in self.largest.items():
                self.largest[name] = max(largest, self.server.metric(name))

    def __enter__(self):
        self.thread.start()
        return self.largest

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def test_ten_times_as_many_clients_as_places():
    """Each request gets one response, 200 or 429 with Retry-After (checked by overload.py), and both sides' counts agree."""
    with Server("--max-concurrent-requests", CONCURRENCY, "--prometheus-port", "0") as server:
        metrics = server.metrics()
        outcome = asyncio.run(overload.drive(server.port, 10 * CONCURRENCY, requests=5, patient=False))
        accepted, refused = len(outcome.latencies), outcome.refused
        assert accepted + refused == 10 * CONCURRENCY * 5
        assert accepted >= CONCURRENCY and refused >= CONCURRENCY, (accepted, refused)
        assert metrics.metric("prefold_http_requests_total", route="/rerank", status="200") == accepted
        assert metrics.metric("prefold_http_requests_total", route="/rerank", status="429") == refused
        assert metrics.metric("te_request_success", method="score") in (0, accepted)
        assert metrics.metric("te_request_failure", err="overloaded") == refused
        assert metrics.metric("te_request_count") == \
            metrics.metric("te_request_success") + metrics.metric("te_request_failure")
        eventually(lambda: is_idle(metrics), "the server is idle again")


@pytest.mark.parametrize("flag, limit, gauge, of_a_request", [
    ("--max-queued-inputs", 24, "te_queue_size", 16),
    ("--max-queued-tokens", 600, "prefold_queue_tokens", 16 * 60),
])
def test_the_queue_has_its_bounds(flag, limit, gauge, of_a_request):
    """A request is admitted while the queue is below the limit, so the queue never exceeds the limit plus one request.

    The gauges count the same as the limits, including the batch being formed."""
    inputs = [f"{i} " + "word " * 40 for i in range(16)]
    with Server(flag, limit, "--max-batch-tokens", "512", "--prometheus-port", "0") as server:
        tokens = sum(map(len, server.ask("/tokenize", inputs=inputs)))
        assert gauge == "te_queue_size" or tokens <= of_a_request
        with Watch(server.metrics(), gauge) as largest, ThreadPoolExecutor(40) as pool:
            answers = list(pool.map(lambda _: server.post("/embed", {"inputs": inputs}), range(120)))
        assert {answer.status for answer in answers} == {200, 429}
        for answer in answers:
            if answer.status == 429:
                assert flag in answer.json()["error"] and answer.headers["retry-after"], answer
        assert limit / 2 <= largest[gauge] < limit + of_a_request, largest


def send_all(port, data, count):
    """Sends the same request from several clients at once; returns their statuses. Each gets one response."""
    async def one():
        client = Client(port)
        answer = await client.ask(data)
        if answer.status != 200:
            check_error(answer)
        await client.close()
        return answer.status

    async def everybody():
        return await asyncio.gather(*(one() for _ in range(count)))

    return asyncio.run(everybody())


def test_large_bodies_from_many_clients_at_once():
    """The limit applies to the sum of all bodies, not to each."""
    size, count, held = 8 * MB, 48, 32 * MB
    body = b'{"inputs":"a","ignored":"' + b"x" * (size - 27) + b'"}'
    assert len(body) == size
    with Server("--payload-limit", size, "--max-buffered-bytes", held) as server:
        vitals = Vitals(server.process.pid)
        assert server.request("POST", "/embed", body).status == 200
        with unharmed(server):
            vitals.reset_peak()
            before = vitals.peak()
            statuses = send_all(server.port, post("/embed", body), count)
            peak = vitals.peak() - before
        assert set(statuses) == {200, 429}, statuses
        artefact("large-bodies.json", {"clients": count, "body_mb": size / MB, "max_buffered_mb": held / MB,
                                       "accepted": statuses.count(200), "peak_growth_mb": round(peak / MB, 1)})
        # Growing bodies are held twice for a moment, each connection has a read buffer of at most 0.4 MB, and the allocator keeps some
        # memory.
        assert peak < 2 * held + 64 * MB, f"{peak / MB:.0f} MB, where all bodies are {size * count / MB:.0f}"


def test_bodies_that_are_held_count():
    """Clients that stall within their bodies hold quota until they disconnect."""
    with Server("--payload-limit", MB, "--max-buffered-bytes", MB) as server, unharmed(server):
        body = b'{"inputs":"a","ignored":"' + b"x" * 400_000 + b'"}'
        begun = post("/embed", body)[:300_000]
        holding, answers = [], []

        def is_refused():
            # Complete and partial bodies compete for the same quota: one more holder each time, until enough have it.
            holding.append(Raw(server.port))
            holding[-1].send(begun)
            answers.append(server.request("POST", "/embed", body))
            return answers[-1].status == 429

        eventually(is_refused, "what others hold leaves no room")
        assert answers[-1].headers["retry-after"] and answers[-1].json()["error"]
        assert server.post("/embed", {"inputs": "a"}).status == 429, "small or large, a body enters while the others are below the limit"
        for client in holding:
            client.close()
        eventually(lambda: server.request("POST", "/embed", body).status == 200, "there is room again")


def repeated(item, prefix, suffix, size=32 * MB):
    """A body of slightly less than `size` bytes that repeats one value."""
    count = (size - len(prefix) - len(suffix)) // (len(item) + 1)
    return prefix + b",".join([item] * count) + suffix


# Bodies of the default --payload-limit that become large when parsed.
AMPLIFYING = {
    "empty lists": ("/embed", b"[]", b'{"inputs":[', b"]}"),
    "empty strings": ("/embed", b'""', b'{"inputs":[', b"]}"),
    "ids": ("/embed", b"1", b'{"inputs":[', b"]}"),
    "lists of a million ids": ("/embed", b"[" + b"1," * 999_999 + b"1]", b'{"inputs":[', b"]}"),
    "lists of one id": ("/embed", b"[1]", b'{"inputs":[', b"]}"),
    "lists of lists": ("/embed", b"[[]]", b'{"inputs":[', b"]}"),
    "pairs to classify": ("/predict", b'["",""]', b'{"inputs":[', b"]}"),
    "texts to rank": ("/rerank", b'""', b'{"query":"a","texts":[', b"]}"),
    "documents to rank": ("/v1/rerank", b'{"text":""}', b'{"query":"a","documents":[', b"]}"),
    "texts to score": ("/v1/score", b'""', b'{"queries":"a","documents":[', b"]}"),
    "sentences": ("/similarity", b'""', b'{"inputs":{"source_sentence":"a","sentences":[', b"]}}"),
    "texts to tokenize": ("/tokenize", b'""', b'{"inputs":[', b"]}"),
    "one long text to tokenize": ("/tokenize", b"a" * 100, b'{"inputs":"', b'"}'),
    "words to tokenize": ("/tokenize", b"a " * 50, b'{"inputs":"', b'"}'),
    "ids to decode": ("/decode", b"[1]", b'{"ids":[', b"]}"),
    "one list of ids to decode": ("/decode", b"1", b'{"ids":[', b"]}"),
    "fields that are ignored": ("/embed", b'"a":[]', b'{"inputs":"a",', b"}"),
    "lists that are ignored": ("/embed", b"[]", b'{"inputs":"a","ignored":[', b"]}"),
    "escapes": ("/embed", rb"\u0000" * 100, b'{"inputs":["', b'"]}'),
    "one long text": ("/embed", b"a" * 100, b'{"inputs":"', b'"}'),
    "at the default route": ("/", b"[]", b'{"inputs":[', b"]}"),
}


@pytest.fixture(scope="module")
def amplified():
    found = {}
    yield found
    artefact("amplification.json", found)


# Multiple of the body's size: the body and the values parsed from it (an id of two bytes takes four, twice while its list
# grows).
MOST = 6


@pytest.mark.parametrize("what", AMPLIFYING)
def test_bodies_that_amplify(amplified, what):
    path, *parts = AMPLIFYING[what]
    body = repeated(*parts)
    with Server() as server:  # A separate server, because memory retained by the allocator hides the next body's need.
        vitals = Vitals(server.process.pid)
        assert server.request("POST", path, b'{"inputs":"a","ignored":"' + b"a" * 1000 + b'"}').status in (200, 400, 422)
        before = vitals.peak()
        response = server.request("POST", path, body, {"content-type": "application/json"})
        growth = vitals.peak() - before
    assert response.status in (200, 400, 413, 422), response
    amplified[what] = {"path": path, "body_mb": round(len(body) / MB, 1), "status": response.status,
                       "peak_growth_mb": round(growth / MB, 1), "factor": round(growth / len(body), 2)}
    print(what, amplified[what])
    assert growth < MOST * len(body) + 16 * MB, amplified[what]


@pytest.mark.parametrize("path, body", [
    ("/rerank", {"query": "x" * 100_000, "texts": ["a"] * 20_000}),
    ("/v1/rerank", {"query": "x" * 100_000, "documents": ["a"] * 20_000}),
    ("/score", {"text_1": "x" * 100_000, "text_2": ["a"] * 20_000}),
])
@pytest.mark.parametrize("model", ["bert-reranker-tiny", "qwen3-reranker-tiny"])
def test_a_query_of_many_documents_is_held_once(model, path, body):
    """The query is 500 times larger than it could be if it were copied for each document."""
    with Server(FIXTURES / model) as server:
        vitals = Vitals(server.process.pid)
        before = vitals.peak()
        response = server.request("POST", path, json.dumps(body).encode(), {"content-type": "application/json"})
        growth = vitals.peak() - before
    assert response.status in (200, 400, 413, 422), response
    print(model, path, f"{growth / MB:.0f} MB")
    assert growth < 200 * MB


@pytest.mark.parametrize("path, body, status, most", [
    # Computed once, returned 64 times.
    ("/embed_all", json.dumps({"inputs": [[1] * 2000] * 64}), 422, 32 * MB),
    ("/embed_all", json.dumps({"inputs": [[1] * 1000] * 40}), 200, 800 * MB),
    ("/embed", json.dumps({"inputs": [[1]] * 20_000}), 200, 600 * MB),
])
def test_large_answers_to_small_bodies(amplified, path, body, status, most):
    """A response takes four bytes per value and about ten more as JSON, and its values are limited."""
    with Server() as server:
        vitals = Vitals(server.process.pid)
        server.post(path, {"inputs": [[1]]})
        before = vitals.peak()
        response = server.request("POST", path, body, {"content-type": "application/json"})
        growth = vitals.peak() - before
        assert response.status == status, response
        server.ask(path, inputs=[[1]])
    amplified[f"{path}, {len(body)} bytes"] = {
        "path": path, "body_mb": round(len(body) / MB, 2), "status": status, "answer_mb": round(len(response.body) / MB, 1),
        "peak_growth_mb": round(growth / MB, 1)}
    print(path, len(body), len(response.body) / MB, growth / MB)
    assert growth < most


def held_by_unread_answers(path, request_, count):
    """Bytes by which a fresh server grows while `count` clients leave their answers unread."""
    with Server() as server:
        vitals = Vitals(server.process.pid)
        before = vitals.peak()
        clients = [Raw(server.port, receive_buffer=4096) for _ in range(count)]
        for client in clients:
            client.send(post(path, request_))
        for client in clients:
            assert client.socket.recv(1), "the answer has begun"
        grown = vitals.peak() - before
        for client in clients:
            client.reset()
    return grown


@pytest.mark.parametrize("path, request_, most", [
    ("/v1/embeddings", {"input": [[7]] * 2000}, 2.2),
    ("/embed_all", {"inputs": [[7] * 1000] * 2}, 1.4),
])
def test_an_unread_answer_takes_what_it_counts(amplified, path, request_, most):
    """2,000 vectors of 384 values count 3.6 MB, and nothing else of that size is held: neither copies nor text.

    The memory kept by the allocator varies between runs (1.4 to 2.5 times the counted bytes; 2.6 to 2.9 with one more
    copy), so the minimum over a few servers decides."""
    count, counted = 10, 2000 * (4 * 384 + 256)
    factors = []
    while not factors or (factors[-1] >= most and len(factors) < 4):
        factors.append(held_by_unread_answers(path, request_, count) / (count * counted))
    factor = min(factors)
    amplified[f"{path}, {count} unread answers"] = {"path": path, "counted_mb": count * counted / MB, "factor": round(factor, 2)}
    print(path, f"{factor:.2f} times the bytes that count")
    assert factor < most, factors


@pytest.mark.parametrize("path, body", [
    ("/tokenize", b'{"inputs":"' + b"x " * 500_000 + b'"}'),
    ("/tokenize", b'{"inputs":"' + b"x" * 1_000_000 + b'"}'),
    ("/decode", b'{"ids":[' + b"100," * 999_999 + b"100]}"),
])
def test_as_much_as_may_be_tokenized_or_decoded(amplified, path, body):
    """The largest accepted request takes a few hundred bytes per token."""
    with Server() as server:
        vitals = Vitals(server.process.pid)
        server.post("/tokenize", {"inputs": "a"})
        before = vitals.peak()
        response = server.request("POST", path, body, {"content-type": "application/json"})
        growth = vitals.peak() - before
    assert response.status == 200, response
    amplified[f"{path}, {body[:14].decode()}..."] = {
        "path": path, "body_mb": round(len(body) / MB, 1), "status": 200, "peak_growth_mb": round(growth / MB, 1)}
    print(path, growth / MB)
    assert growth < 600 * MB


def test_a_bad_answer_is_seen():
    """The strict client, on which these tests rely, rejects malformed responses."""
    good = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 23\r\n\r\n" + b'{"error":"overloaded" } '[:23]
    cases = {
        "whole": (good, True),
        "cut off": (good[:-1], False),
        "without a length": (b"HTTP/1.1 200 OK\r\n\r\n{}", False),
        "no HTTP": (b"hello\r\n\r\n", False),
        "nothing": (b"", False),
    }

    async def main():
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answers.pop())
            writer.close()

        answers = []
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        for what, (data, is_good) in cases.items():
            answers.append(data)
            client = Client(server.sockets[0].getsockname()[1])
            if is_good:
                assert not overload.check(await client.ask(request("GET", "/"))), what
            else:
                with pytest.raises(BadAnswer):
                    await client.ask(request("GET", "/"))
            client.abandon()
        server.close()

    asyncio.run(main())
    for status, fields in [(429, {}), (200, {}), (500, {})]:
        with pytest.raises(BadAnswer):
            overload.check(Answer(status, fields, json.dumps({"error": "x"} if status != 200 else []).encode(), 0.0))
