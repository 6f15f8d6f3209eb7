"""Shapes of heads: unfinished, slow, large, ambiguous, and of other protocols."""

import marks
import shapes
from plays import USUAL
from steps import Drip, Pause, Read, Send

CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)


@shapes.shape
def unfinished_head(draft):
    whole = draft.head(("x-more", "a" * 200))
    return draft.held(whole[:draft.chance.randrange(1, len(whole) - 1)], most=0)


@shapes.shape
def dripped_head(draft):
    """A head in pieces within the time for it."""
    whole = draft.request()
    end = whole.index(b"\r\n\r\n") + 4
    return draft.play(Drip(whole[:end], end // 10 + 1), Send(whole[end:]), Read(8), load=draft.load(whole, len(whole) - end), least=1)


@shapes.shape
def head_that_never_ends(draft):
    """A header field without an end, sent slowly: the time for the whole head is limited."""
    begun = draft.head()[:-2] + b"x-slow: "
    return draft.play(Send(begun), Drip(b"a" * 30, 1, 0.1), Read(6), allowed=frozenset({408, 431}), most=1, cut_within=9)


@shapes.shape
def large_head(draft):
    """Header fields of 8 to 200 kB in total, in one or many."""
    size, count = draft.chance.choice([(8_000, 1), (15_000, 30), (60_000, 1), (60_000, 90), (200_000, 1), (200_000, 80), (9_000, 900)])
    fields = [(f"x-{i}", "a" * (size // count)) for i in range(count)]
    return draft.asked(draft.request(None, *fields), seconds=3, most=1)


@shapes.shape
def no_host(draft):
    return draft.asked(draft.request(host=None), seconds=3, allowed=draft.refusals(400), least=1)


@shapes.shape
def two_hosts(draft):
    other = draft.chance.choice(["test", "other", ""])
    return draft.asked(draft.request(None, ("host", other)), seconds=3, allowed=draft.refusals(400), least=1)


@shapes.shape
def strange_host(draft):
    host = draft.chance.choice(["", "a b", "127.0.0.1:99999", "[::1", "a" * 5000, "evil.example/../", "\xff\xfe"])
    return draft.asked(draft.request(host=host), seconds=3)


@shapes.shape
def unknown_transfer_coding(draft):
    """Codings that the server cannot undo, even if chunked is the last of them."""
    coding = draft.chance.choice(["gzip, chunked", "deflate, chunked", "chunked, chunked", "xchunked", "identity", "chunked, identity"])
    sent = draft.head(("transfer-encoding", coding)) + b"2\r\n{}\r\n0\r\n\r\n"
    return draft.asked(sent, seconds=2, allowed=draft.refusals(400, 415, 501), most=1, least=1)


@shapes.posts
def expected_continue_and_no_body(draft):
    return draft.held(draft.head(("expect", "100-continue"), ("content-length", 1000)), most=1)


@shapes.shape
def other_methods(draft):
    method = draft.chance.choice(["HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "CONNECT", "PATCH", "get", "X" * 300])
    origin = ("origin", "http://evil.example"), ("access-control-request-headers", "x-" + "a" * 500)
    return draft.asked(draft.head(*origin, method=method), seconds=2, allowed=USUAL | {204}, most=1)


@shapes.shape
def other_protocols(draft):
    line = f"{draft.route.method} {draft.route.path}".encode()
    sent = draft.chance.choice([
        CLIENT_HELLO, line + b"\r\n\r\n", line + b" HTTP/9.9\r\nhost: a\r\n\r\n", line + b" HTTP/1.0\r\n\r\n", bytes(5000),
        b"\r\n" * 5000, b"\n\n\n\n", line + b" HTTP/1.1\nhost: a\n\n", line + b" HTTP/1.1\r\nhost : a\r\n\r\n",
        line + b" HTTP/1.1\r\nhost: a\r\nx: a\r\n b\r\n\r\n", line + b" HTTP/1.1\r\nhost: a\0b\r\n\r\n", draft.chance.randbytes(3000),
    ])
    return draft.asked(sent, seconds=1, resets=False)


@shapes.shape
def other_targets(draft):
    """Paths that name this route in another form, or try to put text into messages and the log."""
    path = draft.route.path
    target = draft.chance.choice([
        f"http://evil.example{path}", f"/{path}", f"{path}/", f"{path}?{'a=b&' * 500}", f"{path}%00", f"{path}/../..", "*", f"{path};a",
        "/" + draft.huge(5000, marks.PATH), "/v1/models/" + draft.huge(5000, marks.PATH),
        "/v1/models/" + draft.mark(marks.PATH) + "%0A2026-01-01T00:00:00.000000Z%20ERROR%20forged%0D%0A%1B%5B31m%E2%80%AE",
    ])
    return draft.asked(draft.request(path=target), seconds=3)


@shapes.shape
def keys_in_wrong_places(draft):
    """Two keys, a key under another scheme, a key in the URL."""
    right = draft.key or "x"
    extra, path = draft.chance.choice([
        ([("authorization", "Bearer wrong"), ("authorization", f"Bearer {right}")], None), ([("authorization", right)], None),
        ([("authorization", f"Basic {right}")], None), ([("x-key", right), ("cookie", f"key={right}")], None),
        ([("x-api-key", "wrong"), ("api-key", "wrong")], None),
        ([], f"{draft.route.path}?api_key={right}"), ([("authorization", "Bearer " + "a" * 8000)], None),
    ])
    without = type(draft)(draft.chance, draft.route, None, draft.own)
    sent = without.request(None, *extra, path=path)
    allowed = USUAL if draft.route.is_open else frozenset({401})
    return without.asked(sent, seconds=3, allowed=allowed, least=1)


@shapes.shape
def many_idle(draft):
    """Connections that send nothing, or nothing more after an answer."""
    silent = draft.play(Pause(0.6), most=0)
    return [silent, silent, draft.play(Send(draft.request(close=False)), Pause(0.6))]
