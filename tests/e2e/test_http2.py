"""HTTP/2, by prior knowledge and after ALPN: the same answers as over HTTP/1.1, and the same limits for each stream and for all of them."""

import asyncio
import json
import re
import ssl
import struct
import time

import httpx
import pytest

import http2
from harness import Server, comparable, eventually
from http2 import CANCEL, DATA, ENHANCE_YOUR_CALM, HEADERS, NO_ERROR, PING, PREFACE, REFUSED_STREAM, RST_STREAM, SETTINGS
from http2 import WINDOW_UPDATE, Http2, frame
from raw import Raw, Vitals, settled, unharmed
from test_slow_clients import HUGE, slow_readers
from test_tls import CERTIFICATES, HttpsServer, folder  # noqa: F401

MB = 1_000_000
TEXTS = [f"text {number}" for number in range(20)]
GOOD = {"inputs": "a"}


def test_a_client_gets_the_answers_of_http_1(builtin):
    bodies = {"/embed": {"inputs": TEXTS}, "/v1/embeddings": {"input": TEXTS, "model": "m"}, "/tokenize": {"inputs": TEXTS}}
    with unharmed(builtin), httpx.Client(http1=False, http2=True, base_url=builtin.url(), timeout=60) as client:
        for path, body in bodies.items():
            answer, plain = client.post(path, json=body), builtin.post(path, body)
            assert (answer.http_version, answer.status_code) == ("HTTP/2", plain.status)
            assert comparable(answer.content) == comparable(plain.body), path
            assert answer.headers["date"].endswith("GMT")
            assert answer.headers.get("content-length") == plain.headers.get("content-length"), path
        assert client.post("/embed", json=GOOD).headers["content-length"]
        large = client.post("/embed_all", json=HUGE)
        assert large.content == builtin.post("/embed_all", HUGE).body and len(large.content) > 15 * MB
        body = json.dumps({"inputs": "a", "ignored": "x" * 3 * MB}).encode()
        assert client.post("/embed", content=body).status_code == 200
        assert client.post("/embed", content=b"x" * 33 * MB).status_code == 413
        assert client.get("/no").status_code == 404 and client.put("/embed").status_code == 405
        assert f"http://127.0.0.1:{builtin.port}/docs" in client.get("/").text


def test_requests_of_a_connection_are_answered_together(builtin):
    async def ask():
        async with httpx.AsyncClient(http1=False, http2=True, base_url=builtin.url(), timeout=60) as client:
            return await asyncio.gather(*(client.post("/embed", json={"inputs": f"text {i}"}) for i in range(300)))
    with unharmed(builtin):
        answers = asyncio.run(ask())
        assert [answer.status_code for answer in answers] == [200] * 300
        assert answers[7].json() == builtin.ask("/embed", inputs="text 7")


def test_tls_negotiates_the_protocol(folder):  # noqa: F811
    trusted = ssl.create_default_context(cafile=CERTIFICATES / "first.cert.pem")
    with HttpsServer(folder) as https:
        for is_new, version in [(True, "HTTP/2"), (False, "HTTP/1.1")]:
            url = f"https://127.0.0.1:{https.port}"
            with httpx.Client(http2=is_new, verify=trusted, base_url=url, timeout=60) as client:
                answer = client.post("/embed", json={"inputs": TEXTS})
                assert (answer.http_version, answer.json()) == (version, https.ask("/embed", inputs=TEXTS))
                assert f"{url}/docs" in client.get("/").text


@pytest.fixture(scope="module")
def impatient(servers):
    return servers("--client-timeout", "1")


def test_a_body_that_does_not_arrive_is_408_and_holds_nobody_up(impatient):
    with unharmed(impatient), Http2(impatient.port) as client:
        client.send(http2.head(1, "POST", "/embed") + http2.body(1, b'{"inp', is_last=False))
        client.send(http2.post(3, "/embed", GOOD))
        assert client.stream(3).status == 200 and 1 not in client.heard.answers
        answer = client.stream(1)
        assert answer.status == 408 and "--client-timeout" in answer.json()["error"]
        assert client.until(lambda: 1 in client.heard.resets) and client.heard.resets[1] == NO_ERROR


def test_connections_without_a_request_are_closed(impatient):
    partial = frame(HEADERS, 0, 1, http2.block(http2.named("GET", "/health"))[:-3])
    with unharmed(impatient):
        for begun in (PREFACE[:5], PREFACE, PREFACE + frame(SETTINGS), PREFACE + frame(SETTINGS) + partial):
            with Raw(impatient.port) as client:
                client.send(begun)
                while client.more():
                    pass
        with Http2(impatient.port) as client:
            for number in range(1, 9, 2):
                client.send(http2.get(number, "/health"))
                assert client.stream(number).status == 200
                time.sleep(0.5)
            assert client.end() == NO_ERROR


