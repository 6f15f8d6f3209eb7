"""Ends that nobody planned: a fleet of clients that is killed, and a server that is told to stop under load."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time

import overload
import pytest
from client import Client, NoAnswer

from harness import Server, eventually
from raw import Raw, head, post, unharmed

# Each of a fleet's processes has so many requests under way, in the middle of its body each fourth, and waits.
FLEET = """
import socket, sys, time
port, count, whole = int(sys.argv[1]), int(sys.argv[2]), sys.stdin.buffer.read()
clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
for i, client in enumerate(clients):
    client.sendall(whole if i % 4 else whole[:-10])
print("sent", flush=True)
time.sleep(600)
"""


def long_request(seed, inputs=8, words=100):
    return post("/embed", {"inputs": [f"{seed} {i} " + "some words of a text " * (words // 5) for i in range(inputs)]})


def test_a_fleet_of_clients_that_is_killed(servers):
    processes, each = 4, 80
    server = servers("--max-batch-tokens", "2048")
    with unharmed(server):
        fleet = []
        for seed in range(processes):
            client = subprocess.Popen([sys.executable, "-c", FLEET, str(server.port), str(each)], start_new_session=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            client.stdin.write(long_request(seed))
            client.stdin.close()
            fleet.append(client)
        for client in fleet:
            assert client.stdout.readline() == b"sent\n"
        in_flight = lambda: server.metric("prefold_http_requests_in_flight")  # noqa: E731
        eventually(lambda: in_flight() > 200, "hundreds of requests are under way")
        dropped = server.metric("prefold_http_requests", route="/embed", status="dropped")
        for client in fleet:
            os.killpg(client.pid, signal.SIGKILL)
            client.wait()
            client.stdout.close()
        eventually(lambda: server.metric("prefold_http_requests", route="/embed", status="dropped") >= dropped + 100,
                   "the server has noticed")
    count, failed = server.metric("te_request_count"), server.metric("te_request_failure")
    assert count == server.metric("te_request_success") + failed


def test_sigterm_under_overload():
    """What was accepted is answered; who comes too late is told so or finds nobody; nobody gets half an answer."""
    server = Server("--max-concurrent-requests", "8", "--shutdown-timeout", "100")
    seen, late = [], []

    async def one(seed):
        client = Client(server.port)
        while True:
            try:
                answer = await client.ask(overload.work(random.Random(seed)))
            except (NoAnswer, ConnectionError):
                late.append(seed)  # Not a byte: the request was not accepted.
                return
            seen.append(answer.status)
            await asyncio.sleep(0.01)

    async def everybody():
        clients = [asyncio.create_task(one(seed)) for seed in range(80)]
        while seen.count(200) < 20:
            await asyncio.sleep(0.01)
        server.terminate()
        await asyncio.gather(*clients)

    try:
        asyncio.run(everybody())
        assert set(seen) <= {200, 429, 503} and {200, 429} <= set(seen), set(seen)
        assert len(late) == 80
        status, log = server.wait(), server.log()
        assert status == 0 and "cut off" not in log and "panicked" not in log, log[-5000:]
    finally:
        server.kill()


def begin_long_work(server):
    """A connection whose request takes long and is under way."""
    client = Raw(server.port)
    client.send(long_request(0, inputs=64, words=400))
    eventually(lambda: server.metric("te_request_count") >= 1, "the request has arrived")
    return client


def test_a_second_sigterm_ends_at_once():
    server = Server("--shutdown-timeout", "600", "--max-batch-tokens", "1024")
    try:
        with begin_long_work(server) as client:
            server.terminate()
            eventually(lambda: "stopping" in server.log(), "the first signal is seen")
            time.sleep(0.5)  # What comes within a quarter of a second is the same signal.
            server.terminate()
            assert server.wait() != 0
            assert "second signal" in server.log() and "panicked" not in server.log()
            with pytest.raises(AssertionError):
                assert client.answer() is not None
    finally:
        server.kill()


def test_two_signals_together_are_one():
    """A process manager may signal the process and its group."""
    server = Server("--shutdown-timeout", "600", "--max-batch-tokens", "1024")
    try:
        with begin_long_work(server) as client:
            server.terminate()
            server.process.send_signal(signal.SIGINT)
            assert client.answer().status == 200
            server.check_end()
    finally:
        server.kill()


def test_what_is_cut_off_is_reported():
    server = Server("--shutdown-timeout", "1", "--max-batch-tokens", "256", "--json-output")
    try:
        with begin_long_work(server):
            server.terminate()
            assert server.wait() == 0
            assert "requests were cut off" in server.log() and '"requests":1' in server.log(), server.log()[-2000:]
    finally:
        server.kill()


@pytest.mark.parametrize("begun, client_timeout", [
    (b"", 600), (b"GET /hea", 2), (head("GET", "/health", ("host", "a"))[:-2], 2),
], ids=["silent", "in the request line", "in the head"])
def test_connections_without_a_request_do_not_keep_the_server(begun, client_timeout):
    """Silent ones are closed at once; one that has begun a head may finish it within its time."""
    with Server("--shutdown-timeout", "600", "--client-timeout", client_timeout) as server:
        clients = [Raw(server.port) for _ in range(50)]
        for client in clients:
            client.send(begun)
        assert server.get("/health").status == 200
        server.stop()
        for client in clients:
            assert all(answer.status in (400, 408, 503) for answer in client.answers())
            client.close()
