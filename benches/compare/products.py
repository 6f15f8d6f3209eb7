"""Products of linear layers: prefold's kernels and oneDNN's with weights that are packed beforehand, in turn.

    cargo bench --locked -p prefold-kernels --bench throughput --no-run    # prints the program's path
    python3 benches/compare/products.py PATH [--rounds 9] [M,N,K ...]

oneDNN runs in PyTorch (`mkldnn::_linear_pointwise` on a weight of `mkldnn::_reorder_linear_weight`, the layer that PyTorch's compiler makes); its
output is bfloat16, prefold's float32. Each round runs both; the best of all rounds counts, because other work disturbs the others.
"""

import argparse
import json
import re
import subprocess

import machine
import venvs

SHAPES = ["1024,960,576", "1024,3072,576", "1024,576,1536", "1024,4096,1024", "1024,6144,1024", "1024,1024,3072", "16,4096,1024", "1,4096,1024"]

# Runs in the peer's interpreter: reads a shape from a line of standard input and answers with GFLOP/s.
ONEDNN = """
import json, sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
for line in sys.stdin:
    m, n, k = json.loads(line)
    x, weight = torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16()
    with torch.no_grad():
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, m)
        product = lambda: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")
        assert torch.allclose(product().float(), x.float() @ weight.float().T, atol=1.0)
        best, end = 0.0, time.perf_counter() + 1.0
        while time.perf_counter() < end:
            start, count = time.perf_counter(), 0
            while time.perf_counter() - start < 0.05:
                product()
                count += 1
            best = max(best, count * 2 * m * n * k / (time.perf_counter() - start) / 1e9)
    print(json.dumps(best), flush=True)
"""


def prefold(program, shape):
    """GFLOP/s of the bfloat16 product with the default instruction set."""
    names = {"amx": "amx_tile", "avx512-bf16": "avx512_bf16", "avx512-vnni": "avx512_vnni", "avx512": "avx512f"}
    flags = machine.describe()["cpu"]["flags"]
    isa = next((name for name, flag in names.items() if flag in flags), "avx2")
    lines = subprocess.run([program, isa, *map(str, shape)], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"bfloat16 .*?: +([0-9.]+) of", lines)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    peer = subprocess.Popen([venvs.python("torch"), "-c", ONEDNN, str(machine.threads())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)
    print("| M, N, K | prefold | oneDNN | ratio |\n|---|---|---|---|")
    for text in args.shapes:
        shape = [int(size) for size in text.split(",")]
        ours = theirs = 0.0
        for _ in range(args.rounds):
            ours = max(ours, prefold(args.program, shape))
            peer.stdin.write(json.dumps(shape) + "\n")
            peer.stdin.flush()
            theirs = max(theirs, json.loads(peer.stdout.readline()))
        print(f"| {', '.join(map(str, shape))} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.2f} |", flush=True)
    peer.stdin.close()
    peer.wait()


if __name__ == "__main__":
    main()
