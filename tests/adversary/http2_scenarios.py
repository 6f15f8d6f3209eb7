"""Attacks by connections of HTTP/2: streams that stall, that are reset, and frames without end. A stream holds what a connection of HTTP/1.1
may hold; what the connection holds beside its streams is `CONNECTION`."""

import json
import random
import struct
from dataclasses import replace

import http2
from drafts import BAD, NONE, VECTOR, Draft
from http2 import CANCEL, CONTINUATION, DATA, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame
from limits import KIB
from plays import Attack, Load
from routes import EMBED, EMBED_ALL, HEALTH, OPENAI
from steps import Pause, Read, Send

# docs/reliability.md, "Limits": frames being read and written, a head's continuations, bytes of bodies that no handler has read.
CONNECTION = 250 * KIB
# Open streams of a connection.
STREAMS = 100
RESET = struct.pack(">I", CANCEL)


def key(draft):
    return [("authorization", f"Bearer {draft.key}")] if draft.key is not None else []


def begun(draft, stream):
    """The head of a request with a body."""
    return http2.head(stream, draft.route.method, draft.route.path, *key(draft))


def request(draft, stream, body=None):
    body = draft.body() if body is None else body
    return begun(draft, stream) + http2.body(stream, body)


def numbers(count):
    return range(1, 2 * count, 2)


def load_of(streams, one):
    """The load of a connection with so many open streams."""
    return sum([one] * streams, Load(heads=CONNECTION))


def streams_without_bodies(seed, limits):
    """40 connections with 100 requests each, of whose bodies 300 bytes come: they are refused in time, and other streams are served."""
    draft = Draft(random.Random(seed), EMBED)
    part = b'{"inputs":"' + b"a" * 300
    sent = http2.opened() + b"".join(begun(draft, n) + http2.body(n, part, is_last=False) for n in numbers(STREAMS))
    load = load_of(STREAMS, draft.load(sent[:400], len(part), is_whole=False))
    steps = Send(sent), Read(limits.client_timeout + 3)
    return Attack("streams_without_bodies", tuple(draft.play(*steps, load=load, is_http2=True) for _ in range(40)))


def streams_nobody_reads(seed, limits):
    """Ten connections with ten large answers each, of which they take no byte: the streams end, and their values count until then."""
    draft = Draft(random.Random(seed), EMBED_ALL)
    body = json.dumps({"inputs": [[7] * 400]}).encode()
    sent = http2.opened(window=0) + b"".join(request(draft, n, body) for n in numbers(10))
    load = load_of(10, replace(draft.load(sent[:200], len(body), inputs=1, tokens=400), values=400 * VECTOR))
    steps = Send(sent), Read(limits.client_timeout + 4)
    return Attack("streams_nobody_reads", tuple(draft.play(*steps, load=load, is_http2=True) for _ in range(10)))


def connections_nobody_reads(seed, limits):
    """Requests for small answers on 50 connections that read nothing: the server stops reading, then closes."""
    draft = Draft(random.Random(seed), HEALTH, NONE)
    sent = http2.opened() + b"".join(request(draft, n) for n in numbers(4000))
    load = load_of(STREAMS, draft.load(b"", is_whole=False))
    steps = Send(sent), Pause(limits.client_timeout + 3)
    return Attack("connections_nobody_reads", tuple(draft.play(*steps, load=load, is_http2=True, receive_buffer=4096) for _ in range(50)))


def streams_that_are_reset(seed, limits):
    """2,000 requests each of 20 clients, which reset every stream at once or after the next: the work ends with its stream."""
    chance = random.Random(seed)

    def one(number):
        draft = Draft(chance, chance.choice((EMBED, OPENAI)), BAD)
        body, late = draft.body(2, 200), 2 * (number % 3)
        sent = [http2.opened()]
        for stream in numbers(2000):
            sent.append(request(draft, stream, body))
            if stream > late:
                sent.append(frame(RST_STREAM, 0, stream - late, RESET))
        return draft.play(Send(b"".join(sent)), Read(4), load=load_of(2 * STREAMS, draft.load(body, len(body))), is_http2=True)
    return Attack("streams_that_are_reset", tuple(map(one, range(20))))


ENDLESS = {
    PING: frame(PING, 0, 0, bytes(8)),
    SETTINGS: frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1)),
    PRIORITY: frame(PRIORITY, 0, 1, bytes([0, 0, 0, 3, 9])),
    WINDOW_UPDATE: frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)),
    DATA: frame(DATA, 0, 1, b"x"),
    CONTINUATION: frame(CONTINUATION, 0, 3, http2.block([("x", "a" * 8000)])),
}


def frames_without_end(seed, limits):
    """Megabytes of one kind of frame beside a request whose body does not come, from clients that read and clients that do not."""
    draft = Draft(random.Random(seed), EMBED)

    def one(number):
        kind = list(ENDLESS)[number % len(ENDLESS)]
        start = frame(HEADERS, 0, 3, b"\x82") if kind == CONTINUATION else b""
        sent = http2.opened() + begun(draft, 1) + start + ENDLESS[kind] * (2_000_000 // len(ENDLESS[kind]))
        rest = Read(4) if number // len(ENDLESS) % 2 else Pause(4)
        return draft.play(Send(sent), rest, load=load_of(1, draft.load(b"", is_whole=False)), is_http2=True, receive_buffer=4096)
    return Attack("frames_without_end", tuple(map(one, range(4 * len(ENDLESS)))), 30)


FIRST = (streams_without_bodies, connections_nobody_reads, frames_without_end)
LAST = (streams_nobody_reads, streams_that_are_reset)
ALL = (*FIRST, *LAST)
