"""A peer's process, run by the interpreter of its environment:

    worker.py ENGINE MODEL DTYPE THREADS STREAMS

Each line of standard input is a JSON object `{"do": ..., ...}` and is answered by one line of JSON on standard output:

    load                    {"versions", "dtype", "at"}      `at`: when the model was loaded, on the clock of time.perf_counter
    embed texts             {"seconds", "tokens", "values"}  a unit vector for each text
    score query, texts      {"seconds", "tokens", "values"}  a logit for each pair
    calls texts {"calls", "forwards"} seconds of a call per text, and of its forward pass; prefold only calls_at_once texts, clients,
    seconds {"per_s"} calls of one text by as many threads; prefold only serve gather {"port"} POST /v1/embeddings until the process ends

`seconds` includes tokenization and pooling, not the counting of tokens. A failure is answered by {"error"}.
"""

import importlib
import json
import os
import sys
import time
import traceback


def timed(compute, tokens):
    start = time.perf_counter()
    values = compute()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "tokens": tokens(), "values": values.tolist()}


class Worker:
    def __init__(self, engine, model, dtype, threads, streams):
        self.arguments = (model, dtype, int(threads), int(streams))
        self.module, self.streams = engine, int(streams)

    def load(self):
        self.engine = importlib.import_module(f"engines.{self.module}").Engine(*self.arguments)
        return {"versions": self.engine.versions, "dtype": self.engine.dtype, "at": time.perf_counter()}

    def embed(self, texts):
        return timed(lambda: self.engine.embed(texts), lambda: self.engine.tokens(texts))

    def score(self, query, texts):
        pairs = [(query, text) for text in texts]
        return timed(lambda: self.engine.score(pairs), lambda: self.engine.tokens(pairs))

    def calls(self, texts):
        return self.engine.calls(texts)

    def calls_at_once(self, texts, clients, seconds):
        return self.engine.calls_at_once(texts, clients, seconds)

    def serve(self, gather):
        import http_server

        return {"port": http_server.start(self.engine.embed, gather, self.streams)}


def main():
    # Libraries that print are redirected to standard error.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    worker = Worker(*sys.argv[1:])
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(worker, command.pop("do"))(**command)
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
