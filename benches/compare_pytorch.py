"""The same shapes and texts through PyTorch and sentence-transformers, to compare with in one sitting.

    pip install torch sentence-transformers
    cargo run --release -p prefold-benches -- kernels
    python benches/compare_pytorch.py linear
    cargo run --release -p prefold-benches -- model --shape qwen3-135m target/bench-models/qwen3-135m
    python benches/compare_pytorch.py texts target/bench-models/qwen3-135m

    pip install torch transformers   # on a machine with a GPU
    prefold-bench forward --device cuda --shape qwen3-0.6b --unshared 1x32,1x128,8x128,32x128,32x512
    python benches/compare_pytorch.py forward target/bench-models/Qwen3_0_6b-28 --unshared 1x32,1x128,8x128,32x128,32x512

`linear` prints GFLOP/s of torch.nn.functional.linear; `texts` prints texts/s and tokens/s of
sentence-transformers on the rerank workload, in batches of the same size as the requests of
`prefold bench --preset chat-embedding --texts 40` (see docs/bench.md).
`forward` prints milliseconds and tokens/s of Hugging Face transformers (sdpa) with random weights, for the batches of
`prefold-bench forward`: nothing is shared, sequences of different lengths are padded.
"""

import argparse
import json
import time

import torch

SHAPES = [  # (model and layer, out_features, in_features): those of `prefold-bench kernels`
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


def forward(directory, device, dtype, batch, suffix, prefix, unshared, runs):
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained(directory)
    with torch.device(device):
        model = AutoModel.from_config(config, attn_implementation="sdpa", dtype=getattr(torch, dtype)).eval()
    generator = torch.Generator().manual_seed(4)
    random = lambda low, high, size: torch.randint(low, high, size, generator=generator)
    # The token counts of the MS MARCO batch of `prefold-bench forward`: 16 queries with ten passages each.
    cases = [("ms-marco, 16 x 10", (60 + random(40, 115, (160,))).tolist())]
    cases += [(f"prefix {length}", [length + suffix] * batch) for length in prefix]
    cases += [(f"unshared {count} x {length}", [length] * count) for count, length in unshared]
    mixed = random(16, 512, (32,)).tolist()
    cases.append(("mixed, 32 x 16..512", mixed))
    print(f"{'case':<24}{'tokens':>8}{'padded':>8}{'ms':>10}{'tokens/s':>12}{'MiB':>8}")
    for name, lengths in cases:
        longest = max(lengths)
        ids = random(0, config.vocab_size, (len(lengths), longest)).to(device)
        mask = None
        if min(lengths) < longest:
            mask = (torch.arange(longest)[None] < torch.tensor(lengths)[:, None]).long().to(device)
        best = float("inf")
        with torch.inference_mode():
            for run in range(runs + 1):
                torch.cuda.synchronize() if device.startswith("cuda") else None
                start = time.perf_counter()
                hidden = model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
                last = torch.tensor(lengths, device=hidden.device) - 1
                # The answers reach the host, as prefold's do.
                hidden[torch.arange(len(lengths), device=hidden.device), last].float().cpu()
                if run:  # the first makes buffers and chooses kernels
                    best = min(best, time.perf_counter() - start)
        memory = torch.cuda.max_memory_allocated() >> 20 if device.startswith("cuda") else 0
        tokens = sum(lengths)
        padded = longest * len(lengths)
        print(f"{name:<24}{tokens:>8}{padded:>8}{best * 1e3:>10.2f}{tokens / best:>12.0f}{memory:>8}", flush=True)


def sizes(text):
    return [tuple(map(int, pair.split("x"))) for pair in text.split(",") if pair]


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
    command = commands.add_parser("forward")
    command.add_argument("directory")
    command.add_argument("--device", default="cuda")
    command.add_argument("--dtype", default="bfloat16")
    command.add_argument("--batch", type=int, default=32)
    command.add_argument("--suffix", type=int, default=256)
    command.add_argument("--prefix", type=lambda text: [int(n) for n in text.split(",")], default=[1, 32, 128, 512, 1024, 2048])
    command.add_argument("--unshared", type=sizes, default=[])
    command.add_argument("--runs", type=int, default=3)
    args = vars(parser.parse_args())
    {"linear": linear, "texts": texts, "forward": forward}[args.pop("command")](**args)


if __name__ == "__main__":
    main()
