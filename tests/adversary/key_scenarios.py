"""Attacks by one key on what all keys share: places, bytes and time. The good client has another key and is never refused."""

import json
import random

from drafts import Draft
from plays import Attack
from routes import EMBED, EMBED_ALL, OPENAI, ROUTES, TOKENIZE
from steps import Drip, Pause, Read, Send

# Duration of each in seconds.
LASTS = 4.0


def held(draft, body, count, *steps, **load):
    """A connection that sends a body, and does what follows."""
    sent = draft.request(body)
    return draft.play(Send(sent), *steps, load=draft.load(sent, len(body), inputs=count, **load), receive_buffer=4096)


def slow_readers_of_a_key(seed, limits):
    """Two answers, each as large as the limit on held answers, read at the minimum allowed rate."""
    chance = random.Random(seed)
    count = 3 * limits.buffered // (4 * 1792)
    body = json.dumps({"input": [[7]] * count}).encode()
    rate = Read(LASTS, size=8192, pause=limits.client_timeout / 9)
    return Attack("slow_readers_of_a_key", tuple(held(Draft(chance, OPENAI), body, count, rate, tokens=count) for _ in range(2)),
        LASTS + 15)


def slow_readers_of_every_route(seed, limits):
    """Eight connections per route that request long answers and hardly read them."""
    chance, plays = random.Random(seed), []
    for route in ROUTES:
        for _ in range(8 if route.body else 2):
            draft = Draft(chance, route)
            body = draft.body(500, 30)
            plays.append(held(draft, body, 500, Read(LASTS, size=2048, pause=0.5), tokens=500 * 20, tokenized=len(body)))
    return Attack("slow_readers_of_every_route", tuple(plays), LASTS + 15)


def slow_senders_of_a_key(seed, limits):
    """Bodies that hold all bytes of the quota, sent bit by bit."""
    chance = random.Random(seed)
    size = limits.payload - 10_000

    def one(_):
        draft = Draft(chance, EMBED)
        begun = draft.head(("content-length", size)) + b'{"inputs":"' + b"x" * (size - 2000)
        return draft.play(Send(begun), Drip(b"x" * 40, 1, 0.05), Pause(0.5), load=draft.load(begun, size, is_whole=False))
    return Attack("slow_senders_of_a_key", tuple(one(number) for number in range(limits.buffered // size + 3)), LASTS + 15)


def places_of_a_key(seed, limits):
    """Twice as many requests as places, with long texts, on every route."""
    chance = random.Random(seed)
    routes = [route for route in ROUTES if route.body]

    def one(number):
        draft = Draft(chance, routes[number % len(routes)])
        return draft.asked(draft.request(draft.body(4, 1500)), seconds=LASTS)
    return Attack("places_of_a_key", tuple(one(number) for number in range(2 * limits.requests)), LASTS + 10)


def tokens_of_a_key(seed, limits):
    """Requests that fill the queue with inputs and tokens, each with the maximum of a request."""
    chance = random.Random(seed)

    def one(number):
        draft = Draft(chance, EMBED_ALL if number % 2 else EMBED)
        body = json.dumps({"inputs": [[7 + (number + place) % 90] * 500 for place in range(60)]}).encode()
        return draft.asked(draft.request(body), seconds=LASTS, load=draft.load(body, len(body),
            inputs=60 * (500 if number % 2 else 1) // 64, tokens=30_000))
    return Attack("tokens_of_a_key", tuple(one(number) for number in range(24)), LASTS + 15)


def tokenizations_of_a_key(seed, limits):
    """Twelve connections that tokenize repeatedly, together as much as the shared limit allows, and twelve with long texts to embed."""
    chance = random.Random(seed)

    def one(number):
        draft = Draft(chance, TOKENIZE if number % 2 else OPENAI)
        body = draft.body(4, 90_000)
        sent = b"".join(draft.request(body, close=False) for _ in range(4))
        load = draft.load(sent, len(sent), inputs=4, tokens=8192, tokenized=4 * len(body), encoded=90_000)
        return draft.play(Send(sent), Read(LASTS, size=1 << 18), load=load)
    return Attack("tokenizations_of_a_key", tuple(one(number) for number in range(24)), LASTS + 15)


ALL = (slow_readers_of_a_key, slow_readers_of_every_route, slow_senders_of_a_key, places_of_a_key, tokens_of_a_key, tokenizations_of_a_key)


def all_together(seed, limits):
    """Slow readers, slow senders and twice as many requests as places, at once."""
    attacks = [make(seed, limits) for make in (slow_readers_of_a_key, slow_senders_of_a_key, places_of_a_key)]
    return Attack("all_together", sum((attack.plays for attack in attacks), ()), LASTS + 15)
