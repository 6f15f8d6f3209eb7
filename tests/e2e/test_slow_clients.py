"""Clients that send or read slowly, or keep connections open: the server disconnects or outwaits them, and serves the others."""

import json
import re
import resource
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import ROOT, eventually
from raw import GOOD, HEAD, HEALTH, JSON_HEAD, LONG, Malformed, Raw, Vitals, chunked, head, post, settled, unharmed


def drip(client, data, give_up=100):
    """Sends bytes slowly, until all are sent or the peer has closed; returns True if it has closed."""
    deadline = time.monotonic() + give_up
    for byte in data:
        if time.monotonic() > deadline or not client.send(bytes([byte])):
            break
        time.sleep(0.1)
        if client.is_closed():
            return True
    return client.is_closed()


@pytest.fixture(scope="module")
def impatient(servers):
    return servers("--client-timeout", "1")


ENDLESS = b"a" * 2000


@pytest.mark.parametrize("begun", [
    head("GET", "/health", ("host", "a"))[:-2] + b"x-slow: ",
    b"GET /",
    head("POST", "/embed", *JSON_HEAD, ("content-length", 5000)) + b'{"inputs":"',
    chunked(b"fff\r\n"),
    chunked(b"1\r\na\r\n" * 3),
], ids=["head", "request line", "body", "chunk", "chunks"])
def test_slow_senders_are_disconnected(impatient, begun):
    """Each byte arrives in time, but the whole takes too long."""
    with unharmed(impatient), Raw(impatient.port) as client:
        client.send(begun)
        assert drip(client, ENDLESS)


def test_a_body_that_does_not_arrive_is_408(impatient):
    with unharmed(impatient):
        for begun in (HEAD, LONG[:-1], chunked(), chunked(b'e\r\n{"inputs":"a"}\r\n'), chunked(b"ff\r\n")):
            with Raw(impatient.port) as client:
                client.send(begun)
                (answer,) = client.answers()
                assert answer.status == 408 and "error" in answer.json(), answer


def test_a_slow_sender_does_not_hold_others_up(impatient):
    with unharmed(impatient), Raw(impatient.port) as slow:
        slow.send(HEAD)
        for _ in range(5):
            assert len(impatient.ask("/embed", inputs="a")) == 1
        assert [answer.status for answer in slow.answers()] == [408]


def test_idle_connections_are_closed(impatient):
    with unharmed(impatient), Raw(impatient.port) as new, Raw(impatient.port) as kept:
        kept.send(GOOD)
        assert kept.answer().status == 200
        assert new.answers() == [] and kept.answers() == []


def test_a_client_that_is_within_its_time_is_served(impatient):
    """The limit applies per request, not per connection."""
    with unharmed(impatient), Raw(impatient.port) as client:
        for _ in range(5):
            client.send(GOOD)
            assert client.answer().status == 200
            time.sleep(0.4)


def slow_readers(server):
    """The log's lines about them."""
    return [line for line in server.log().splitlines() if "did not read its answer in time" in line]


HUGE = {"inputs": ["a b c d e f g h " * 40] * 16}


def test_clients_that_do_not_read_are_disconnected(impatient, builtin):
    """Responses of disconnected clients are freed."""
    vitals = Vitals(impatient.process.pid)
    assert len(builtin.post("/embed_all", HUGE).body) > 15_000_000, "it fits the sockets' buffers, so this shows nothing"
    with unharmed(impatient):
        before, counted = settled(vitals.descriptors), impatient.metric("prefold_slow_readers_total")
        logged = len(slow_readers(impatient))
        clients = [Raw(impatient.port, receive_buffer=4096) for _ in range(8)]
        for client in clients:
            client.send(post("/embed_all", HUGE))
        for client in clients:
            assert client.socket.recv(1), "the answer has begun"
        eventually(lambda: vitals.descriptors() <= before, "the server has closed all of them", 100)
        assert impatient.metric("prefold_slow_readers_total") == counted + len(clients)
        lines = slow_readers(impatient)[logged:]
        assert len(lines) == len(clients)
        for line in lines:
            assert "/embed_all" in line and "--client-timeout 1 s" in line, line
            (unread, held), (identity,) = re.findall(r"_bytes\W+(\d+)", line), re.findall(r"\bid\W+(\w{16})", line)
            assert int(unread) > 0 and int(held) > 1_000_000, line
            assert impatient.log().count(identity) == 2, "the request's own line has the same id"
        for client in clients:
            with pytest.raises(Malformed):
                client.answers()
            client.close()


def test_a_slow_reader_gets_all_of_its_answer(impatient):
    """Reading the response takes longer than the limit, but the client never pauses that long: it reads 200 kB a second of the
    megabytes in the system's buffers. Its system announces free space to the server in steps of the receive buffer: 0.2 s at this
    size."""
    with unharmed(impatient), Raw(impatient.port, receive_buffer=1 << 14) as client:
        client.send(post("/embed_all", HUGE, ("connection", "close")))
        for part in range(50):
            while len(client.received) < part * 20_000:
                assert client.more()
            time.sleep(0.1)
        (answer,) = client.answers()
        assert len(answer.json()) == 16


