"""Killed clients, and a server stopped under load."""

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import overload
import pytest
from client import Client, NoAnswer

from harness import ADDRESS, PREFOLD, STOP_LIMIT, Address, Server, environment, eventually
from raw import JSON_HEAD, Raw, head, post, unharmed

# Requests in flight per client process, each with a different text, every fourth cut off within its body.
FLEET = """
import socket, sys, time
port, count, whole = int(sys.argv[1]), int(sys.argv[2]), sys.stdin.buffer.read()
clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
for i, client in enumerate(clients):
    request = whole.replace(b"SEED", b"%04d" % i)
    client.sendall(request if i % 4 else request[:-10])
print("sent", flush=True)
time.sleep(600)
"""


def long_request(seed, inputs=8, words=100):
    return post("/embed", {"inputs": [f"{seed} {i} " + "some words of a text " * (words // 5) for i in range(inputs)]})


def test_a_fleet_of_clients_that_is_killed(servers):
    processes, each = 4, 80
    server = servers("--max-batch-tokens", "2048", "--dtype", "float32")
    with unharmed(server):
        fleet = []
        for seed in range(processes):
            client = subprocess.Popen([sys.executable, "-c", FLEET, str(server.port), str(each)], start_new_session=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            client.stdin.write(long_request(f"SEED {seed}"))
            client.stdin.close()
            fleet.append(client)
        for client in fleet:
            assert client.stdout.readline() == b"sent\n"
        in_flight = lambda: server.metric("prefold_http_requests_in_flight")  # noqa: E731
        eventually(lambda: in_flight() > 200, "hundreds of requests are in flight")
        dropped = server.metric("prefold_http_requests_total", route="/embed", status="dropped")
        for client in fleet:
            os.killpg(client.pid, signal.SIGKILL)
            client.wait()
            client.stdout.close()
        eventually(lambda: server.metric("prefold_http_requests_total", route="/embed", status="dropped") >= dropped + 100,
                   "the server has noticed")
    count, failed = server.metric("te_request_count"), server.metric("te_request_failure")
    assert count == server.metric("te_request_success") + failed


def test_sigterm_under_overload():
    """Accepted requests get responses; later ones get 503 or no connection; no response is partial."""
    server = Server("--max-concurrent-requests", "8", "--shutdown-timeout", "100")
    seen, late = [], []

    async def one(seed):
        client = Client(server.port)
        while True:
            try:
                answer = await client.ask(overload.work(random.Random(seed)))
            except (NoAnswer, ConnectionError):
                late.append(seed)  # No byte: the request was not accepted.
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
    """A connection with a long request in progress."""
    client = Raw(server.port)
    client.send(long_request(0, inputs=160, words=400))
    eventually(lambda: server.metric("te_request_count") >= 1, "the request has arrived")
    return client


def test_a_second_sigterm_ends_at_once():
    server = Server("--shutdown-timeout", "600", "--max-batch-tokens", "1024")
    try:
        with begin_long_work(server) as client:
            server.terminate()
            eventually(lambda: "stopping" in server.log(), "the first signal is seen")
            time.sleep(0.3)  # Signals within a quarter of a second count as one.
            server.terminate()
            assert server.wait() != 0
            assert "second signal" in server.log() and "panicked" not in server.log()
            assert client.answer().status == 503, "its pass ended at a yield point"
    finally:
        server.kill()


def test_two_signals_together_are_one():
    """A process manager may signal both the process and its group."""
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
    """Idle connections are closed at once; one within a head may finish it in time."""
    with Server("--shutdown-timeout", "600", "--client-timeout", client_timeout) as server:
        clients = [Raw(server.port) for _ in range(50)]
        for client in clients:
            client.send(begun)
        assert server.get("/health").status == 200
        server.stop()
        for client in clients:
            assert all(answer.status in (400, 408, 503) for answer in client.answers())
            client.close()


def test_an_answer_that_is_being_written_is_reported():
    """Its values are computed and its head is sent; the client does not read the rest."""
    server = Server("--shutdown-timeout", "1", "--json-output", "--max-client-batch-size", "4096")
    try:
        with Raw(server.port, receive_buffer=4096) as client:
            client.send(post("/embed", {"inputs": ["a"] * 4000}))
            eventually(lambda: server.metric("prefold_http_requests_total", route="/embed", status="200") == 1, "it is computed")
            server.terminate()
            assert server.wait() == 0
            assert '"requests":1' in server.log(), server.log()[-2000:]
    finally:
        server.kill()


@pytest.mark.parametrize("begun", [b"GET / HT", head("POST", "/embed", *JSON_HEAD)[:-2]], ids=["a line", "fields"])
def test_unfinished_heads_do_not_hold_up_the_end(begun):
    server = Server("--shutdown-timeout", "600")
    try:
        with Raw(server.port) as client:
            client.send(begun)
            assert server.get("/health").status == 200
            server.terminate()
            eventually(lambda: "stopping" in server.log(), "the first signal is seen")
            time.sleep(0.5)
            server.terminate()
            server.wait()
            assert "second signal" in server.log() or server.process.returncode == 0
    finally:
        server.kill()


def test_other_signals_do_nothing():
    with Server() as server:
        for other in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGPIPE):
            server.process.send_signal(other)
            assert server.get("/health").status == 200


def test_log_lines_for_which_there_is_no_room_are_counted(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        server = Address(reserved.getsockname()[1])
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen([PREFOLD, "--hostname", "127.0.0.1", "--port", str(server.port)], stdout=full, cwd=tmp_path,
                                   env=environment(tmp_path))
    try:
        server.wait_until_ready(process, str)
        before = server.metric("prefold_log_lines_dropped_total")
        assert server.get("/no/such").status == 404
        assert before > 0 and server.metric("prefold_log_lines_dropped_total") > before
    finally:
        process.kill()


def test_a_log_that_nobody_reads_holds_up_nothing(tmp_path):
    """The log is a pipe that is read up to the line `ready` and never again, or only much later."""
    process = subprocess.Popen([PREFOLD, "--hostname", "127.0.0.1", "--port", "0", "--json-output"], stdout=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, cwd=tmp_path, env=environment(tmp_path))
    try:
        port = next(int(found.group(1)) for line in process.stdout if (found := ADDRESS.search(line.decode())))
        server, count = Address(port), 8000
        with Raw(port) as client:
            for start in range(0, count, 100):
                client.send(head("GET", "/no/such/" + "a" * 300, ("host", "a")) * 100)
                assert {client.answer().status for _ in range(100)} == {404}, start
        dropped = server.metric("prefold_log_lines_dropped_total")
        assert 0 < dropped < count
        reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
        lines = []
        reader.start()
        eventually(lambda: any(b"were dropped" in line for line in lines), "the log tells it")
        server.get("/after")
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_LIMIT) == 0
        reader.join(STOP_LIMIT)
        logged = [json.loads(line) for line in lines]
        assert sum(line.get("path", "").startswith("/no/such/") for line in logged) == count - dropped
        assert [line.get("path") for line in logged].count("/after") == 1
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_log_that_nobody_reads_does_not_hold_up_the_end(tmp_path):
    process = subprocess.Popen([PREFOLD, "--hostname", "127.0.0.1", "--port", "0"], stdout=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, cwd=tmp_path, env=environment(tmp_path))
    try:
        port = next(int(found.group(1)) for line in process.stdout if (found := ADDRESS.search(line.decode())))
        with Raw(port) as client:
            client.send(head("GET", "/no/such/" + "a" * 300, ("host", "a")) * 1000)
            assert {client.answer().status for _ in range(1000)} == {404}
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_LIMIT) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
