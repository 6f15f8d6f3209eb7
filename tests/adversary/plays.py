"""Plays: the steps of one connection, the resources that they may hold, and the allowed answers."""

from dataclasses import dataclass, field, fields

# Allowed statuses of complete answers: success, and the statuses of docs/api.md and RFC 9110 for bad requests. 424, 500 and 503
# are failures.
REFUSED = frozenset({400, 401, 404, 405, 408, 411, 413, 414, 415, 417, 422, 429, 431, 501, 505})
USUAL = REFUSED | {200, 303, 307, 308}


@dataclass(frozen=True)
class Load:
    """Resources that connections may hold at once, derived from what they send: the terms of `limits.Limits.bound`."""

    connections: int = 0
    heads: int = 0  # Bytes of heads, or of unread data of a connection.
    bodies: int = 0  # Bytes of bodies that arrive with a valid key.
    parsed: int = 0  # Bytes of bodies that may become values.
    values: int = 0  # Bytes that the server counts for the values of answers.
    pieces: int = 0  # Connections that receive long answers.
    requests: int = 0  # Complete requests with a valid key.
    tokens: int = 0  # Maximum tokens that they queue.
    tokenized: int = 0  # Bytes of text, or ids, of /tokenize and /decode.
    encoded: int = 0  # The longest text that is encoded by other routes.

    def __add__(self, other):
        return Load(*(max(a, b) if f.name == "encoded" else a + b
                      for f, a, b in ((f, getattr(self, f.name), getattr(other, f.name)) for f in fields(Load))))


@dataclass(frozen=True)
class Play:
    """One connection."""

    steps: tuple
    load: Load
    marks: frozenset = frozenset()  # Canaries of its own texts.
    allowed: frozenset = USUAL  # Statuses.
    most: int | None = None  # Maximum answers, without 1xx.
    least: int = 0  # Minimum answers, if the connection stayed long enough.
    receive_buffer: int | None = None
    resets: bool = True
    cut_within: float | None = None  # Seconds after which the server must have closed it.
    most_bytes: int | None = None  # Maximum bytes of an answer before the server has closed the connection.
    is_http2: bool = False

    @property
    def is_slow(self):
        """True if it reads so slowly that the server may close it."""
        return any(getattr(step, "pause", 0) and not hasattr(step, "data") for step in self.steps)

    def __str__(self):
        end = "reset the connection" if self.resets else "close the connection"
        buffer = f"receive buffer of {self.receive_buffer}; " if self.receive_buffer else ""
        return f"{buffer}{'; '.join(map(str, self.steps))}; {end}"


@dataclass(frozen=True)
class Attack:
    """Plays that run at the same time."""

    name: str
    plays: tuple
    seconds: float = 15.0  # After this time unfinished plays are cancelled.
    load: Load = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "load", sum((one.load for one in self.plays), Load()))

    def steps(self, most=6):
        """Distinct plays as text, for a report."""
        seen = {}
        for one in self.plays:
            text = str(one)
            seen[text] = seen.get(text, 0) + 1
        lines = [f"    {count} x {text}" for text, count in list(seen.items())[:most]]
        return "\n".join([*lines, *([f"    and {len(seen) - most} more"] if len(seen) > most else [])])
