#!/usr/bin/env python3
"""The machine: device and driver, C library, cuBLAS, Python packages, and whether prefold starts there.

    machine.py PREFOLD DEVICE

Fails if prefold does not start or, for a CUDA device, if the driver or cuBLAS of CUDA 13 cannot be opened.
"""

import ctypes
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

PACKAGES = ("torch", "transformers", "sentence-transformers", "numpy", "cupy-cuda13x", "safetensors")


def said(*command):
    """Output of a command, or the reason why there is none."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=15)
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


def without_device():
    """What prefold lacks to use a device, or None."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        ctypes.CDLL("libcublas.so.13")
    except OSError as error:
        return str(error)
    count = ctypes.c_int()
    if status := driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return f"the driver's error {status}"
    return None if count.value else "the driver sees no device"


def main(prefold, wanted):
    device = said("nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit", "--format=csv,noheader")
    print(f"device    {device}")
    print(f"system    {platform.platform()}, {os.cpu_count()} CPUs, {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') >> 30} GiB")
    print(f"libc      {said('ldd', '--version').splitlines()[0]}")
    print(f"nvcc      {said('nvcc', '--version').splitlines()[-1]}")
    print(f"cuBLAS    {cublas()}")
    print(f"packages  {', '.join(f'{name} {version(name)}' for name in PACKAGES)}")
    print(f"Python    {sys.version.split()[0]}")
    start = subprocess.run([prefold, "--version"], capture_output=True, text=True, errors="replace")
    print(f"prefold   {(start.stdout + start.stderr).strip()}")
    glibc = re.findall(r"GLIBC_[0-9.]+", start.stderr)
    problems = [f"prefold does not start: {', '.join(glibc) or start.stderr.strip()[:80]}"] if start.returncode else []
    if wanted.startswith("cuda") and (missing := without_device()):
        problems.append(missing)
    print("=> " + "; ".join([device.splitlines()[0], *problems]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
