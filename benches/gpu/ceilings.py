#!/usr/bin/env python3
"""Ceilings of a device, measured with torch: bytes per second of a copy in its memory, and operations per second of a
bfloat16 product.

    ceilings.py [--device cuda] [--out FILE.json]

Other measurements are reported as shares of these. Values are random: on zeros a device's clock is higher.
"""

import argparse
import json
import statistics
import sys
import time

# Exit status for `skipped` (kit.py).
SKIPPED = 77


def seconds(torch, device, work, runs=10, calls=5):
    """Median seconds per call over `runs` runs of `calls` calls in a row."""

    def wait():
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    times = []
    for run in range(runs + 2):
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            work()
        wait()
        if run > 1:  # the first runs choose kernels and raise the clock
            times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out")
    args = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(f"=> {error}")
        return SKIPPED
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        print("=> torch sees no CUDA device")
        return SKIPPED
    on_gpu = args.device.startswith("cuda")
    values, size = (1 << 30, 8192) if on_gpu else (1 << 22, 256)
    source = torch.randint(0, 1 << 30, (values // 4,), dtype=torch.int32, device=args.device)
    target = torch.empty_like(source)
    a, b = (torch.randn(size, size, dtype=torch.bfloat16, device=args.device) for _ in range(2))
    copied = 2 * 4 * source.numel() / seconds(torch, args.device, lambda: target.copy_(source)) / 1e9
    products = 2 * size**3 / seconds(torch, args.device, lambda: torch.mm(a, b)) / 1e12
    figures = {"copy GB/s (read and written)": copied, f"bfloat16 product {size} TFLOP/s": products, "torch": torch.__version__}
    print(f"=> copy {copied:.0f} GB/s, product of {size} x {size} x {size} {products:.1f} TFLOP/s, torch {torch.__version__}")
    if args.out:
        with open(args.out, "w") as file:
            json.dump(figures, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
