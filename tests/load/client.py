"""A strict asyncio client: each request must get exactly one well-formed response."""

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))

LIMIT = 600


class BadAnswer(AssertionError):
    """The server violated the protocol or its own documentation."""


class NoAnswer(BadAnswer):
    """The connection ended without a byte of a response."""


@dataclass
class Answer:
    status: int
    fields: dict
    body: bytes
    seconds: float

    def json(self):
        return json.loads(self.body)


def request(method, path, content=None, fields=()):
    """Bytes of a request; `content` is bytes or a JSON value."""
    body = b"" if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
    lines = [f"{method} {path} HTTP/1.1", "host: test", f"content-length: {len(body)}",
             *(["content-type: application/json"] if body else []), *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Client:
    """Persistent connection, reopened if the server closes it between two requests."""

    def __init__(self, port):
        self.port = port
        self.reader = self.writer = None

    async def connect(self):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)

    async def ask(self, data):
        """Sends a request once and returns the response; a connection that ends without a response is an error."""
        begun = time.perf_counter()
        await self.connect()
        self.writer.write(data)
        async with asyncio.timeout(LIMIT):
            answer = await self._answer()
        answer.seconds = time.perf_counter() - begun
        if answer.fields.get("connection", "").lower() == "close":
            await self.close()
        return answer

    async def _answer(self):
        head = None
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            status_line, *lines = head.decode("latin-1").strip().split("\r\n")
            version, status, *_ = status_line.split(" ")
            fields = {}
            for line in lines:
                name, _, value = line.partition(":")
                fields[name.lower()] = value.strip()
            if version != "HTTP/1.1" or ("content-length" in fields) == ("transfer-encoding" in fields):
                raise BadAnswer(f"malformed: {head[:2000]!r}")
            if "content-length" in fields:
                body = await self.reader.readexactly(int(fields["content-length"]))
            else:
                body = await self._chunks()
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            is_begun = getattr(error, "partial", b"") or head is not None
            raise (BadAnswer if is_begun else NoAnswer)(f"no whole answer: {error!r}") from error
        return Answer(int(status), fields, body, 0.0)

    async def _chunks(self):
        """The body of a large response, which is chunked."""
        body = b""
        while size := int((await self.reader.readline()).removesuffix(b"\r\n"), 16):
            chunk = await self.reader.readexactly(size + 2)
            if not chunk.endswith(b"\r\n"):
                raise BadAnswer(f"no end of line after a chunk: {chunk[-20:]!r}")
            body += chunk[:-2]
        if (end := await self.reader.readline()) != b"\r\n":
            raise BadAnswer(f"after the last chunk: {end[:100]!r}")
        return body

    async def finish(self):
        """Closes the connection; no further bytes may arrive."""
        if self.writer is None:
            return
        answer = await self.ask(request("GET", "/health", fields=["connection: close"]))
        if answer.status != 200 or (self.reader is not None and await self.reader.read()):
            raise BadAnswer(f"{answer} and more after the last answer")
        await self.close()

    async def close(self):
        if self.writer is not None:
            surplus = await self.reader.read() if self.reader.at_eof() else b""
            self.writer.close()
            self.reader = self.writer = None
            if surplus:
                raise BadAnswer(f"after the answer: {surplus[:500]!r}")

    def abandon(self):
        """Disconnects at any point."""
        if self.writer is not None:
            self.writer.transport.abort()
        self.reader = self.writer = None


def check_error(answer):
    """Asserts that an error has a message and that a 429 or 503 has Retry-After."""
    body = answer.json()
    if not body.get("error"):
        raise BadAnswer(f"an error without a message: {answer}")
    if (answer.status in (429, 503)) != ("retry-after" in answer.fields):
        raise BadAnswer(f"Retry-After: {answer}")