def test_answers_that_nobody_takes_count_as_buffered(servers):
    """While unread responses fill the limit, new requests are refused; afterwards the next one is admitted."""
    server = servers("--max-buffered-bytes", 8_000_000, "--payload-limit", 1_000_000)
    with unharmed(server):
        counted = server.metric("prefold_refused_requests_total", quota="buffered_bytes")
        with Raw(server.port, receive_buffer=4096) as lazy:
            lazy.send(post("/embed_all", HUGE))
            assert lazy.socket.recv(1), "the answer has begun"
            eventually(lambda: server.metric("prefold_http_requests_in_flight") == 2, "it is being read, as are the metrics")
            held, limit = (server.metric(f"prefold_quota_{name}", quota="buffered_bytes") for name in ("held", "limit"))
            assert held > limit == 8_000_000
            refused = server.post("/embed", {"inputs": "a"})
            assert refused.status == 429 and "--max-buffered-bytes" in refused.json()["error"]
            assert server.metric("prefold_refused_requests_total", quota="buffered_bytes") == counted + 1
            assert server.metric("prefold_refused_requests_total") == server.metric("prefold_http_requests_total", status="429")
        eventually(lambda: server.post("/embed", {"inputs": "a"}).status == 200, "there is room again")


def test_connections_beyond_the_limit_wait(servers):
    limit = 4
    server = servers("--max-connections", limit)
    held = [Raw(server.port) for _ in range(limit)]
    for client in held:
        client.send(HEALTH)
        assert client.answer().status == 200
    waiting = Raw(server.port)
    waiting.send(HEALTH)
    waiting.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        waiting.answer()
    waiting.socket.settimeout(100)
    held.pop().close()
    assert waiting.answer().status == 200, "it takes the place of the one that left"
    for client in (waiting, *held):
        client.close()
    assert server.get("/health").status == 200


def raise_descriptor_limit(wanted):
    """True if this process may open that many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted <= hard or hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= wanted


def artefact(name, content):
    """Stores the measurements."""
    path = ROOT / "target" / "artefacts" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def test_10000_idle_connections(servers, record_property):
    count = 10_000
    if not raise_descriptor_limit(count + 1000):
        pytest.skip(f"{count} connections need {count + 1000} descriptors; the hard limit is "
                    f"{resource.getrlimit(resource.RLIMIT_NOFILE)[1]}")
    server = servers()
    vitals = Vitals(server.process.pid)
    with unharmed(server):
        before, descriptors = vitals.resident(), vitals.descriptors()
        clients = []
        for i in range(count):
            client = socket.create_connection(("127.0.0.1", server.port))
            # Per kind: silent from the start, within a head, kept alive after a response.
            if i % 3:
                client.sendall(HEALTH if i % 3 == 1 else HEALTH[:20])
            clients.append(client)
        eventually(lambda: vitals.descriptors() >= descriptors + count, f"{count} connections are accepted")
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: server.ask("/embed", inputs=f"text {i}"), range(64)))
        assert [len(answer) for answer in answers] == [1] * 64
        for client in clients[1::3]:
            client.settimeout(100)
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        bytes_each = (vitals.resident() - before) / count
        for client in clients:
            client.close()
    record_property("bytes_per_idle_connection", bytes_each)
    artefact("idle-connections.json", {"connections": count, "bytes_per_connection": round(bytes_each)})
    print(f"{bytes_each:.0f} bytes of the server's memory for each of {count} idle connections")
    assert bytes_each < 100_000


def test_many_short_connections(builtin):
    """No connection leaks descriptors or memory."""
    with unharmed(builtin):
        def many(_):
            for _ in range(100):
                with Raw(builtin.port) as client:
                    client.send(HEALTH)
                    assert client.answer().status == 200
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(many, range(8)))


ANSWERED_EARLY = {
    "a body that nobody reads": (head("GET", "/api-doc/openapi.json", ("host", "a"), ("transfer-encoding", "chunked")), b"0\r\n\r\n"),
    "a body that is too large": (head("POST", "/embed", *JSON_HEAD, ("content-length", 1 << 30)), b" " * 8_000_000),
    "a path that does not exist": (head("POST", "/nothing", *JSON_HEAD, ("content-length", 8_000_000)), b" " * 8_000_000),
    "a head that is too long": (b"GET /health HTTP/1.1\r\nx: ", b"a" * 1_000_000),
}


@pytest.mark.parametrize("early", ANSWERED_EARLY)
def test_an_answer_before_the_end_of_its_request_arrives_whole(servers, early):
    """A connection that is closed with unread bytes is reset, and a reset takes the answer from a client that has not read it yet."""
    begin, rest = ANSWERED_EARLY[early]
    server = servers()
    with unharmed(server), Raw(server.port, receive_buffer=4096) as client:
        client.send(begin)
        for start in range(0, len(rest), 100_000):
            client.send(rest[start:start + 100_000])
        client.socket.shutdown(socket.SHUT_WR)
        time.sleep(0.3)
        (answer,) = client.answers()
        assert answer.status == {"a body that nobody reads": 200, "a body that is too large": 413, "a path that does not exist": 404,
                                 "a head that is too long": 431}[early], answer
