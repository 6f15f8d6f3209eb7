"""Clients that disconnect, stall, send wrong lengths or garbage: the server keeps none of their data, and other clients are unaffected."""

import json
import random
import time

import pytest

from harness import eventually
from raw import GOOD, HEAD, HEALTH, JSON_HEAD, LONG, Raw, chunked, head, post, unharmed

# Data sent when the client disconnects.
STAGES = {
    "after connecting": b"",
    "in the request line": LONG[:9],
    "in the head": HEAD[:-20],
    "after the head": HEAD,
    "in the body": LONG[:-100],
    "after the body": LONG,
    "after two requests": LONG + GOOD,
    "in the second request": GOOD + LONG[:-100],
}
LEAVING = {"closing": Raw.close, "resetting": Raw.reset}


@pytest.mark.parametrize("leave", LEAVING)
@pytest.mark.parametrize("stage", STAGES)
def test_clients_that_leave(builtin, stage, leave):
    with unharmed(builtin):
        for pause in (0, 0.02, 0.1):  # Before, during or after the server reads it; the test is valid in any case.
            for _ in range(5):
                client = Raw(builtin.port)
                client.send(STAGES[stage])
                time.sleep(pause)
                LEAVING[leave](client)


@pytest.mark.parametrize("leave", LEAVING)
def test_clients_that_leave_in_the_middle_of_the_answer(builtin, leave):
    request = post("/embed_all", {"inputs": ["a b c d e f g h " * 10] * 8})
    with unharmed(builtin):
        for size in (1, 100, 5000):
            client = Raw(builtin.port, receive_buffer=4096)
            client.send(request)
            assert client.socket.recv(size)
            LEAVING[leave](client)


@pytest.mark.parametrize("stage", STAGES)
def test_half_open_connections(builtin, stage):
    """A client that closes its sending half gets complete responses or none, then the end of the connection."""
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(STAGES[stage])
        client.finish_sending()
        for answer in client.answers():
            assert answer.status in (200, 400, 408), answer


def test_connections_that_are_forgotten_on_both_sides(builtin):
    """Many disconnects at once at all stages, with ordinary requests between them."""
    with unharmed(builtin):
        forgotten = []
        for stage in list(STAGES.values()) * 8:
            client = Raw(builtin.port)
            client.send(stage)
            forgotten.append(client)
        for _ in range(8):
            assert len(builtin.ask("/embed", inputs="a")) == 1
        for client in forgotten:
            client.close()


def random_bytes(seed, size):
    return random.Random(seed).randbytes(size)


CLIENT_HELLO = bytes.fromhex(
    "16030100c8010000c40303000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2000010203") + bytes(159)
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")

