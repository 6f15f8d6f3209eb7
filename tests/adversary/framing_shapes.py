"""Shapes of bodies and answers: wrong lengths, missing bodies, unread answers, connections that end."""

import shapes
from raw import head
from steps import Drip, HalfClose, Pause, Read, Send

MIB = 1 << 20
# Allowed reactions to an incomplete body: wait, refuse it, or answer without it on routes that take none.
BEGUN = {"most": 1}
PADDING = b"x" * 2_000_000


def chunks(body, size):
    """A body in chunks of `size` bytes, without the last one."""
    parts = [body[i:i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


def chunked(draft):
    return draft.head(("transfer-encoding", "chunked"))


@shapes.shape
def declared_length_without_body(draft):
    return draft.held(draft.head(("content-length", MIB)), **BEGUN)


@shapes.shape
def declared_length_beyond_all_limits(draft):
    length = draft.chance.choice([10**8, 10**12, 2**63, 2**64 - 1, 10**25])
    return draft.asked(draft.head(("content-length", length)) + b"{", seconds=0.8, **BEGUN)


@shapes.shape
def lengths_that_contradict(draft):
    body = draft.body()
    lengths = draft.chance.choice([("14", "15"), ("+14",), ("-1",), ("14, 15",), ("0x0e",), ("",), ("many",)])
    sent = draft.head(*(("content-length", length) for length in lengths)) + body
    return draft.asked(sent, seconds=2, allowed=draft.refusals(400))


@shapes.posts
def slow_body(draft):
    body = draft.body()
    begun = draft.head(("content-length", len(body)))
    return draft.play(Send(begun), Drip(body, len(body) // 12 + 1), Read(8), load=draft.load(begun + body, len(body)), least=1)


@shapes.posts
def body_that_never_ends(draft):
    """Single bytes with pauses: the time for the whole body is limited."""
    if not draft.is_let_in:
        return None
    begun = draft.head(("content-length", 5000))
    return draft.play(Send(begun), Drip(b'{"inputs":"' + b"a" * 30, 1, 0.1), Read(8), load=draft.load(begun, 50, is_whole=False),
                      allowed=frozenset({408, 429}), least=1)


@shapes.posts
def withheld_last_chunk(draft):
    return draft.held(chunked(draft) + chunks(draft.body(), 50), **BEGUN)


@shapes.posts
def withheld_last_byte(draft):
    return draft.held(draft.request()[:-1], **BEGUN)


@shapes.posts
def chunks_of_one_byte(draft):
    body = draft.body()
    return draft.asked(chunked(draft) + chunks(body, 1) + b"0\r\n\r\n", load=draft.load(body * 6, len(body)), least=1)


@shapes.shape
def chunks_of_nonsense(draft):
    made = draft.chance.choice([
        b"zz\r\nabc\r\n0\r\n\r\n", b"-1\r\nabc\r\n0\r\n\r\n", b"f" * 17 + b"\r\nabc", b"1" * 50_000 + b"\r\n", b"\r\nabc\r\n0\r\n\r\n",
        b'3\r\n{"inputs":"a"}\r\n0\r\n\r\n', b"e;x=" + b"a" * 50_000 + b'\r\n{"inputs":"a"}\r\n0\r\n\r\n', b"2\r\n{}0\r\n\r\n",
        b"2\n{}\n0\n\n", b"2\r\n{}\r\n0\r\n" + b"x-a: b\r\n" * 5000 + b"\r\n",
    ])
    return draft.asked(chunked(draft) + made, seconds=0.8)


@shapes.shape
def half_close(draft):
    whole = draft.request()
    cut = draft.chance.choice([len(whole), draft.chance.randrange(len(whole))])
    return draft.play(Send(whole[:cut]), HalfClose(), Read(8), resets=False)


@shapes.shape
def half_close_before_a_long_answer(draft):
    """A complete request, the end of the client's half, and an answer that exceeds the buffers: it is complete or missing."""
    sent = draft.request(draft.body(24, 100))
    return draft.play(Send(sent), HalfClose(), Pause(0.3), Read(8), load=draft.load(sent, 3600, inputs=24), receive_buffer=4096, resets=False)


@shapes.shape
def abort_at_a_random_byte(draft):
    """Three clients per route that disconnect while sending, at once or after a while."""
    found = []
    for _ in range(3):
        whole = draft.request()
        cut = draft.chance.randrange(len(whole) + 1)
        found.append(draft.play(Send(whole[:cut]), Pause(draft.chance.choice([0, 0.01, 0.1])), resets=draft.chance.random() < 0.7))
    return found


@shapes.shape
def abort_in_the_answer(draft):
    return draft.play(Send(draft.request()), Read(2, size=1, enough=draft.chance.choice([1, 20, 400])), receive_buffer=4096)


@shapes.shape
def unread_answer(draft):
    return draft.play(Send(draft.request(draft.body(8, 100))), Pause(1.0), load=draft.load(body=1200, inputs=8), receive_buffer=4096)


@shapes.shape
def slowly_read_answer(draft):
    sent = draft.request(draft.body(8, 100))
    return draft.play(Send(sent), Read(1.5, size=512, pause=0.05), load=draft.load(sent, 1200, inputs=8), receive_buffer=4096)


@shapes.shape
def pipelined(draft):
    """Eight pipelined requests on one connection, of which the last closes it."""
    sent = b"".join(draft.request(close=i == 7) for i in range(8))
    return draft.asked(sent, load=draft.load(sent, len(sent), inputs=16), least=8, most=8)


@shapes.shape
def pipelined_and_left(draft):
    sent = b"".join(draft.request(close=False) for _ in range(8))
    return draft.play(Send(sent), Pause(0.05), load=draft.load(sent, len(sent), inputs=16))


@shapes.shape
def many_small(draft):
    return [draft.asked(draft.request(draft.body(1, 15)), least=1) for _ in range(4)]


@shapes.posts
def one_large(draft):
    """Two megabytes of unexpected data."""
    body = draft.body()
    body = body[:-1] + b',"ignored":"' + PADDING + b'"}'
    return draft.asked(draft.request(body), load=draft.load(body, len(body), tokens=200, tokenized=200))


@shapes.posts
def smuggled(draft):
    """One request by content-length, two by chunks: the second must never be answered."""
    second = head("GET", "/no/smuggled", ("host", "test"))
    both = [("content-length", len(second) + 5), ("transfer-encoding", "chunked")]
    draft.chance.shuffle(both)
    return draft.asked(draft.head(*both) + b"0\r\n\r\n" + second, seconds=2, allowed=draft.refusals(400), most=1)
