"""Attacks by many connections of one shape, each on one limit of docs/reliability.md."""

import json
import random
from dataclasses import replace

from drafts import BAD, NONE, VECTOR, Draft
from framing_shapes import chunks
from plays import Attack, Load
from routes import BUNDLE, EMBED, EMBED_ALL, HEALTH, OPENAI, TOKENIZE
from steps import Drip, Pause, Read, Send

MIB = 1 << 20


def many(name, count, make, seconds=20.0):
    """An attack of `count` connections, `make(number)` each."""
    return Attack(name, tuple(make(number) for number in range(count)), seconds)


def declared_lengths(seed, limits):
    """5,000 connections each declare 1 MiB and send two bytes: received bytes count, not declared ones."""
    draft = Draft(random.Random(seed), EMBED)
    begun = draft.head(("content-length", MIB)) + b'{"'
    load = draft.load(begun, 2, is_whole=False)
    return many("declared_lengths", min(5000, limits.connections - 500),
                lambda _: draft.play(Send(begun), Pause(2.5), load=load, most=1))


def unfinished_heads(seed, limits):
    """4,000 heads of 14 and of 60 kB, each one byte short: a connection holds no more than the limit of a head."""
    draft = Draft(random.Random(seed), EMBED)
    begun = [draft.head(("x-long", "a" * size))[:-1] for size in (14_000, 60_000)]
    return many("unfinished_heads", min(4000, limits.connections - 500),
                lambda number: draft.play(Send(begun[number % 2]), Pause(2.0), load=draft.load(begun[number % 2], is_whole=False)))


def unfinished_chunks(seed, limits):
    """1,000 bodies of unknown length, of which 20 kB each are sent."""
    draft = Draft(random.Random(seed), EMBED)
    body = b'{"inputs":"a","ignored":"' + b"x" * 20_000
    begun = draft.head(("transfer-encoding", "chunked")) + chunks(body, 5000)
    return many("unfinished_chunks", 1000, lambda _: draft.play(Send(begun), Pause(2.0), load=draft.load(begun, len(body), is_whole=False)))


def idle_connections(seed, limits):
    """Connections that only wait, silent or after an answer."""
    draft = Draft(random.Random(seed), HEALTH, NONE)
    asked = (Pause(2.0),), (Send(draft.request(close=False)), Pause(2.0)), (Send(draft.request()[:20]), Pause(2.0))
    return many("idle_connections", min(4000, limits.connections - 500), lambda number: draft.play(*asked[number % 3]))


def unread_answers(seed, limits):
    """Small requests for large answers that are not read, one after another so that no other limit refuses them: the values count until
    they are read."""
    count = 2000
    draft = Draft(random.Random(seed), OPENAI)
    sent = draft.request(json.dumps({"input": [[7]] * count}).encode())
    load = draft.load(sent, len(sent), inputs=count, tokens=count)
    return many("unread_answers", 120, lambda number: draft.play(Pause(number * 0.02), Send(sent), Pause(5.0 - number * 0.02), load=load,
                                                                 receive_buffer=4096))


def docs_nobody_reads(seed, limits):
    """Clients without a key that request the largest file of /docs and do not read it: no client with a key is refused because of them."""
    draft = Draft(random.Random(seed), BUNDLE, NONE)
    sent = draft.request()
    load = Load(connections=1, heads=len(sent))
    return many("docs_nobody_reads", 400, lambda _: draft.play(Send(sent), Pause(2.5), load=load, receive_buffer=4096))


def refused_bodies(seed, limits):
    """Bodies of a megabyte from clients without a key: they hold nothing."""
    draft = Draft(random.Random(seed), EMBED, NONE)
    sent = draft.head(("content-length", 4 * MIB)) + b'{"inputs":"' + b"x" * MIB
    return many("refused_bodies", 100, lambda _: draft.play(Send(sent), Pause(1.0), load=draft.load(sent, is_whole=False)))


