"""Shapes of content codings: bodies that are compressed, mislabelled or damaged, and small ones that contain much."""

import gzip

import shapes
from limits import Limits

# RFC 8878: the magic number, no content size, and a window of 1 MiB.
FRAME = bytes.fromhex("28b52ffd0050")
MOST_OF_A_BLOCK = 1 << 17
EMPTY_BLOCK, LAST_EMPTY_BLOCK = bytes(3), (1).to_bytes(3, "little")


def zipped(content):
    """The same bytes at any time."""
    return gzip.compress(content, mtime=0)


def block(content):
    """A block of zstd that is not compressed."""
    return (len(content) << 3).to_bytes(3, "little") + content


def repeated(byte, count):
    """Blocks of zstd that repeat a byte: 4 bytes for each 128 KiB."""
    one = (MOST_OF_A_BLOCK << 3 | 2).to_bytes(3, "little") + byte
    return one * (count // MOST_OF_A_BLOCK + 1)


def zstd(*blocks):
    return FRAME + b"".join(blocks) + LAST_EMPTY_BLOCK


def coded(draft, coding, sent, contained, **options):
    """A request with this coding; `contained` bytes may be held for what it contains, and as many for the decoder's window."""
    load = draft.load(draft.request(sent), 2 * contained, is_whole=False)
    return draft.asked(draft.request(sent, ("content-encoding", coding)), seconds=4, load=load, **options)


@shapes.posts
def unknown_content_coding(draft):
    coding = draft.chance.choice(["br", "deflate, gzip", "gzip, gzip", "x-" + draft.huge(2000), "\xff"])
    return draft.asked(draft.request(None, ("content-encoding", coding)), seconds=3, allowed=draft.refusals(415), least=1)


@shapes.posts
def damaged_content_coding(draft):
    """A body that is not encoded, ends early, has changed bytes, or has more behind its end."""
    body = draft.body()
    coding, whole = draft.chance.choice([("gzip", zipped(body)), ("zstd", zstd(block(body)))])
    cut, at = draft.chance.randrange(len(whole)), draft.chance.randrange(4)
    changed = bytes([whole[at] ^ 0x55])
    sent = draft.chance.choice([body, whole[:cut], whole[:at] + changed + whole[at + 1:], whole + b"rest"])
    return coded(draft, coding, sent, len(body), allowed=draft.refusals(400, 413), least=1)


@shapes.posts
def encoded_body(draft):
    """The same as without a coding."""
    body = draft.body()
    coding, whole = draft.chance.choice([("gzip", zipped(body)), ("zstd", zstd(block(body))), ("zstd", zstd(*[EMPTY_BLOCK] * 9000, block(body)))])
    return draft.asked(draft.request(whole, ("content-encoding", coding)), load=draft.load(body, len(body)), least=1)


@shapes.product
def small_body_that_contains_much(draft):
    """Kilobytes that contain a gigabyte of spaces, of list items, or of nothing."""
    payload = Limits().payload
    items = zipped(b'{"inputs":[' + b"[]," * 300_000) + zipped(b"[]," * 300_000) * 300
    coding, sent = draft.chance.choice([
        ("zstd", zstd(block(b"{"), repeated(b" ", 1 << 30))),
        ("gzip", zipped(b" " * (1 << 20)) * 1000),
        ("gzip", items),
        ("zstd", zstd(*[EMPTY_BLOCK] * 2_000_000)),
        ("gzip", zipped(b"") * 200_000),
    ])
    return [coded(draft, coding, sent, payload, allowed=draft.refusals(400, 413, 429), least=0) for _ in range(3)]
