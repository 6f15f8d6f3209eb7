#!/usr/bin/env python3
"""Serves a model on a GPU and on the CPU, and compares their answers to the same requests.

    serve.py PREFOLD MODEL DEVICE

Fails where a server does not start, answers differ by more than the number format explains, or SIGTERM does not end it
with status 0.
"""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request

PREFIX = "You are a helpful assistant. Represent this passage for retrieval: "
TEXTS = [PREFIX + text for text in ("the kernel keeps a list of free pages", "bread rises where it is warm", "the kernel")]
ADDRESS = re.compile(r"127\.0\.0\.1:([1-9][0-9]*)")


def answers(program, model, device):
    """Embeddings and scores that a server on `device` gives, with requests that share prefixes."""
    log = open(f"results/serve-{device}.log", "w+")
    command = [program, "--model-id", model, "--device", device, "--hostname", "127.0.0.1", "--port", "0"]
    server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while not (found := ADDRESS.search(open(log.name).read())):
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{command} does not serve:\n{open(log.name).read()}")
            time.sleep(0.1)
        url = f"http://127.0.0.1:{found[1]}"

        def ask(path, **body):
            request = urllib.request.Request(url + path, json.dumps(body).encode(), {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)

        print(device, json.dumps(json.load(urllib.request.urlopen(url + "/info", timeout=60))))
        embeddings = ask("/embed", inputs=TEXTS)
        ranks = ask("/rerank", query="memory management", texts=TEXTS)
    finally:
        server.send_signal(signal.SIGTERM)
    if (status := server.wait(60)) != 0:
        sys.exit(f"{command}: status {status} after SIGTERM")
    return embeddings, {line["index"]: line["score"] for line in ranks}


def main():
    program, model, device = sys.argv[1:]
    (found, scores), (expected, expected_scores) = answers(program, model, device), answers(program, model, "cpu")
    for text, a, b in zip(TEXTS, found, expected):
        cosine = sum(x * y for x, y in zip(a, b))
        print(f"cosine {cosine:.6f}: {text}")
        if not cosine >= 0.999:
            sys.exit("the answers differ")
    for index, score in expected_scores.items():
        print(f"score {scores[index]:.4f}, on the CPU {score:.4f}")
        if not abs(scores[index] - score) <= 0.02:
            sys.exit("the scores differ")


if __name__ == "__main__":
    main()
