"""Mixed traffic: every endpoint, every size, invalid requests, disconnects and idle connections."""

import asyncio
import random
import time

from client import BadAnswer, Client, check_error, request

WORDS = ("the kernel keeps a list of free pages and hands them out on demand when memory runs low while other "
         "processes wait for the disk and a daemon writes what is dirty back in the order of its age").split()


class Mix:
    """Draws requests: (name, bytes, allowed statuses)."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.kinds = [getattr(self, name) for name in sorted(dir(Mix)) if name.startswith("ask_")]

    def next(self):
        kind = self.chance.choice(self.kinds)
        data, statuses = kind()
        return kind.__name__.removeprefix("ask_"), data, statuses

    def text(self, longest=100):
        """Mostly short texts, sometimes long ones."""
        words = int(longest ** self.chance.random())
        return " ".join(self.chance.choice(WORDS) for _ in range(words))

    def texts(self, most=16):
        return [self.text() for _ in range(int(most ** self.chance.random()))]

    def post(self, path, body, *fields, statuses=(200,)):
        return request("POST", path, body, fields), statuses

    def ask_embed(self):
        return self.post("/embed", {"inputs": self.texts(), "normalize": self.chance.random() < 0.5})

    def ask_embed_binary(self):
        return self.post("/embed", {"inputs": self.texts()}, "accept: application/octet-stream")

    def ask_embed_long(self):
        return self.post("/embed", {"inputs": self.text(2000), "truncate": True})

    def ask_embed_all(self):
        return self.post("/embed_all", {"inputs": self.texts(4)})

    def ask_similarity(self):
        return self.post("/similarity", {"inputs": {"source_sentence": self.text(), "sentences": self.texts()}})

    def ask_openai_embeddings(self):
        form = self.chance.choice(["float", "base64"])
        return self.post("/v1/embeddings", {"input": self.texts(), "model": "m", "encoding_format": form, "dimensions": 64})

    def ask_rerank(self):
        return self.post("/rerank", {"query": self.text(20), "texts": self.texts(), "return_text": True})

    def ask_cohere_rerank(self):
        path = self.chance.choice(["/v1/rerank", "/v2/rerank"])
        return self.post(path, {"query": self.text(20), "documents": self.texts(), "top_n": 3})

    def ask_score(self):
        return self.post(self.chance.choice(["/score", "/v1/score"]), {"queries": self.text(20), "documents": self.texts()})

    def ask_tokenize(self):
        return self.post("/tokenize", {"inputs": self.texts()})

    def ask_decode(self):
        return self.post("/decode", {"ids": [self.chance.randrange(1000) for _ in range(self.chance.randrange(1, 500))]})

    def ask_classify(self):
        path, field = self.chance.choice([("/predict", "inputs"), ("/v1/classify", "input"), ("/classify", "input")])
        return self.post(path, {field: self.text()}, statuses=(200, 400, 422))

    def ask_what_the_server_tells(self):
        path = self.chance.choice(["/info", "/health", "/ready", "/metrics", "/v1/models", "/docs/", "/api-doc/openapi.json"])
        return request("GET", path), (200,)

    def ask_invalid(self):
        path = self.chance.choice(["/embed", "/v1/embeddings", "/rerank", "/decode", "/similarity"])
        bodies = [b"", b"{", b"[" * 5000, b'{"inputs": [[],[1.5]]}', b"{}", b'{"a":' * 200]
        body = self.chance.choice(bodies)
        return self.post(path, body, statuses=(400, 422))

    def ask_too_much(self):
        return self.post("/embed", {"inputs": [""] * 140_000}, statuses=(413, 422))

    def ask_for_nothing(self):
        path = self.chance.choice(["/no/such/route", "/v1/models/nobody/nothing"])
        return request("GET", path), (404,)

    def ask_with_another_method(self):
        return request("GET", "/embed"), (405,)


# Seconds between two requests of a client. Without pauses, load and therefore memory would depend on other work on the
# machine.
PERIOD = 1.0


async def work(port, seed, until, seen):
    """One client that sends requests repeatedly at a steady pace."""
    mix, client = Mix(seed), Client(port)
    start = time.monotonic() + mix.chance.random() * PERIOD
    while not until():
        await asyncio.sleep(max(0.0, start - time.monotonic()))
        start += PERIOD
        name, data, statuses = mix.next()
        answer = await client.ask(data)
        if answer.status not in (*statuses, 429):
            raise BadAnswer(f"{name}: {answer.status}, expected {statuses}: {answer.body[:500]!r}")
        if answer.status >= 400:
            check_error(answer)
        seen[name, answer.status] += 1
        if mix.chance.random() < 0.05:
            await client.finish()
    await client.finish()


async def leave(port, seed, until, seen):
    """One client that disconnects at a random moment of its request."""
    mix = Mix(seed)
    while not until():
        _, data, _ = mix.next()
        client = Client(port)
        await client.connect()
        client.writer.write(data[:mix.chance.randrange(len(data) + 1)] if mix.chance.random() < 0.5 else data)
        await asyncio.sleep(mix.chance.random() * 0.1)
        client.abandon()
        seen["left", None] += 1
        await asyncio.sleep(mix.chance.random())


async def idle(port, seed, until, seen):
    """One client that connects, may send something, and stays idle."""
    chance = random.Random(seed)
    while not until():
        client = Client(port)
        await client.connect()
        client.writer.write(chance.choice([b"", b"GET /hea", b"POST /embed HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{"]))
        pause = chance.random() * 10
        while pause > 0 and not until():
            await asyncio.sleep(0.1)
            pause -= 0.1
        client.abandon()
        seen["idle", None] += 1


async def run(port, until, seen, workers=8, leavers=2, idlers=20):
    """Runs all clients until `until()`; `seen` counts responses by kind of request and status."""
    clients = [(work, workers), (leave, leavers), (idle, idlers)]
    async with asyncio.TaskGroup() as group:
        for number, (client, count) in enumerate(clients):
            for i in range(count):
                group.create_task(client(port, number * 1000 + i, until, seen))
