"""HTTP/2 as frames, for clients that keep or break its rules."""

import json
import struct

import hpack

from harness import Response
from raw import Malformed, Raw

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
NO_ERROR, PROTOCOL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 7, 8, 11
# Maximum bytes of a frame, and the window of each stream and of the connection, unless settings change them.
FRAME, WINDOW = 1 << 14, (1 << 16) - 1


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def opened(window=WINDOW):
    """The beginning of a connection whose client takes this many bytes of each answer."""
    return PREFACE + frame(SETTINGS, payload=struct.pack(">HI", 4, window))


def block(fields):
    """Header fields without compression."""
    return b"".join(b"\x00" + text(name) + text(value) for name, value in fields)


def text(value):
    data, size = value.encode("latin-1"), b""
    left = len(data)
    if left < 127:
        return bytes([left]) + data
    size, left = b"\x7f", left - 127
    while left >= 128:
        size, left = size + bytes([left % 128 + 128]), left // 128
    return size + bytes([left]) + data


def named(method, path, *fields):
    """The fields of a request's head."""
    return [(":method", method), (":scheme", "http"), (":path", path), (":authority", "test"), *fields]


def head(stream, method, path, *fields, is_last=False):
    """A request's head, in as many frames as it needs."""
    data = block(named(method, path, *fields))
    parts = [data[i:i + FRAME] for i in range(0, len(data), FRAME)]
    kinds = [HEADERS] + [CONTINUATION] * (len(parts) - 1)
    flags = [END_STREAM * is_last] + [0] * (len(parts) - 1)
    flags[-1] |= END_HEADERS
    return b"".join(frame(kind, flag, stream, part) for kind, flag, part in zip(kinds, flags, parts))


def body(stream, data, is_last=True):
    parts = [data[i:i + FRAME] for i in range(0, len(data), FRAME)] or [b""]
    return b"".join(frame(DATA, END_STREAM * (is_last and i == len(parts) - 1), stream, part) for i, part in enumerate(parts))


def get(stream, path, *fields):
    return head(stream, "GET", path, *fields, is_last=True)


def post(stream, path, request, *fields):
    """A whole request. `request` is bytes or a JSON value."""
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    return head(stream, "POST", path, ("content-type", "application/json"), *fields) + body(stream, data)


class Received:
    """The frames and answers in received bytes."""

    def __init__(self):
        self.rest, self.decoder = bytearray(), hpack.Decoder()
        self.open, self.answers, self.resets, self.interim = {}, {}, {}, []
        self.goaway = None
        self.pings = 0

    def take(self, data):
        """Takes bytes, and returns the whole frames: (kind, flags, stream, payload)."""
        self.rest += data
        found = []
        while len(self.rest) >= 9 and len(self.rest) >= 9 + (size := int.from_bytes(self.rest[:3], "big")):
            kind, flags, stream = struct.unpack(">BBI", self.rest[3:9])
            found.append((kind, flags, stream, bytes(self.rest[9:9 + size])))
            del self.rest[:9 + size]
            self._take(*found[-1])
        return found

    def _take(self, kind, flags, stream, payload):
        if len(payload) > FRAME or kind > CONTINUATION or kind in (PUSH_PROMISE, CONTINUATION):
            raise Malformed(f"a frame of kind {kind} and {len(payload)} bytes")
        if kind == HEADERS:
            fields = dict(self.decoder.decode(payload))
            status = int(fields.pop(":status"))
            if status < 200:
                self.interim.append((stream, status))
                return
            if stream in self.open or stream in self.answers:
                raise Malformed(f"two heads for stream {stream}")
            self.open[stream] = Response(status, fields, b"")
        elif kind == DATA:
            if stream not in self.open:
                raise Malformed(f"data of stream {stream}, which has no answer")
            self.open[stream].body += payload
        elif kind == RST_STREAM:
            self.open.pop(stream, None)
            self.resets[stream] = int.from_bytes(payload, "big")
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")
        elif kind == PING and flags & ACK:
            self.pings += 1
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            self.answers[stream] = self.open.pop(stream)

    @property
    def is_whole(self):
        """True if no frame and no answer has only begun."""
        return not self.rest and not self.open


class Http2(Raw):
    """A connection by prior knowledge. It follows the rules of flow control, except that an answer gets no more than `window` bytes where
    that is given."""

    def __init__(self, port, window=None, receive_buffer=None):
        super().__init__(port, receive_buffer)
        self.heard, self.is_greedy = Received(), window is None
        self.send(opened(WINDOW if window is None else window))

    def frames(self):
        """The next frames; none at the end of the stream."""
        while self.more():
            found = self.heard.take(bytes(self.received))
            self.received.clear()
            for kind, flags, stream, payload in found:
                if kind in (SETTINGS, PING) and not flags & ACK:
                    self.send(frame(kind, ACK, 0, payload if kind == PING else b""))
                if kind == DATA and payload and self.is_greedy:
                    update = struct.pack(">I", len(payload))
                    self.send(frame(WINDOW_UPDATE, 0, 0, update) + frame(WINDOW_UPDATE, 0, stream, update) * (not flags & END_STREAM))
            if found:
                return found
        return []

    def until(self, condition):
        """Reads until `condition()` is true; returns False if the peer closes first."""
        while not condition():
            if not self.frames():
                return condition()
        return True

    def stream(self, number):
        """The answer to a stream, or the reason why it was reset."""
        assert self.until(lambda: number in self.heard.answers or number in self.heard.resets), f"no end of stream {number}"
        return self.heard.answers.get(number, self.heard.resets.get(number))

    def end(self):
        """Reads to the end, and returns the reason of the last GOAWAY."""
        while self.frames():
            pass
        return self.heard.goaway