GARBAGE = {
    "random bytes": random_bytes(1, 1000),
    "many random bytes": random_bytes(2, 300_000),
    "zeros": bytes(10_000),
    "TLS": CLIENT_HELLO,
    "no method": b" /embed HTTP/1.1\r\n\r\n",
    "no version": b"GET /health\r\n\r\n",
    "another version": b"GET /health HTTP/9.9\r\nhost: a\r\n\r\n",
    "a header without a colon": b"GET /health HTTP/1.1\r\nhost a\r\n\r\n",
    "a header with a space before its colon": b"GET /health HTTP/1.1\r\nhost : a\r\n\r\n",
    "a header with a null byte": b"GET /health HTTP/1.1\r\nhost: a\0b\r\n\r\n",
    "a folded header": b"GET /health HTTP/1.1\r\nhost: a\r\nx-long: a\r\n b\r\n\r\n",
    "a control character in the path": b"GET /hea\x01lth HTTP/1.1\r\nhost: a\r\n\r\n",
    "a line of 300 kB": b"A" * 300_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_is_refused_and_the_connection_ended(builtin, what):
    """Refused with a 4xx or 505 if it resembles HTTP, otherwise without a response."""
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(GARBAGE[what])
        client.finish_sending()
        statuses = [answer.status for answer in client.answers()]
        assert len(statuses) <= 1 and all(400 <= status < 500 or status == 505 for status in statuses), statuses


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_after_a_good_request_does_not_spoil_its_answer(builtin, what):
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(GOOD + GARBAGE[what])
        client.finish_sending()
        first, *rest = client.answers()
        assert first.status == 200 and len(first.json()) == 1, first
        assert len(rest) <= 1 and all(400 <= answer.status < 600 for answer in rest), rest


def test_http2_by_prior_knowledge(builtin):
    """HTTP/2 is refused, or answered with HTTP/2 frames that begin with SETTINGS."""
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(HTTP2_PREFACE)
        client.finish_sending()
        while client.more():
            pass
        first = client.received
        assert not first or first.startswith(b"HTTP/1.1 4") or first[3] == 4, first


def test_bytes_of_all_kinds(builtin):
    """Requests with a few changed bytes get a response or the end of the connection."""
    chance = random.Random(7)
    with unharmed(builtin):
        for _ in range(300):
            request = bytearray(GOOD)
            for _ in range(chance.randint(1, 4)):
                request[chance.randrange(len(request))] = chance.randrange(256)
            with Raw(builtin.port) as client:
                client.send(bytes(request))
                client.finish_sending()
                for answer in client.answers():
                    assert answer.status < 500 or answer.status == 505, (bytes(request), answer)


def test_pipelined_requests_are_answered_in_order(builtin):
    requests = [post("/tokenize", {"inputs": "a " * (i + 1), "add_special_tokens": False}) for i in range(20)]
    want = [len(builtin.ask("/tokenize", inputs="a " * (i + 1), add_special_tokens=False)[0]) for i in range(20)]
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(b"".join(requests) + post("/embed", {"inputs": "a"}, ("connection", "close")))
        *tokens, last = client.answers()
        assert [len(answer.json()[0]) for answer in tokens] == want
        assert last.status == 200


# The limit is 16 KiB, plus the data of one more read.
LARGE_HEADS = {
    "a header of 200 kB": (head("GET", "/health", ("host", "a"), ("x-large", "a" * 200_000)), {431}),
    "200 kB of headers": (head("GET", "/health", ("host", "a"), *((f"x-{i}", "a" * 2500) for i in range(80))), {431}),
    "1,000 headers": (head("GET", "/health", ("host", "a"), *((f"x-{i}", "a") for i in range(1000))), {431}),
    "a URL of 200 kB": (head("GET", "/" + "a" * 200_000, ("host", "a")), {414, 431}),
    "a query of 200 kB": (head("GET", "/health?" + "a" * 200_000, ("host", "a")), {414, 431}),
    "a method of 200 kB": (head("G" * 200_000, "/health", ("host", "a")), {400, 414, 431}),
    "10 MB of headers": (head("GET", "/health", *((f"x-{i}", "a" * 100_000) for i in range(100))), {431}),
}


@pytest.mark.parametrize("what", LARGE_HEADS)
def test_large_heads_are_refused(builtin, what):
    request, allowed = LARGE_HEADS[what]
    with unharmed(builtin), Raw(builtin.port) as client:
        sent_whole = client.send(request)
        client.finish_sending()
        statuses = [answer.status for answer in client.answers()]
        # A client that keeps sending may lose the refusal to the connection's reset.
        assert statuses or not sent_whole or len(request) > 1_000_000
        assert statuses in [[], *([status] for status in allowed)], statuses


def test_heads_within_the_limit_are_taken(builtin):
    fields = [(f"x-{i}", "a" * 100) for i in range(80)]
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(head("GET", "/health", ("host", "a"), *fields, ("connection", "close")))
        assert [answer.status for answer in client.answers()] == [200]
        long_path = builtin.get("/" + "a" * 8000)
        assert long_path.status == 404 and "no route" in long_path.json()["error"]


def test_a_request_has_one_host(builtin):
    body = b'{"inputs":"a"}'
    fields = [("content-type", "application/json"), ("content-length", len(body)), ("connection", "close")]
    for hosts, version, status in [(0, "HTTP/1.1", 400), (1, "HTTP/1.1", 200), (2, "HTTP/1.1", 400), (0, "HTTP/1.0", 200)]:
        with unharmed(builtin), Raw(builtin.port) as client:
            client.send(head("POST", "/embed", *[("host", "a")] * hosts, *fields, version=version) + body)
            (answer,) = client.answers()
            assert answer.status == status and (status == 200 or "Host" in answer.json()["error"]), (hosts, version)


def test_codings_that_are_not_known(builtin):
    chunks = CHUNK + b"0\r\n\r\n"
    for fields, status in [([("transfer-encoding", "gzip, chunked")], 415), ([("transfer-encoding", "Chunked")], 200),
                           ([("transfer-encoding", "chunked"), ("content-encoding", "IDENTITY")], 200),
                           ([("transfer-encoding", "chunked"), ("content-encoding", "zstd"), ("content-encoding", "gzip")], 415),
                           ([("transfer-encoding", "chunked"), ("content-encoding", "identity, br")], 415)]:
        with unharmed(builtin), Raw(builtin.port) as client:
            client.send(head("POST", "/embed", *JSON_HEAD, *fields, ("connection", "close")) + chunks)
            assert [answer.status for answer in client.answers()] == [status], fields


def test_a_client_that_closes_its_half_is_answered(builtin):
    """The end of the stream arrives with the request, while the answer is computed."""
    for request in (GOOD, LONG, GOOD + LONG, HEALTH, chunked(CHUNK, b"0\r\n\r\n")):
        with unharmed(builtin), Raw(builtin.port) as client:
            client.send(request)
            client.finish_sending()
            statuses = [answer.status for answer in client.answers()]
            assert statuses == [200] * (2 if request == GOOD + LONG else 1), request[:40]


@pytest.mark.parametrize("more", [b"", b"GET", GOOD], ids=["nothing", "a part of a request", "a request"])
def test_work_for_a_client_that_left_is_dropped(servers, more):
    """For any data that the client sends after its request. The work takes much longer than the 6 s after which the client counts as gone."""
    server = servers("--max-batch-tokens", "2048")
    texts = [f"{i} " + " ".join(f"w{i}x{j}" for j in range(300)) for i in range(600)]
    dropped = lambda: server.metric("prefold_http_requests_total", route="/embed", status="dropped")  # noqa: E731
    before = dropped()
    with unharmed(server), Raw(server.port) as client:
        client.send(post("/embed", {"inputs": texts}) + more)
        eventually(lambda: server.metric("te_queue_size") > 0, "the request waits")
        client.close()
        eventually(lambda: dropped() > before, "the server has noticed")


CHUNK = b'e\r\n{"inputs":"a"}\r\n'

BAD_CHUNKS = {
    "a size that is not a number": chunked(b"zz\r\nabc\r\n0\r\n\r\n"),
    "a negative size": chunked(b"-1\r\nabc\r\n0\r\n\r\n"),
    "a size of 17 digits": chunked(b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
    "a size of 100,000 digits": chunked(b"1" * 100_000 + b"\r\nabc\r\n0\r\n\r\n"),
    "the largest size": chunked(b"ffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
    "no size": chunked(b"\r\nabc\r\n0\r\n\r\n"),
    "more bytes than the size says": chunked(b'3\r\n{"inputs":"a"}\r\n0\r\n\r\n'),
    "fewer bytes than the size says": chunked(b'ff\r\n{"inputs":"a"}\r\n0\r\n\r\n'),
    "no last chunk": chunked(CHUNK),
    "no end of line after a chunk": chunked(b'e\r\n{"inputs":"a"}0\r\n\r\n'),
    "an extension of 100 kB": chunked(b"e;x=" + b"a" * 100_000 + b'\r\n{"inputs":"a"}\r\n0\r\n\r\n'),
    "trailers of 1 MB": chunked(CHUNK, b"0\r\n", b"x-a: b\r\n" * 125_000, b"\r\n"),
}


@pytest.mark.parametrize("what", BAD_CHUNKS)
def test_bad_chunks(builtin, what):
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(BAD_CHUNKS[what])
        client.finish_sending()
        statuses = [answer.status for answer in client.answers()]
        assert len(statuses) <= 1 and set(statuses) <= {400, 431}, statuses


def test_good_chunks(builtin):
    for request in (chunked(CHUNK, b"0\r\n\r\n"), chunked(b'e;a=b\r\n{"inputs":"a"}\r\n', b"0\r\n\r\n"),
                    chunked(*(b"1\r\n%c\r\n" % byte for byte in b'{"inputs":"a"}'), b"0\r\n\r\n"),
                    chunked(CHUNK, b"0\r\nx-trailer: a\r\n\r\n")):
        with Raw(builtin.port) as client:
            client.send(request + HEALTH)
            assert [client.answer().status, client.answer().status] == [200, 200]


def with_lengths(*lengths, body=b'{"inputs":"a"}'):
    return head("POST", "/embed", *JSON_HEAD, *(("content-length", length) for length in lengths)) + body


# Requests with their allowed responses. The next request on the connection must be unaffected.
LENGTHS = {
    "negative": (with_lengths("-14"), {400}),
    "a sign": (with_lengths("+14"), {400}),
    "no number": (with_lengths("many"), {400}),
    "empty": (with_lengths(""), {400}),
    "a fraction": (with_lengths("14.0"), {400}),
    "hexadecimal": (with_lengths("0xe"), {400}),
    "beyond 64 bits": (with_lengths("99999999999999999999"), {400, 413}),
    "the largest": (with_lengths("18446744073709551615"), {400, 413, 431}),
    "an exabyte": (with_lengths("1000000000000000000"), {413}),
    "two that differ": (with_lengths("14", "5"), {400}),
    "two that differ, the other way": (with_lengths("5", "14"), {400}),
    "a list of two": (with_lengths("14, 5"), {400}),
    "short": (with_lengths("5"), {400}),
    "zero": (with_lengths("0"), {400}),
    "long": (with_lengths("1000"), {400}),
    "long by far": (with_lengths("30000000"), {400}),
}


@pytest.mark.parametrize("what", LENGTHS)
def test_lies_about_the_length(builtin, what):
    request, allowed = LENGTHS[what]
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(request)
        client.finish_sending()
        statuses = [answer.status for answer in client.answers()]
        # The rest of a body whose length was too small is parsed as the next request, which is invalid.
        assert set(statuses) <= allowed and len(statuses) <= 2, statuses


SMUGGLED = head("GET", "/smuggled", ("host", "test"))

# One request by the first header and two by the other. `/smuggled` must never get a response.
SMUGGLING = {
    "the length first": [("content-length", len(SMUGGLED) + 5), ("transfer-encoding", "chunked")],
    "the encoding first": [("transfer-encoding", "chunked"), ("content-length", len(SMUGGLED) + 5)],
    "in capitals": [("Content-Length", len(SMUGGLED) + 5), ("TRANSFER-ENCODING", "CHUNKED")],
    "two encodings": [("content-length", len(SMUGGLED) + 5), ("transfer-encoding", "identity"),
                      ("transfer-encoding", "chunked")],
    "a list of encodings": [("content-length", len(SMUGGLED) + 5), ("transfer-encoding", "gzip, chunked")],
    "an unknown encoding": [("content-length", len(SMUGGLED) + 5), ("transfer-encoding", "xchunked")],
    "chunked and then another": [("content-length", len(SMUGGLED) + 5), ("transfer-encoding", "chunked, identity")],
    "a tab before the value": [("content-length", len(SMUGGLED) + 5), ("transfer-encoding", "\tchunked")],
    "a space before the colon": [("content-length", len(SMUGGLED) + 5), ("transfer-encoding ", "chunked")],
    "a vertical tab": [("content-length", len(SMUGGLED) + 5), ("transfer-encoding", "\x0bchunked")],
    "quotes": [("content-length", len(SMUGGLED) + 5), ("transfer-encoding", '"chunked"')],
}


@pytest.mark.parametrize("what", SMUGGLING)
def test_a_request_is_not_smuggled_in_another_ones_body(builtin, what):
    request = head("POST", "/embed", *JSON_HEAD, *SMUGGLING[what]) + b"0\r\n\r\n" + SMUGGLED
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(request)
        client.finish_sending()
        answers = client.answers()
    assert len(answers) <= 1 and all(answer.status in (400, 415) for answer in answers), answers
    assert "/smuggled" not in builtin.log()


def test_a_head_with_both_lengths_in_an_old_version(builtin):
    """HTTP/1.0 has no chunked encoding."""
    request = head("POST", "/embed", *JSON_HEAD, ("transfer-encoding", "chunked"), version="HTTP/1.0")
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(request + b"0\r\n\r\n" + SMUGGLED)
        client.finish_sending()
        assert [answer.status for answer in client.answers()] in ([], [400])


def test_expect_100_continue(builtin):
    body = json.dumps({"inputs": "a"}).encode()
    fields = [*JSON_HEAD, ("expect", "100-continue"), ("connection", "close")]
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(head("POST", "/embed", *fields, ("content-length", len(body))))
        assert client.answer(interim=True).status == 100
        client.send(body)
        assert [answer.status for answer in client.answers()] == [200]
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(head("POST", "/embed", *fields, ("content-length", 10**12)))
        assert client.answer(interim=True).status == 413, "refused before the body is sent"
