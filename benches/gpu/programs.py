#!/usr/bin/env python3
"""Collects the programs of the kit in one directory, under the names that run.py expects: prefold, prefold-bench, test-kernels,
test-backends, and the kernel modules that they contain.

    cargo test ... --no-run --test cuda --message-format json | programs.py BUILT TO

Cargo's messages name the test programs and the output of build scripts; BUILT (target/release) has the other programs. Files are
links; earlier builds of the same names are replaced.
"""

import json
import sys
from pathlib import Path


def found(messages, built):
    """Names in the directory and their files."""
    files = {name: built / name for name in ("prefold", "prefold-bench")}
    for message in messages:
        crate = "kernels" if "prefold-kernels" in message.get("package_id", "") else "backends"
        if message["reason"] == "compiler-artifact" and message["executable"] and message["target"]["name"] == "cuda":
            files[f"test-{crate}"] = Path(message["executable"])
        if message["reason"] == "build-script-executed":
            files |= {f"modules/{module.name}": module for module in Path(message["out_dir"]).glob("*.fatbin")}
    return files


def main(built, to):
    files = found(map(json.loads, sys.stdin), Path(built))
    (Path(to) / "modules").mkdir(parents=True, exist_ok=True)
    missing = {"test-kernels", "test-backends", "modules/attention.fatbin"} - set(files)
    if missing or not all(file.exists() for file in files.values()):
        sys.exit(f"programs.py: not built: {', '.join(sorted(missing)) or files}")
    for name, file in files.items():
        (Path(to) / name).unlink(missing_ok=True)
        (Path(to) / name).symlink_to(file.resolve())


if __name__ == "__main__":
    main(*sys.argv[1:])