def test_an_answer_that_is_not_taken_ends_its_stream_alone(impatient):
    """One answer is within a window of no bytes, one within the usual; the connection serves on, and its client is not disconnected."""
    with unharmed(impatient):
        counted, logged = impatient.metric("prefold_slow_readers_total"), len(slow_readers(impatient))
        with Http2(impatient.port, window=0) as client:
            client.send(http2.post(1, "/embed", GOOD) + http2.post(3, "/embed_all", HUGE))
            for number in (5, 7, 9):
                client.send(http2.get(number, "/health"))
                time.sleep(0.3)
            assert client.stream(1) == CANCEL and client.stream(3) == CANCEL
            client.send(http2.head(11, "HEAD", "/health", is_last=True))
            assert client.stream(11).status == 200
        # Bodies of /health are not taken either.
        eventually(lambda: impatient.metric("prefold_slow_readers_total") >= counted + 2, "they are counted")
        lines = slow_readers(impatient)[logged:]
        (line,) = [line for line in lines if "/embed_all" in line]
        (held,), (identity,) = re.findall(r"held_bytes\W+(\d+)", line), re.findall(r"\bid\W+(\w{16})", line)
        assert int(held) > MB and "--client-timeout 1 s" in line
        assert impatient.log().count(identity) == 2, "the request's own line has the same id"


def test_a_reader_of_single_bytes_loses_its_streams(impatient):
    """Each byte is taken in time, the whole answer is not."""
    with unharmed(impatient), Http2(impatient.port, window=0) as client:
        client.send(http2.post(1, "/embed", GOOD))
        begun = time.monotonic()
        while 1 not in client.heard.resets:
            assert time.monotonic() < begun + 10
            client.send(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)))
            client.frames()
            time.sleep(0.02)
        assert client.heard.resets[1] == CANCEL


