#!/usr/bin/env python3
"""The machine: device and driver, C library, cuBLAS, Python packages, and whether prefold starts there.

    machine.py PREFOLD

Fails if prefold does not start or sees no device.
"""

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

PACKAGES = ("torch", "transformers", "sentence-transformers", "numpy", "cupy-cuda13x", "safetensors")


def said(*command):
    """What a command prints, or why it prints nothing."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=15)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    return (ended.stdout + ended.stderr).strip() or f"{command[0]}: status {ended.returncode}"


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def cublas():
    paths = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return next((str(Path(path) / "libcublas.so.13") for path in paths if path and (Path(path) / "libcublas.so.13").exists()), "none in the library path")


def main(prefold):
    device = said("nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit", "--format=csv,noheader")
    print(f"device    {device}")
    print(f"system    {platform.platform()}, {os.cpu_count()} CPUs, {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') >> 30} GiB")
    print(f"libc      {said('ldd', '--version').splitlines()[0]}")
    print(f"nvcc      {said('nvcc', '--version').splitlines()[-1]}")
    print(f"cuBLAS    {cublas()}")
    print(f"packages  {', '.join(f'{name} {version(name)}' for name in PACKAGES)}")
    print(f"Python    {sys.version.split()[0]}")
    start = subprocess.run([prefold, "--version"], capture_output=True, text=True)
    print(f"prefold   {(start.stdout + start.stderr).strip()}")
    glibc = re.findall(r"GLIBC_[0-9.]+", start.stderr)
    print(f"=> {device}" + (f"; prefold does not start: {', '.join(glibc) or start.stderr.strip()[:80]}" if start.returncode else ""))
    return start.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
