"""Answers of prefold beside torch's on the same weights and batches, and torch's times: see README.md."""

import time

START = time.monotonic()

import sys  # noqa: E402

from command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], start=START))
