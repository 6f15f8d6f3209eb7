"""Limits of the attacked server, and the memory that docs/reliability.md lets connections take of it."""

from dataclasses import dataclass

MB = 1_000_000
KIB = 1 << 10

# docs/reliability.md, "Memory under large bodies": 15 to 22 kB for an idle connection, 21 to 22 kB for one within a request.
CONNECTION = 22_000
# "Limits": a request's head, including the URL, about 16 KiB. Unread data of a connection is in a buffer of that size.
HEAD = 16 * KIB
# "Limits": longer answers are written in pieces of 64 KiB: one being written and two prepared ahead.
PIECES = 3 * 64 * KIB
# "Memory for parsed values": body and values together stay below six times the body's size.
PARSED = 6
# "Memory under large bodies": 406 MB for 40 inputs of 1,000 tokens, whose vectors count 72 MB: the rest is computed, copied and
# kept by the allocator.
ANSWERED = 6
# "The bytes of a request": the reserved size of a body counts; while it grows, the old and the new memory exist together.
RESERVED = 2
# A body grows by doubling, and only its newest memory counts. The older ones take as much together, until they have been copied and the
# allocator has returned them to the system, which takes it longer on a busy machine.
GROWING = 1
# "Limits": values in a response, of four bytes each. Larger responses are refused.
RESPONSE = 4 * 67_108_864
# "Memory for parsed values": 1 MB of text added up to 252 MB.
TOKENIZED = 252
# "Limits": a /tokenize request has at most 1,048,576 bytes, all together at most 4,194,304 plus one request.
TOKENIZE_ONE, TOKENIZE_ALL = 1 << 20, 4 << 20
# "Limits": a text without a place to split it has at most 1 MiB.
UNCUT = 1 << 20
# Memory kept by the allocator, as in tests/e2e/test_overload.py.
ALLOCATOR = 32 * MB
# Address space: the allocator reserves 1 GiB at a time, a thread's stack at most 8 MiB. It costs nothing until used.
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
    vector: float = 1  # Size of the answer to one input, in vectors of the built-in model.

    def flags(self):
        return ["--max-buffered-bytes", self.buffered, "--payload-limit", self.payload, "--client-timeout", self.client_timeout,
                "--max-connections", self.connections, "--max-concurrent-requests", self.requests,
                "--max-queued-tokens", self.queued_tokens, "--max-batch-tokens", self.batch_tokens,
                "--tokenization-workers", self.workers, "--shutdown-timeout", self.shutdown_timeout]

    def terms(self, load):
        """Bytes by term. Bodies and answers exceed --max-buffered-bytes by at most one request; incomplete heads do not count, but each
        has a limit."""
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
