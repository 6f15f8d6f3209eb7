"""Order of service between queries and bulk jobs, between API keys, and by priority. Time is counted in batches."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import Server, eventually
from test_faults import FaultyServer

# Each batch takes this long, and holds at most ten texts.
BATCH = ("--max-batch-requests", "10", "--max-batch-ms", "0")
FAULTS = "seed=1,delay=1,delay-ms=50"


@pytest.fixture(scope="module")
def server():
    with FaultyServer(*BATCH, faults=FAULTS) as server:
        yield server


def batches(server):
    return server.metric("te_batch_next_size_count")


def arrived(server):
    """Inputs that have reached the queue so far."""
    return server.metric("te_request_input_length_count")


def texts(name, count):
    return [f"{name} says that number {i} crosses the frozen river" for i in range(count)]


def embed(server, name, count, headers=None, **fields):
    got = server.post("/v1/embeddings", {"input": texts(name, count), **fields}, headers=headers)
    assert got.status == 200, got.body
    return got


class Bulk:
    """A running job of 600 texts, which takes three seconds."""

    def __init__(self, server, name):
        before = arrived(server)
        self.pool = ThreadPoolExecutor(1)
        self.job = self.pool.submit(embed, server, name, 600)
        eventually(lambda: arrived(server) >= before + 600, "the job is in the queue", 10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.job.result()
        self.pool.shutdown()


def test_a_query_waits_for_two_batches_whatever_else_waits(server):
    with Bulk(server, "first"), Bulk(server, "second") as second:
        for i in range(5):
            before = batches(server)
            embed(server, f"query {i}", 1)
            # The batch that ran, the request's own, and one that ends between the answer and the count.
            assert batches(server) - before <= 3
        assert not second.job.done()


def test_a_rerank_sized_request_goes_before_a_bulk_job(server):
    with Bulk(server, "bulk") as bulk:
        before = batches(server)
        embed(server, "pairs", 20)
        assert batches(server) - before <= 4, "its two batches, the one that ran, and one that ends meanwhile"
        assert not bulk.job.done()


@pytest.mark.parametrize("priority", [{"priority": 4}, {"headers": {"x-vllm-priority": "9"}, "priority": -4}])
def test_priorities_decide_between_equals(server, priority):
    order, lock = [], threading.Lock()

    def run(name, **options):
        embed(server, name, 100, **options)
        with lock:
            order.append(name)

    with Bulk(server, "bulk"), ThreadPoolExecutor(2) as pool:
        before = arrived(server)
        late = pool.submit(run, "late", **priority)
        eventually(lambda: arrived(server) >= before + 100, "it is in the queue", 10)
        early = pool.submit(run, "early")
        late.result(), early.result()
    assert order == ["early", "late"]


@pytest.mark.parametrize("value", ["high", "1.5", "", "99999999999999999999"])
def test_a_header_that_is_no_number_is_refused(server, value):
    got = server.post("/v1/embeddings", {"input": "a"}, headers={"x-vllm-priority": value})
    assert got.status == 400 and got.json()["error"]["param"] == "x-vllm-priority", got.body
    assert server.post("/embed", {"inputs": "a"}, headers={"x-vllm-priority": value}).status == 422


def test_a_field_that_is_no_number_is_refused(server):
    got = server.post("/v1/embeddings", {"input": "a", "priority": "high"})
    assert got.status == 400 and got.json()["error"]["param"] == "priority", got.body
    assert server.post("/embed", {"inputs": "a", "priority": None}).status == 200
    assert server.post("/embed", {"inputs": "a", "priority": -(2**63)}).status == 200


def test_keys_get_the_same_while_both_wait():
    served = {"one": 0, "many": 0}
    with FaultyServer(*BATCH, "--api-key", "one", "--api-key", "many", faults="seed=1,delay=1,delay-ms=20") as server:
        over = threading.Event()

        def client(key, number):
            for turn in range(1000):
                if over.is_set():
                    return
                # The client that sends more also claims to be urgent.
                headers = {"authorization": f"Bearer {key}", "x-vllm-priority": "-4" if key == "many" else "4"}
                embed(server, f"{key} {number} {turn}", 20, headers=headers)
                served[key] += 0 if over.is_set() else 20

        with ThreadPoolExecutor(22) as pool:
            clients = [pool.submit(client, "many", i) for i in range(20)] + [pool.submit(client, "one", i) for i in range(2)]
            eventually(lambda: served["one"] >= 400, "one key has got its texts", 60)
            over.set()
            for done in clients:
                done.result()
    one, many = served["one"], served["many"]
    # A part of each client's last request is computed but not counted.
    assert 0.8 <= many / one <= 1.25, served


def test_the_wait_is_told_by_size():
    with Server() as server:
        embed(server, "small", 1)
        embed(server, "large", 100)
        counts = [server.metric("prefold_request_queue_duration_count", tokens=tokens) for tokens in ("64", "512", "4096")]
    assert counts == [1, 0, 1]
