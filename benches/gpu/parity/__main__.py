"""Compares prefold's answers with torch's on the same weights and batches, and measures torch's times: see README.md."""

import time

START = time.monotonic()

import sys  # noqa: E402

try:
    from command import main
except ImportError as error:
    print(f"=> no {error.name} here")
    sys.exit(77)  # Exit status for `skipped` (benches/gpu/kit.py).

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], start=START))
