"""Short requests interrupt the running batch of long ones, and no answer changes by a bit."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import Server, eventually

QUERY = "which harbour freezes last"


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


def passages(name, count):
    words = "the tide comes in twice a day and leaves the harbour to the gulls that wait for the boats of the evening"
    return [f"{name} passage {i}: {words} number {i * 7 % count}, and {words}" for i in range(count)]


def vectors(server, texts):
    got = server.post("/embed", {"inputs": texts})
    assert got.status == 200, got.body
    return got.json()


def interruptions(server):
    return sum(server.metric("prefold_interrupting_batch_duration_count", level=level) for level in ("urgent", "due"))


class Bulk:
    """A running job that takes seconds."""

    def __init__(self, server, texts):
        arrived = lambda: server.metric("te_request_input_length_count")
        before = arrived()
        self.pool = ThreadPoolExecutor(1)
        self.job = self.pool.submit(vectors, server, texts)
        eventually(lambda: arrived() >= before + len(texts), "the job is in the queue", 20)

    def __enter__(self):
        return self.job

    def __exit__(self, *_):
        self.job.result()
        self.pool.shutdown()


def test_queries_interrupt_a_bulk_job_and_all_get_the_bits_that_they_have_alone(server):
    texts = passages("bulk", 800)
    query = vectors(server, [QUERY])
    before = interruptions(server)
    with Bulk(server, texts) as job:
        while not job.done() and interruptions(server) < before + 5:
            assert vectors(server, [QUERY]) == query
        assert not job.done(), "no query waited for it"
    assert interruptions(server) >= before + 5
    alone = [vector for begin in range(0, len(texts), 100) for vector in vectors(server, texts[begin : begin + 100])]
    assert job.result() == alone


def test_a_rerank_call_interrupts_a_bulk_job(server):
    call = {"query": QUERY, "texts": passages("pair", 20)}
    alone = server.post("/rerank", call).json()
    before = interruptions(server)
    with Bulk(server, passages("beside", 1200)) as job:
        # A call that arrives between two batches of the job has nothing to interrupt.
        while not job.done() and interruptions(server) == before:
            assert server.post("/rerank", call).json() == alone
    assert interruptions(server) > before


def test_nothing_is_interrupted_in_the_order_of_arrival():
    with Server("--scheduling", "fifo") as server:
        with Bulk(server, passages("bulk", 400)):
            vectors(server, [QUERY])
        assert interruptions(server) == 0


def test_the_delay_until_the_first_row_is_told_by_size(server):
    count = lambda tokens: server.metric("prefold_request_start_delay_count", tokens=tokens)
    before = count("64")
    vectors(server, [QUERY])
    assert count("64") == before + 1
