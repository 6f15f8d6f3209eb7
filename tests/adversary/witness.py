#!/usr/bin/env python3
"""A good client, in a separate process: sends requests repeatedly and reports the results, one JSON object per line.

    tests/adversary/witness.py PORT KIND

KIND is one of `QUESTIONS`. Later answers are compared, bit for bit, with the answers before the attack. Ends when its
standard input does.
"""

import asyncio
import json
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "load"), str(HERE.parent / "e2e")]

import marks  # noqa: E402
from client import BadAnswer, Client, NoAnswer, request  # noqa: E402
from drafts import GOOD  # noqa: E402

KEY = f"authorization: Bearer {GOOD}"
# Seconds: maximum for one answer, between two requests of the same kind, and between two requests on new connections.
LIMIT, PAUSE, NEW = 60.0, 0.05, 0.4
# Digits first, so that no attacker's text begins with the same token.
TEXTS = ["7 tcn00000000a1 how do I lock a file?", "3 tcn00000000a2 use flock", "9 tcn00000000a3 the tide comes in at noon"]
COUNTS = ("x-compute-tokens", "x-compute-characters", "x-compute-compact-tokens", "x-compute-batch-tokens", "x-compute-unique-tokens",
          "x-compaction-ratio")


def post(path, body, *fields):
    return request("POST", path, body, [KEY, *fields])


QUESTIONS = {
    "embedding": {
        "/embed": post("/embed", {"inputs": TEXTS}),
        "/embed of one": post("/embed", {"inputs": "5 tcn00000000a4"}),
        "/embed in bytes": post("/embed", {"inputs": TEXTS[:2]}, "accept: application/octet-stream"),
        "/v1/embeddings": post("/v1/embeddings", {"input": TEXTS, "model": "m"}),
        "/rerank": post("/rerank", {"query": TEXTS[0], "texts": TEXTS[1:], "return_text": True}),
        "/v1/rerank": post("/v1/rerank", {"query": TEXTS[0], "documents": TEXTS[1:], "return_documents": True}),
        "/tokenize": post("/tokenize", {"inputs": TEXTS}),
        "/decode": post("/decode", {"ids": [52, 82, 68]}),
    },
    "classifier": {
        "/predict": post("/predict", {"inputs": [[text] for text in TEXTS]}),
        "/v1/classify": post("/v1/classify", {"input": TEXTS}),
        "/tokenize": post("/tokenize", {"inputs": TEXTS}),
        "/decode": post("/decode", {"ids": [52, 82, 68]}),
    },
}
QUESTIONS["reranker"] = {name: asked for name, asked in QUESTIONS["embedding"].items() if name in ("/rerank", "/v1/rerank", "/tokenize",
    "/decode")} | {
    "/score": post("/score", {"queries": TEXTS[0], "documents": TEXTS[1:]})}
QUESTIONS["tokens"] = {name: QUESTIONS["embedding"][name] for name in ("/tokenize", "/decode")} | {
    "/predict_tokens": post("/predict_tokens", {"inputs": TEXTS, "aggregation_strategy": "simple"})}
QUESTIONS["labels"] = QUESTIONS["tokens"]
HEALTH = request("GET", "/health")


def told(answer):
    """The parts of an answer that do not change: (content, counts)."""
    counts = {name: answer.fields.get(name) for name in COUNTS}
    if not answer.body.startswith((b"{", b"[")):
        return answer.body, counts
    content = answer.json()
    if isinstance(content, dict):
        counts["usage"] = content.pop("usage", None)
        content.pop("id", None), content.pop("created", None)
    return content, counts


async def ask(client, data):
    """An answer, or None with the reason. A connection that the server closed between two requests is reopened."""
    for is_first in (True, False):
        is_kept = client.writer is not None
        try:
            async with asyncio.timeout(LIMIT):
                return await client.ask(data), None
        except NoAnswer as error:
            client.abandon()
            if not (is_first and is_kept):
                return None, repr(error)
        except (BadAnswer, OSError, TimeoutError) as error:
            client.abandon()
            return None, repr(error)


def say(what, begun, answer, failure, **more):
    seconds = time.monotonic() - begun
    record = {"what": what, "at": begun, "seconds": seconds, "status": answer.status if answer else None, "failure": failure, **more}
    if answer is not None and answer.status != 200:
        text = answer.body[:2000].decode(errors="replace")
        record["failure"] = text[:300]
        record["flags"] = re.findall(r"--max-[a-z-]+", text) or (["tokenize"] if "tokenized or decoded" in text else [])
        record["is_foreign"] = bool(marks.ANY.search(answer.body))
    print(json.dumps(record), flush=True)


async def watch_health(port, what, pause, is_new):
    client = Client(port)
    while True:
        begun = time.monotonic()
        answer, failure = await ask(client, HEALTH)
        say(what, begun, answer, failure)
        if is_new:
            client.abandon()
        await asyncio.sleep(pause)


async def watch_answers(port, kind):
    client, expected = Client(port), {}
    for name, data in QUESTIONS[kind].items():
        answer, failure = await ask(client, data)
        if answer is None or answer.status != 200:
            raise SystemExit(f"{name} before the attack: {failure} {answer}")
        expected[name] = told(answer)
    print(json.dumps({"what": "ready"}), flush=True)
    while True:
        for name, data in QUESTIONS[kind].items():
            begun = time.monotonic()
            answer, failure = await ask(client, data)
            more = {}
            if answer is not None and answer.status == 200:
                content, counts = told(answer)
                more["is_same"] = content == expected[name][0]
                if counts != expected[name][1]:
                    more["counts"] = [expected[name][1], counts]
            say(name, begun, answer, failure, **more)
            await asyncio.sleep(PAUSE)


async def main(port, kind):
    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(None, sys.stdin.read)
    watching = [asyncio.create_task(one) for one in (
        watch_health(port, "/health", PAUSE, False), watch_health(port, "/health, new connection", NEW, True), watch_answers(port, kind))]
    await asyncio.wait([ended, *watching], return_when=asyncio.FIRST_COMPLETED)
    for task in watching:
        if task.done():
            task.result()
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
