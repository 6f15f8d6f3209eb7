"""Drafts: requests of one attacker for one route, with canaries in its texts, and the plays made of them."""

import json
from dataclasses import dataclass, field, replace

import marks
from limits import HEAD
from plays import Load, Play
from raw import head
from routes import Route
from steps import Pause, Read, Send

# Keys of the attacked server; `NONE` and `WRONG` open nothing.
GOOD, BAD = "good-5c1f7d20", "bad-0e94ab31"
NONE, WRONG = None, "wrong-77777777"
# Bytes that the server counts for one vector: 384 values and an overhead (docs/reliability.md, "The bytes of a request").
VECTOR = 4 * 384 + 256
# Maximum seconds that an attacker reads.
PATIENCE = 8.0


@dataclass
class Draft:
    """Keys, texts and requests of one attacker."""

    chance: object
    route: Route
    key: str | None = BAD
    own: set = field(default_factory=set)

    @property
    def is_let_in(self):
        return self.route.is_open or self.key == BAD

    def refusals(self, *statuses):
        """Statuses of a request that must be refused; the missing key may be noticed first."""
        return frozenset(statuses) if self.is_let_in else frozenset({*statuses, 401})

    def mark(self, kind=marks.TEXT):
        """A new canary; answers and log lines tell whose text they hold."""
        made = marks.make(self.chance, kind)
        self.own.add(made)
        return made

    def text(self, size=60):
        """A text of about `size` bytes that begins with a canary."""
        words = ["fox", "lock", "tide", "prefix", "zebra", "quince", "naïve", "東京"]
        made = self.mark()
        while len(made) < size:
            made += " " + self.chance.choice(words)
        return made

    def huge(self, size, kind=marks.FIELD):
        """A text that repeats one canary, to count how much of it is repeated in answers."""
        made = self.mark(kind)
        return (made + ".") * (size // (len(made) + 1) + 1)

    def value(self, count=2, size=60):
        """A right body as a value."""
        return self.route.body([self.text(size) for _ in range(count)]) if self.route.body else {}

    def body(self, count=2, size=60):
        """A right body; empty for routes that take none."""
        return json.dumps(self.value(count, size)).encode() if self.route.body else b""

    def fields(self, *more, host="test", close=True):
        """Header fields: the host, the key, whether the connection ends with the answer, and others."""
        found = [("host", host)] if host is not None else []
        found += [("authorization", f"Bearer {self.key}")] if self.key is not None else []
        found += [("connection", "close")] if close else []
        return [*found, *more]

    def head(self, *more, path=None, method=None, version="HTTP/1.1", host="test", close=True):
        return head(method or self.route.method, path or self.route.path, *self.fields(*more, host=host, close=close), version=version)

    def request(self, body=None, *more, close=True, **options):
        """A complete request with content-length."""
        body = self.body() if body is None else body
        length = [("content-length", len(body))] if body or self.route.method == "POST" else []
        return self.head(*length, *more, close=close, **options) + body

    def load(self, sent=b"", body=0, inputs=2, tokens=None, is_whole=True, **more):
        """The load that a connection with these bytes may cause."""
        length = max(0, len(sent) - body)
        if not self.is_let_in:
            return Load(connections=1, heads=min(len(sent), HEAD), **more)
        works = is_whole and self.route.values > 0
        is_tokenized = is_whole and self.route.is_tokenizer
        found = Load(
            connections=1, heads=min(length + body, HEAD), bodies=body, parsed=body if is_whole else 0,
            values=inputs * self.route.values * VECTOR if works else 0, pieces=int(works or is_tokenized),
            requests=int(is_whole and self.route.body is not None), tokens=(body if tokens is None else tokens) if works else 0,
            tokenized=body if is_tokenized else 0)
        given = {name: value for name, value in more.items() if name != "tokenized" or is_tokenized}
        return replace(found, **given)

    def play(self, *steps, load=None, **options):
        """A play of these steps. Its load is derived from the bytes that it sends, unless given."""
        sent = b"".join(step.data for step in steps if hasattr(step, "data"))
        return Play(steps, load or self.load(sent, max(0, len(sent) - 400)), marks=frozenset(self.own), **options)

    def asked(self, sent, *, seconds=PATIENCE, **options):
        """A play that sends a request and reads the answer."""
        return self.play(Send(sent), Read(seconds), **options)

    def held(self, sent, seconds=0.6, **options):
        """A play that sends part of a request and stays connected without reading."""
        sent_body = max(0, len(sent) - sent.find(b"\r\n\r\n") - 4) if b"\r\n\r\n" in sent else 0
        return self.play(Send(sent), Pause(seconds), load=self.load(sent, sent_body, is_whole=False), **options)
