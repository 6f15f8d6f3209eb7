"""Embed the field `text` of each line of a JSONL file, with progress, and write the vectors to a raw binary file.

    python embed_jsonl.py texts.jsonl vectors.f32 --url http://localhost:3000

The output has little-endian float32 rows in the order of the lines: numpy.fromfile(path, '<f4').reshape(-1, dim).
Binary responses avoid formatting and parsing decimal digits. Only the standard library is used.
"""

import argparse
import json
import sys
import time
import urllib.request


def batches(lines, size):
    batch = []
    for line in lines:
        if line.strip():
            batch.append(json.loads(line)["text"])
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", type=argparse.FileType())
    parser.add_argument("vectors", type=argparse.FileType("wb"))
    parser.add_argument("--url", default="http://localhost:3000")
    parser.add_argument("--batch", type=int, default=512, help="texts per request")
    args = parser.parse_args()

    headers = {"content-type": "application/json", "accept": "application/octet-stream"}
    begun, done, tokens, shape = time.monotonic(), 0, 0, None
    for batch in batches(args.texts, args.batch):
        request = urllib.request.Request(f"{args.url}/embed", json.dumps({"inputs": batch}).encode(), headers)
        with urllib.request.urlopen(request) as response:
            args.vectors.write(response.read())
            shape = response.headers["x-embedding-shape"]
            tokens += int(response.headers["x-compute-tokens"])
        done += len(batch)
        elapsed = time.monotonic() - begun
        print(f"\r{done} texts, {tokens} tokens, {done / elapsed:.0f} texts/s", end="", file=sys.stderr)
    print(file=sys.stderr)
    if shape:
        print(f"{done} vectors of {shape.split(',')[1]} values in {args.vectors.name}")


if __name__ == "__main__":
    main()