# Bytes of an answer that the systems of both sides may still buffer when the server has closed a connection.
UNDERWAY = 1_000_000


def readers_below_any_rate(seed, limits):
    """Readers that take only a little of a large answer per --client-timeout: they are disconnected and their memory is freed. The bytes
    that they read in the end show whether they were."""
    draft = Draft(random.Random(seed), EMBED_ALL)
    sent = draft.request(json.dumps({"inputs": [[7] * 900] * 2}).encode())
    load = replace(draft.load(sent, len(sent), inputs=2, tokens=1800), values=1800 * VECTOR)
    patience = 4 * limits.client_timeout
    steps = Send(sent), Read(patience, size=1024, pause=0.5), Read(5)
    return many("readers_below_any_rate", 4, lambda _: draft.play(*steps, load=load, receive_buffer=4096, most_bytes=UNDERWAY),
                seconds=patience + 10)


def long_words(seed, limits):
    """Four requests with 30 MB of endless words: a text of five bytes does not wait for their tokenization."""
    chance = random.Random(seed)
    size = limits.payload - 10_000

    def ask(number):
        draft = Draft(chance, OPENAI)
        word = draft.mark() + "wordwithoutend" * 5000
        body = json.dumps({"input": [word] * (size // len(word)), "truncation_side": "left" if number % 2 else "right"}).encode()
        load = draft.load(body, len(body), inputs=120, tokens=120 * 2048, encoded=len(word))
        return draft.play(Send(draft.request(body)), Read(5), load=load)
    return many("long_words", 4, ask)


def one_uncut_text(seed, limits):
    """A word of four million bytes, truncated on the left, without a place to split."""
    draft = Draft(random.Random(seed), OPENAI)
    body = json.dumps({"input": draft.mark() + "x" * 4_100_000, "truncation_side": "left"}).encode()
    load = draft.load(body, len(body), inputs=1, tokens=2048, encoded=len(body))
    return many("one_uncut_text", 2, lambda _: draft.play(Send(draft.request(body)), Read(8), load=load))


def large_tokenizations(seed, limits):
    """As much text as one /tokenize request may have, from several clients."""
    draft = Draft(random.Random(seed), TOKENIZE)
    body = json.dumps({"inputs": draft.mark() + " x" * 500_000}).encode()
    load = draft.load(body, len(body), tokenized=MIB)
    return many("large_tokenizations", 2, lambda _: draft.play(Send(draft.request(body)), Read(3, size=1 << 18), load=load))


def more_requests_than_places(seed, limits):
    """Twice as many small requests as --max-concurrent-requests, and requests that fill the token queue."""
    chance = random.Random(seed)

    def ask(_):
        draft = Draft(chance, EMBED)
        return draft.asked(draft.request(draft.body(1, 40)), least=1, seconds=20)
    return many("more_requests_than_places", 2 * limits.requests, ask, seconds=25)


def many_slow_senders(seed, limits):
    """600 connections that send their requests bit by bit over most of the allowed time."""
    chance = random.Random(seed)

    def ask(_):
        draft = Draft(chance, EMBED, chance.choice([BAD, NONE]))
        sent = draft.request(draft.body(1, 40))
        return draft.play(Drip(sent, len(sent) // 8 + 1, 0.2), Read(10), load=draft.load(sent, 60))
    return many("many_slow_senders", 600, ask)


# Attacks with a tight bound come first: memory kept by the allocator after a larger attack would hide theirs.
FIRST = (declared_lengths, unfinished_heads, unfinished_chunks, idle_connections, refused_bodies, docs_nobody_reads)
LAST = (many_slow_senders, unread_answers, more_requests_than_places, large_tokenizations, long_words)
# `readers_below_any_rate` runs concurrently with others; `one_uncut_text` has so wide a bound that only long runs have time for it.
ALL = (*FIRST, *LAST, readers_below_any_rate, one_uncut_text)
