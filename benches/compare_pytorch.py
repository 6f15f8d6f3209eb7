"""The same shapes and texts in PyTorch and sentence-transformers, for a comparison on the same machine.

    pip install torch sentence-transformers
    cargo run --release -p prefold-benches -- kernels
    python benches/compare_pytorch.py linear
    cargo run --release -p prefold-benches -- model --shape qwen3-135m target/bench-models/qwen3-135m
    python benches/compare_pytorch.py texts target/bench-models/qwen3-135m

`linear` prints GFLOP/s of torch.nn.functional.linear; `texts` prints texts/s and tokens/s of
sentence-transformers on the rerank workload, in batches of the same size as the requests of
`prefold bench --preset chat-embedding --texts 40` (see docs/bench.md).
Forward passes are compared by benches/gpu/parity.
"""

import argparse
import json
import time

import torch

SHAPES = [  # (model and layer, out_features, in_features) of `prefold-bench kernels`
    ("SmolLM2-135M qkv", 960, 576),
    ("SmolLM2-135M gate-up", 3072, 576),
    ("SmolLM2-135M down", 576, 1536),
    ("Qwen3-0.6B qkv", 4096, 1024),
    ("Qwen3-0.6B o", 1024, 2048),
    ("Qwen3-0.6B gate-up", 6144, 1024),
    ("Qwen3-0.6B down", 1024, 3072),
    ("Qwen3-4B qkv", 6144, 2560),
    ("Qwen3-4B gate-up", 19456, 2560),
    ("Qwen3-4B down", 2560, 9728),
]
TEMPLATE = (
    "<|im_start|>system\nYou are a helpful assistant specialized in embedding text for retrieval tasks.<|im_end|>\n"
    "<|im_start|>user\n{query} embed the following sentences that is part of bing query dataset, with target to help "
    "find relevant web documents. {passage}<|im_end|>\n<|im_start|>assistant\n"
)


def linear(runs):
    print(f"{'layer':<24}{'m':>6}{'bf16 GFLOP/s':>14}{'f32 GFLOP/s':>14}")
    for name, n, k in SHAPES:
        for m in (1, 16, 128, 1024, 4096):
            speeds = []
            for dtype in (torch.bfloat16, torch.float32):
                x, w = torch.randn(m, k, dtype=dtype), torch.randn(n, k, dtype=dtype)
                flops = 2 * m * n * k
                repeats = max(1, min(1000, int(4e9 / flops)))
                best = 0.0
                with torch.inference_mode():
                    torch.nn.functional.linear(x, w)
                    for _ in range(runs):
                        start = time.perf_counter()
                        for _ in range(repeats):
                            torch.nn.functional.linear(x, w)
                        best = max(best, flops * repeats / (time.perf_counter() - start) / 1e9)
                speeds.append(best)
            print(f"{name:<24}{m:>6}{speeds[0]:>14.0f}{speeds[1]:>14.0f}", flush=True)


def texts(directory, dtype, queries, requests, file):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(directory, device="cpu", model_kwargs={"dtype": getattr(torch, dtype)})
    with open(file) as lines:
        rows = [json.loads(line) for line in lines]
    batches = [
        [TEMPLATE.format(query=row["query"], passage=p["text"]) for row in rows[i : i + queries] for p in row["passages"]]
        for i in range(0, len(rows) - queries + 1, queries)
    ]
    model.encode(batches[0], batch_size=len(batches[0]))
    tokens = count = 0
    start = time.perf_counter()
    for batch in batches[:requests]:
        model.encode(batch, batch_size=len(batch))
        count += len(batch)
        tokens += sum(len(ids) for ids in model.tokenizer(batch)["input_ids"])
    seconds = time.perf_counter() - start
    print(f"texts/s {count / seconds:.1f}, tokens/s {tokens / seconds:.0f} ({dtype}, {count} texts)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("linear")
    command.add_argument("--runs", type=int, default=5)
    command = commands.add_parser("texts")
    command.add_argument("directory")
    command.add_argument("--dtype", default="bfloat16")
    command.add_argument("--queries", type=int, default=4)
    command.add_argument("--requests", type=int, default=5)
    command.add_argument("--file", default="tests/workloads/docs-rerank.jsonl")
    args = vars(parser.parse_args())
    {"linear": linear, "texts": texts}[args.pop("command")](**args)


if __name__ == "__main__":
    main()