def test_clients_that_do_not_read_are_disconnected(impatient):
    vitals = Vitals(impatient.process.pid)
    with unharmed(impatient):
        counted, before = impatient.metric("prefold_slow_readers_total"), settled(vitals.descriptors)
        clients = [Raw(impatient.port, receive_buffer=4096) for _ in range(4)]
        for client in clients:
            client.send(http2.opened((1 << 31) - 1) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", (1 << 31) - 1 - http2.WINDOW)))
            client.send(http2.post(1, "/embed_all", HUGE) + http2.post(3, "/embed_all", HUGE))
            assert client.socket.recv(1)
        eventually(lambda: impatient.metric("prefold_slow_readers_total") >= counted + len(clients), "they are counted", 100)
        eventually(lambda: vitals.descriptors() <= before, "the server has closed all of them", 100)
        for client in clients:
            client.close()


def test_answers_that_nobody_takes_count_as_buffered(servers):
    server = servers("--max-buffered-bytes", 8 * MB, "--payload-limit", MB)
    with unharmed(server):
        with Http2(server.port, window=0) as lazy:
            lazy.send(http2.post(1, "/embed_all", HUGE))
            assert lazy.until(lambda: 1 in lazy.heard.open), "the answer has begun"
            held, limit = (server.metric(f"prefold_quota_{name}", quota="buffered_bytes") for name in ("held", "limit"))
            assert held > limit == 8 * MB
            lazy.send(http2.post(3, "/embed", GOOD))
            refused = server.post("/embed", GOOD)
            assert refused.status == 429 and "--max-buffered-bytes" in refused.json()["error"]
        eventually(lambda: server.post("/embed", GOOD).status == 200, "there is room again")


def test_a_reset_stream_leaves_no_work(builtin):
    slow = {"inputs": [f"{number} " + "a text that takes a while " * 20 for number in range(64)]}
    with unharmed(builtin), Http2(builtin.port) as client:
        dropped = builtin.metric("prefold_http_requests_total", route="/embed", status="dropped")
        client.send(http2.post(1, "/embed", slow))
        eventually(lambda: builtin.metric("prefold_http_requests_in_flight") == 2, "it has begun")
        client.send(frame(RST_STREAM, 0, 1, struct.pack(">I", CANCEL)))
        eventually(lambda: builtin.metric("prefold_http_requests_in_flight") == 1, "it is dropped")
        assert builtin.metric("prefold_http_requests_total", route="/embed", status="dropped") == dropped + 1
        client.send(http2.post(3, "/embed", GOOD))
        assert client.stream(3).status == 200


def test_streams_count_among_connections(servers):
    """One place is the connection's and its first stream's, one is kept for the next connection."""
    limit = 6
    server = servers("--max-connections", limit)
    with Http2(server.port) as client:
        numbers = range(1, 16, 2)
        client.send(b"".join(http2.head(number, "POST", "/embed") for number in numbers))
        assert client.until(lambda: len(client.heard.resets) >= len(numbers) - (limit - 1))
        assert set(client.heard.resets.values()) == {REFUSED_STREAM}
        served = [number for number in numbers if number not in client.heard.resets]
        assert served
        client.send(b"".join(http2.body(number, b'{"inputs":"a"}') for number in served))
        assert [client.stream(number).status for number in served] == [200] * len(served)
    assert server.get("/health").status == 200


def flood(*frames, count=1, open_with=b""):
    """The bytes of a flood: requests or frames, `count` times, with numbers of streams that rise."""
    return open_with + b"".join(one(2 * number + 1) if callable(one) else one for number in range(count) for one in frames)


RESET = struct.pack(">I", CANCEL)
UNFINISHED = http2.head(1, "POST", "/embed")
FLOODS = {
    "resets": flood(lambda n: http2.get(n, "/health") + frame(RST_STREAM, 0, n, RESET), count=20_000),
    "resets of requests": flood(lambda n: http2.post(n, "/embed", GOOD) + frame(RST_STREAM, 0, n, RESET), count=10_000),
    "streams": flood(lambda n: http2.head(n, "POST", "/embed"), count=20_000),
    "refused streams": flood(lambda n: http2.get(n, "/no"), count=20_000),
    "pings": flood(frame(PING, 0, 0, bytes(8)), count=100_000),
    "answers to no ping": flood(frame(PING, 1, 0, bytes(8)), count=100_000),
    "settings": flood(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1)), count=100_000),
    "priorities": flood(frame(2, 0, 1, bytes([0, 0, 0, 3, 9])), count=100_000),
    "windows": flood(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)), count=100_000),
    "windows of a stream": flood(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)), count=100_000, open_with=UNFINISHED),
    "empty data": flood(frame(DATA, 0, 1), count=100_000, open_with=UNFINISHED),
    "small data": flood(frame(DATA, 0, 1, b"x"), count=60_000, open_with=UNFINISHED),
    "data of a closed stream": flood(frame(DATA, 0, 1, bytes(100)), count=100_000, open_with=http2.get(1, "/health")),
    "continuations": flood(frame(9, 0, 1, bytes(0)), count=100_000, open_with=frame(HEADERS, 0, 1, b"\x82")),
    "a long head": flood(frame(9, 0, 1, http2.block([("x", "a" * 16_000)])), count=500, open_with=frame(HEADERS, 0, 1, b"\x82")),
    "a long field": frame(HEADERS, 0, 1, b"\x00\x01x\x7f\xff\xff\xff\x7f") + flood(frame(9, 0, 1, bytes(16_000)), count=500),
    "unknown frames": flood(frame(200, 255, 1, bytes(1000)), count=5_000),
    "errors of streams": flood(lambda n: frame(WINDOW_UPDATE, 0, n, struct.pack(">I", 0)), count=20_000),
}


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "unread"])
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_takes_little_and_holds_nobody_up(impatient, name, is_read):
    """A flood is refused, or served as slowly as its client reads."""
    vitals = Vitals(impatient.process.pid)
    with unharmed(impatient):
        lines = impatient.log().count("\n")
        resident = vitals.resident()
        vitals.reset_peak()
        with Raw(impatient.port, receive_buffer=None if is_read else 4096) as client:
            client.socket.settimeout(0.01)
            left, deadline, heard = http2.opened() + FLOODS[name], time.monotonic() + 4, http2.Received()
            while left and time.monotonic() < deadline:
                try:
                    left = left[client.socket.send(left[:1 << 16]):]
                    if is_read:
                        heard.take(client.socket.recv(1 << 16))
                except TimeoutError:
                    assert len(impatient.ask("/embed", inputs="meanwhile")) == 1
                except OSError:
                    break
            assert len(impatient.ask("/embed", inputs="meanwhile")) == 1
        grown = vitals.peak() - resident
        assert grown < 24 * MB, f"{grown / MB:.1f} MB more"
        assert heard.goaway in (None, NO_ERROR, http2.PROTOCOL_ERROR, ENHANCE_YOUR_CALM, 2, 3, 5, 9), heard.goaway
        assert "WARN" not in "".join(impatient.log().splitlines(keepends=True)[lines:])


def test_a_stop_tells_clients_and_finishes_their_requests():
    with Server() as server, Http2(server.port) as client:
        slow = {"inputs": [f"{number} " + "a text that takes a while " * 20 for number in range(32)]}
        client.send(http2.post(1, "/embed", slow) + http2.post(3, "/embed", slow))
        eventually(lambda: server.metric("prefold_http_requests_in_flight") == 3, "both have begun")
        server.terminate()
        assert client.until(lambda: client.heard.goaway is not None) and client.heard.goaway == NO_ERROR
        assert [len(client.stream(number).json()) for number in (1, 3)] == [32, 32]
        assert client.end() == NO_ERROR
        server.check_end()


def test_a_stop_does_not_wait_for_clients_that_ignore_it():
    with Server("--shutdown-timeout", "60") as server, Raw(server.port) as client:
        client.send(PREFACE + frame(SETTINGS) + http2.get(1, "/health"))
        assert client.socket.recv(100)
        begun = time.monotonic()
        server.terminate()
        server.check_end()
        assert time.monotonic() - begun < 10
