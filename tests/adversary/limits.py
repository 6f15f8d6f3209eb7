"""Limits of the attacked server, and the memory that docs/reliability.md lets connections take of it."""

from dataclasses import dataclass

MB = 1_000_000
KIB = 1 << 10

# docs/reliability.md, "Memory under large bodies": 15 to 22 kB for an idle connection, 21 to 22 kB for one within a request.
CONNECTION = 22_000
# "Limits": a request's head, including the URL, about 16 KiB. What a connection sent and nobody took lies in a buffer of that size.
HEAD = 16 * KIB
# "Limits": longer answers are written in pieces of 64 KiB: the two made ahead and the one that is written.
PIECES = 3 * 64 * KIB
# "Memory for parsed values": body and values together stay below six times the body's size.
PARSED = 6
# "Memory under large bodies": 406 MB for 40 inputs of 1,000 tokens, whose vectors count 72 MB: what is computed, copied and kept by
# the allocator on the way.
ANSWERED = 6
# "The bytes of a request": what a body reserves counts; while it grows, the old memory and the new are there together.
RESERVED = 2
# The old memory of a body that grows is there until it is copied into the new one, which is twice as large; only the new one counts.
GROWING = 0.5
# "Limits": values in a response, of four bytes each. What has more is refused.
RESPONSE = 4 * 67_108_864
# "Memory for parsed values": 1 MB of text added up to 252 MB.
TOKENIZED = 252
# "Limits": a /tokenize request has 1,048,576 bytes, all of them 4,194,304 and one request.
TOKENIZE_ONE, TOKENIZE_ALL = 1 << 20, 4 << 20
# "Limits": a text without a place to cut it has 1 MiB.
UNCUT = 1 << 20
# What the allocator keeps, as in tests/e2e/test_overload.py.
ALLOCATOR = 32 * MB
# Address space: the allocator reserves 1 GiB at a time, a thread's stack 8 MiB at most. It costs nothing until it is used.
ARENA = 1 << 30
STACK = 8 << 20


@dataclass(frozen=True)
class Limits:
    """Flags of the server."""

    buffered: int = 32 * MB
    payload: int = 8 * MB
    client_timeout: int = 3
    connections: int = 6000
    requests: int = 256
    queued_tokens: int = 16_384
    batch_tokens: int = 2048
    workers: int = 1
    shutdown_timeout: int = 20
    vector: float = 1  # What an answer to one input counts, in vectors of the built-in model.

    def flags(self):
        return ["--max-buffered-bytes", self.buffered, "--payload-limit", self.payload, "--client-timeout", self.client_timeout,
                "--max-connections", self.connections, "--max-concurrent-requests", self.requests,
                "--max-queued-tokens", self.queued_tokens, "--max-batch-tokens", self.batch_tokens,
                "--tokenization-workers", self.workers, "--shutdown-timeout", self.shutdown_timeout]

    def terms(self, load):
        """Bytes by term. Bodies and answers exceed --max-buffered-bytes by one request at most; heads that are not complete count nowhere,
        but each has a limit."""
        values = int(load.values * self.vector)
        one = max(self.payload, min(RESPONSE, values // max(1, load.requests)))
        counted = min(RESERVED * load.bodies + values, self.buffered + one)
        return {
            "connections": CONNECTION * load.connections,
            "heads": load.heads,
            "bodies, answers": counted,
            "bodies that grow": int(GROWING * min(load.bodies, self.buffered + self.payload)),
            "values of answers": (ANSWERED - 1) * min(values, self.buffered + one),
            "parsed values": (PARSED - 1) * min(load.parsed, self.buffered + self.payload),
            "pieces of answers": PIECES * load.pieces,
            "texts": TOKENIZED * (min(load.tokenized, TOKENIZE_ALL + TOKENIZE_ONE)
                                  + (self.workers + 1) * min(load.encoded, UNCUT)),
            "allocator": ALLOCATOR,
        }

    def bound(self, load):
        """Bytes of resident memory that the load may add."""
        return sum(self.terms(load).values())
