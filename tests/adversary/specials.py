"""Attacks beyond single connections: an unread log, guesses at another client's text, connections at shutdown."""

import asyncio
import random
import signal
import time
from dataclasses import replace

from client import Client, request
from drafts import BAD, GOOD, NONE, Draft
from limits import Limits
from oracle import difference
from plays import Attack
from raw import HEAD, Raw
from routes import BY_NAME, EMBED, EMBED_ALL
from steps import Read, Send
from target import Target
from witness import told

# Seconds that the log stays unread: longer than a health check may take (oracle.HEALTH_MAX).
STALL = 4.5
# Maximum seconds until a server without requests ends: the grace period for requests sent before the signal, and a busy machine.
STOP = 10.0


async def stalled_log(field, seed):
    """An unread log, and requests whose lines would fill the pipe many times: nothing waits for the log."""
    chance = random.Random(seed)
    routes = [BY_NAME[name] for name in ("GET /no/such/route", "GET /info", "POST /embed", "GET /v1/models")]
    made = []
    for number in range(100):
        draft = Draft(chance, chance.choice(routes), chance.choice((BAD, NONE)))
        sent = b"".join(draft.request(close=i == 9) for i in range(10))
        load = replace(draft.load(sent, len(sent), inputs=20), pieces=0)
        made.append(draft.play(Send(sent), Read(STALL + 10), load=load, least=10))
    attack = Attack("stalled_log", tuple(made), STALL + 20)
    log = field.target.log
    log.stall()
    begun = time.monotonic()

    async def resume():
        await asyncio.sleep(STALL)
        log.resume()
    resuming = asyncio.create_task(resume())
    try:
        await field.run(attack)
        # The attack may end while the log is still unread; later requests must not wait either.
        await asyncio.sleep(max(0.0, STALL + 0.5 - (time.monotonic() - begun)))
    finally:
        await resuming


SECRET = "my pin is 123456"


async def guesses(field, seed):
    """One client sends its secret repeatedly; another guesses the digits and reads the reported token counts."""
    load = replace(Draft(random.Random(seed), EMBED).load(b"", 0, inputs=8), connections=8, tokens=field.limits.queued_tokens)
    port, over = field.target.port, asyncio.Event()
    post = lambda key, texts: request("POST", "/v1/embeddings", {"input": texts}, [f"authorization: Bearer {key}"])  # noqa: E731
    tries = {digit: post(BAD, [f"{SECRET[:-1]}{digit}"]) for digit in "0123456789"}
    attacker, alone = Client(port), {}
    for digit, data in tries.items():
        alone[digit] = told(await attacker.ask(data))
    window = field.oracle.begin("guesses", load, f"    a client repeats {SECRET!r}; another asks for {SECRET[:-1]!r} and each digit")

    async def victim(number):
        client = Client(port)
        while not over.is_set():
            await client.ask(post(GOOD, [f"{SECRET} and so on", f"{SECRET} {number}", SECRET] * 2))
        await client.close()
    victims = [asyncio.create_task(victim(number)) for number in range(6)]
    cached = dict.fromkeys(tries, 0)
    try:
        for _ in range(4):
            for digit, data in tries.items():
                answer = await attacker.ask(data)
                if answer.status != 200:
                    continue
                content, counts = told(answer)
                cached[digit] = max(cached[digit], counts["usage"]["prompt_tokens_details"]["cached_tokens"])
                if content["data"] != alone[digit][0]["data"]:
                    field.oracle.find("wrong answer", f"the vector of {digit} depends on others", [window])
                if counts != alone[digit][1]:
                    field.oracle.find("another's tokens", f"digit {digit}: {difference(alone[digit][1], counts)}", [window])
    finally:
        over.set()
        await asyncio.gather(*victims)
        await attacker.close()
    if any(cached.values()):
        field.oracle.find("another's text", f"`cached_tokens` of each digit, the secret's is {SECRET[-1]}: {cached}", [window])
    await field.settle(window)


def hold(port, draft, size):
    """A connection that has sent a body of `size` bytes except for the last byte."""
    client = Raw(port)
    client.send(draft.head(("content-length", size)) + b'{"inputs":"' + b"x" * (size - 12))
    return client


def quota_is_whole(field):
    """The bytes of --max-buffered-bytes after all attacks: bodies that hold almost all leave room for a small request, slightly larger
    ones leave none."""
    limits, draft = field.limits, Draft(random.Random(0), EMBED)
    ask = lambda: field.target.post("/tokenize", {"inputs": "a"}, {"authorization": f"Bearer {BAD}"})  # noqa: E731
    sizes = [limits.payload] * (limits.buffered // limits.payload)
    sizes[-1] = limits.buffered - sum(sizes[:-1]) - 300_000
    problem = "the bodies did not arrive within --client-timeout"
    for _ in range(5):
        held = [hold(field.target.port, draft, size) for size in sizes]
        time.sleep(0.3)
        first = ask()
        held.append(hold(field.target.port, draft, 1_000_000))
        time.sleep(0.2)
        second = ask()
        is_held = not any(client.is_closed() for client in held)
        for client in held:
            client.reset()
        if is_held:
            problem = None if (first.status, second.status) == (200, 429) else f"{first}, then {second}; expected 200, then 429"
            break
        time.sleep(0.5)
    if problem:
        field.oracle.find("quota", problem)


def seconds_to_end(target, limit):
    """Seconds from SIGTERM to the end, or None."""
    begun = time.monotonic()
    target.process.send_signal(signal.SIGTERM)
    try:
        target.process.wait(limit)
    except Exception:  # subprocess.TimeoutExpired
        return None
    return time.monotonic() - begun


def stop_among_unfinished(field):
    """SIGTERM while heads and bodies are unfinished and answers unread: the server ends within --shutdown-timeout, with status 0."""
    port, chance = field.target.port, random.Random(0)
    large = Draft(chance, EMBED_ALL)
    begun = [HEAD[:20], HEAD[:-2], b"", large.request(b'{"inputs":[[7,8,9]]}', close=False), large.request(large.body(8, 2000)),
             Draft(chance, EMBED).request()[:-5]]
    clients = [Raw(port, receive_buffer=4096) for _ in range(60)]
    for number, client in enumerate(clients):
        client.send(begun[number % len(begun)])
    time.sleep(0.5)
    limit = field.limits.shutdown_timeout + STOP
    seconds = seconds_to_end(field.target, limit)
    if seconds is None or field.target.process.returncode != 0:
        field.oracle.find("shutdown", f"status {field.target.process.returncode} after {seconds or limit:.1f} s, with {len(clients)} "
                                      f"connections that begin with {begun!r}")
    for client in clients:
        client.close()
    return seconds


def stop_among_heads(find):
    """SIGTERM while only unfinished heads and idle connections are open, with long timeouts: the server does not wait for them."""
    limits = Limits(client_timeout=60, shutdown_timeout=25)
    with Target(limits) as target:
        clients = [Raw(target.port) for _ in range(100)]
        for number, client in enumerate(clients):
            client.send([b"GET /hea", HEAD[:-2], b"", HEAD[:-30]][number % 4])
        assert target.get("/health").status == 200
        seconds = seconds_to_end(target, limits.shutdown_timeout + STOP)
        log = target.log
        log.thread.join(5)
        if seconds is None or seconds > STOP or target.process.returncode != 0 or "cut off" in log.text():
            find("shutdown", f"{'no end' if seconds is None else f'{seconds:.1f} s'} with {len(clients)} connections without a request "
                             f"(silent, or within their head), status {target.process.returncode}: {log.text()[-600:]}")
        for client in clients:
            client.close()
    return seconds
