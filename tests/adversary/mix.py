"""Random combinations of key, route, content, framing, speed, truncation, end, reading and concurrency."""

import json
import random

import framing_shapes  # noqa: F401  Registers its shapes.
import coding_shapes  # noqa: F401
import head_shapes  # noqa: F401
import product_shapes  # noqa: F401
import shapes
import text_shapes  # noqa: F401
from drafts import BAD, NONE, WRONG, Draft
from framing_shapes import PADDING, chunks
from plays import Attack
from steps import Drip, HalfClose, Pause, Read, Send

KEYS = (BAD, BAD, BAD, NONE, WRONG)


def small(draft):
    return draft.body(), 2


def many(draft):
    count = int(200 ** draft.chance.random())
    return draft.body(count, 20), count


def equal_ids(draft):
    """Equal inputs, which are computed once and answered individually."""
    count = draft.chance.randrange(1, 1000)
    fields = draft.value(1)
    field = "inputs" if "inputs" in fields else "input"
    return json.dumps({**fields, field: [[7]] * count}).encode(), count


def long_text(draft):
    return draft.body(1, int(20_000 ** draft.chance.random()) + 20), 1


def padded(draft):
    size = int(len(PADDING) ** draft.chance.random())
    return draft.body()[:-1] + b',"ignored":"' + PADDING[:size] + b'"}', 2


def damaged(draft):
    body = bytearray(draft.body())
    for _ in range(draft.chance.randrange(1, 5)):
        body[draft.chance.randrange(len(body))] = draft.chance.randrange(256)
    return bytes(body), 2


def wrong_field(draft):
    if not draft.route.wrong:
        return small(draft)
    return json.dumps({**draft.value(), draft.chance.choice(draft.route.wrong): draft.huge(draft.chance.randrange(300, 30_000))}).encode(), 2


CONTENTS = (small, small, many, equal_ids, long_text, padded, damaged, wrong_field)


def framed(draft, body):
    """The bytes of a request: with its length, with a wrong length, or in chunks."""
    kind = draft.chance.choice(("length", "length", "chunks", "more", "less"))
    if kind == "chunks":
        return draft.head(("transfer-encoding", "chunked")) + chunks(body, draft.chance.choice([1, 7, 1000, 70_000]) if len(body) < 5000
                                                                     else 70_000) + b"0\r\n\r\n"
    length = {"length": len(body), "more": len(body) + draft.chance.choice([1, 1000, 1 << 20]), "less": len(body) // 2}[kind]
    return draft.head(("content-length", length)) + body


def one(chance, routes):
    """One connection of random kind."""
    draft = Draft(chance, chance.choice(routes), chance.choice(KEYS))
    body, inputs = chance.choice(CONTENTS)(draft) if draft.route.body else (b"", 0)
    sent = framed(draft, body)
    cut = len(sent) if chance.random() < 0.6 else chance.randrange(len(sent) + 1)
    speed = chance.choice(("at once", "at once", "pieces"))
    steps = [Send(sent[:cut])] if speed == "at once" else [Drip(sent[:cut], max(1, cut // chance.randrange(2, 20)), chance.random() * 0.1)]
    if chance.random() < 0.2:
        steps.append(HalfClose())
    steps.append(chance.choice((Read(6), Read(6), Read(1, size=200, pause=0.05), Pause(chance.random() * 1.5))))
    tokens = min(len(body), inputs * 2048)
    load = draft.load(sent, len(body), inputs=inputs, tokens=tokens, encoded=len(body) if tokens < len(body) else 0)
    return draft.play(*steps, load=load, receive_buffer=chance.choice((None, None, 4096)), resets=chance.random() < 0.8)


def mixed(seed, number, routes):
    """The random attack of this number, determined by the seed and independent of earlier attacks."""
    chance = random.Random(f"{seed} {number}")
    most = chance.choice((1, 4, 16, 40, 100))
    if chance.random() < 0.3:
        name = chance.choice(sorted(shapes.SHAPES))
        made = []
        while len(made) < most:
            made += shapes.plays(name, Draft(chance, chance.choice(routes), chance.choice(KEYS))) or [one(chance, routes)]
    else:
        made = [one(chance, routes) for _ in range(most)]
    return Attack(f"random-{number}", tuple(made))


def together(seed, title, names, routes, keys=lambda number: (BAD,)):
    """An attack of these shapes on these routes; `keys` gives the keys for each route's number."""
    made = []
    for name in names:
        for number, route in enumerate(routes):
            for key in keys(number):
                chance = random.Random(f"{seed} {name} {route} {key}")
                made += shapes.plays(name, Draft(chance, route, key))
    return Attack(title, tuple(made))


def matrix(seed, routes):
    """Every shape except products on every route, with a key and without."""
    for name in sorted(shapes.SHAPES.keys() - shapes.PRODUCTS):
        yield together(seed, name, [name], routes, lambda number: (BAD, NONE if number % 2 else WRONG))
