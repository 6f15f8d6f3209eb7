"""Many clients, disconnecting clients, and SIGTERM under load."""

import http.client
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import Server, eventually
from reference import norm

WORDS = "the kernel keeps a list of free pages and hands them out on demand when memory runs low".split()


def text(seed, words):
    """A text per seed; two seeds share at most one word of prefix."""
    return f"{seed} " + " ".join(WORDS[(seed * 7 + i * i) % len(WORDS)] for i in range(words))


def test_no_request_in_flight_is_lost_when_the_server_is_stopped():
    count = 50
    server = Server("--max-batch-tokens", "2048", "--shutdown-timeout", "100")
    try:
        with ThreadPoolExecutor(count) as pool:
            answers = [pool.submit(server.post, "/embed", {"inputs": text(i, 120)}) for i in range(count)]
            eventually(lambda: server.metric("te_request_count") >= count, "all requests have arrived")
            finished = server.metric("te_request_success")
            server.terminate()
            answers = [answer.result() for answer in answers]
        assert finished < count, "all were answered before the signal, so this shows nothing"
        assert [answer.status for answer in answers] == [200] * count
        for answer in answers:
            (row,) = answer.json()
            assert norm(row) == pytest.approx(1.0, abs=1e-4)
        server.check_end()
        with pytest.raises(ConnectionError):
            server.get("/health")
    finally:
        server.kill()


def test_an_idle_connection_does_not_keep_the_server_from_stopping():
    with Server() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", "/health")
        connection.getresponse().read()
        server.stop()
        connection.close()


def test_too_many_requests_at_once_are_429_and_the_others_are_answered():
    with Server("--max-concurrent-requests", "1", "--max-batch-tokens", "1024") as server:
        request = {"inputs": [text(i, 200) for i in range(8)]}
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: server.post("/embed", request), range(16)))
        statuses = {answer.status for answer in answers}
        assert statuses == {200, 429}
        refused = next(answer for answer in answers if answer.status == 429)
        assert "overloaded" in refused.json()["error"]
        good = [answer.json() for answer in answers if answer.status == 200]
        assert all(rows == good[0] for rows in good)
        assert server.post("/embed", request).status == 200
        assert server.metric("te_request_failure", err="overloaded") == sum(a.status == 429 for a in answers)


def test_one_request_may_bring_more_inputs_than_there_are_places_for_requests():
    with Server("--max-concurrent-requests", "2") as server:
        assert len(server.ask("/embed", inputs=[text(i, 3) for i in range(64)])) == 64


def send_and_leave(server, request):
    body = json.dumps(request).encode()
    head = f"POST /embed HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + body)
        time.sleep(0.01)  # The server has probably started; the test is valid either way.


def test_clients_that_leave_are_forgotten():
    with Server("--max-batch-tokens", "2048") as server:
        request = {"inputs": [text(i, 300) for i in range(16)]}
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(lambda _: send_and_leave(server, request), range(20)))
        half = b"POST /embed HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(half)
        assert len(server.ask("/embed", inputs="still here")) == 1
        eventually(lambda: server.metric("te_queue_size") == 0, "the queue is empty again")
        assert server.get("/health").status == 200


def test_many_clients_get_their_own_answers(builtin):
    texts = [text(i, 5 + i) for i in range(40)]
    want = builtin.ask("/embed", inputs=texts)
    barrier = threading.Barrier(20)

    def ask(i):
        if i < 20:
            barrier.wait()
        return builtin.ask("/embed", inputs=texts[i])[0]

    with ThreadPoolExecutor(20) as pool:
        got = list(pool.map(ask, range(40)))
    for one, other in zip(got, want, strict=True):
        assert max(abs(a - b) for a, b in zip(one, other, strict=True)) <= 1e-6
