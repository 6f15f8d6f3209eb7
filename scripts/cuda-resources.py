#!/usr/bin/env python3
"""Registers, memory and instructions of the CUDA kernels on sm_90, compared with kernels/cuda/resources.tsv.

    cuda-resources.py            fails if a kernel differs from the table
    cuda-resources.py --write    writes the table
    cuda-resources.py DIRECTORY  the same for the fat binaries of a directory

Without a directory, the kernels are compiled by `cargo check -p prefold-kernels --features cuda`. The same compiler makes the same machine
code everywhere, so the comparison is exact; code of another compiler is not compared. The disassembler is taken from the toolkit at
CUDA_HOME or from PyPI (scripts/cuda-disassembler-requirements.txt).
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "kernels" / "cuda" / "resources.tsv"
REQUIREMENTS = ROOT / "scripts" / "cuda-disassembler-requirements.txt"
ARCHITECTURE = "sm_90"
# Columns that count an instruction in all its variants.
COUNTED = {"ldl": "LDL", "stl": "STL", "hmma": "HMMA", "ldsm": "LDSM", "ldgsts": "LDGSTS", "lds": "LDS", "sts": "STS", "ldg": "LDG", "stg": "STG",
           "bar": "BAR"}
COLUMNS = ["kernel", "registers", "stack", "shared", *COUNTED, "instructions"]
LEGEND = """\
# Kernels on {architecture}, by scripts/cuda-resources.py: registers of a thread, bytes of its stack and of a block's static shared memory, of which
# 1024 are the system's, and instructions: accesses to local memory (ldl and stl; spills, where there is a stack), products on tensor cores (hmma),
# reads of matrices (ldsm), asynchronous copies (ldgsts), accesses to shared and global memory, barriers, and all but padding.
"""


def run(*command, **settings):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **settings).stdout


def disassembler():
    """Directory with cuobjdump and nvdisasm."""
    tools = ["cuobjdump", "nvdisasm"]
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin"
    if all((toolkit / tool).exists() for tool in tools):
        return toolkit
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prefold" / f"cuda-disassembler-{digest}"
    programs = cache / "nvidia" / "cu13" / "bin"
    if not cache.exists():
        cache.parent.mkdir(parents=True, exist_ok=True)
        # The final rename is atomic, so that an interrupted run leaves nothing that looks complete.
        with tempfile.TemporaryDirectory(dir=cache.parent) as building:
            target = Path(building) / "packages"
            run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile",
                "--root-user-action", "ignore", "--target", str(target), "--requirement", str(REQUIREMENTS))
            for tool in tools:
                (target / "nvidia" / "cu13" / "bin" / tool).chmod(0o755)
            target.rename(cache)
    return programs


def compiled():
    """Fat binaries of the kernels, built with optimisation."""
    settings = {name: value for name, value in os.environ.items() if name not in ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS")}
    flags = os.environ.get("CARGO_FLAGS", "--locked").split()
    messages = run("cargo", "check", *flags, "-p", "prefold-kernels", "--features", "cuda", "--message-format", "json", cwd=ROOT, env=settings)
    for message in map(json.loads, messages.splitlines()):
        if message["reason"] == "build-script-executed" and re.search(r"[/#]prefold-kernels[@#]|/kernels#", message["package_id"]):
            return sorted(Path(message["out_dir"]).glob("*.fatbin"))
    sys.exit("cuda-resources: cargo names no output of prefold-kernels' build script")


def compiler(code):
    """Version and options of the assembler that made the code, from the section .note.nv.tkinfo."""
    note = re.search(rb"\0ptxas\0([^\0]*)\0[^\0]*\0([^\0]*)\0", code)
    return tuple(text.decode().strip() for text in note.groups())


def instructions(listing):
    """Kernel -> count of each instruction in its code, without variants and padding."""
    found, kernel = {}, None
    for line in listing.splitlines():
        if match := re.match(r"\s*Function : (\S+)", line):
            kernel = found[match[1]] = Counter()
        elif match := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)", line):
            kernel[match[1]] += match[1] != "NOP"
    return found


def resources(listing):
    """Kernel -> registers, bytes of stack, bytes of shared memory."""
    pattern = r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)"
    return {match[1]: [int(value) for value in match.groups()[1:]] for match in re.finditer(pattern, listing)}


def measure(files):
    """((version, options) of the compiler, kernel -> row)"""
    programs = disassembler()
    settings = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    made_by, rows = set(), {}
    for file in files:
        with tempfile.TemporaryDirectory() as directory:
            run("cuobjdump", "-arch", ARCHITECTURE, "-xelf", "all", str(file.resolve()), env=settings, cwd=directory)
            extracted = list(Path(directory).iterdir())
            if len(extracted) != 1:
                sys.exit(f"cuda-resources: {file} has no code for {ARCHITECTURE}")
            made_by.add(compiler(extracted[0].read_bytes()))
            used, counted = (read(run("cuobjdump", what, str(extracted[0]), env=settings))
                             for read, what in ((resources, "-res-usage"), (instructions, "-sass")))
        assert counted.keys() == used.keys(), (file, counted.keys() ^ used.keys())
        for kernel, counts in counted.items():
            rows[kernel] = used[kernel] + [counts[name] for name in COUNTED.values()] + [counts.total()]
    if len(made_by) != 1:
        sys.exit(f"cuda-resources: the kernels are of several compilers, or of none: {sorted(made_by)}")
    return made_by.pop(), rows


def read_table():
    """((version, options), kernel -> row) of the table."""
    lines = TABLE.read_text().splitlines()
    made_by = tuple(lines[0].removeprefix("# ").split(": ", 1))
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert rows[0] == COLUMNS, rows[0]
    return made_by, {kernel: [int(value) for value in values] for kernel, *values in rows[1:]}


def write_table(made_by, rows):
    with TABLE.open("w") as table:
        table.write(f"# {': '.join(made_by)}\n" + LEGEND.format(architecture=ARCHITECTURE))
        for row in [COLUMNS, *([kernel, *values] for kernel, values in sorted(rows.items()))]:
            print(*row, sep="\t", file=table)


def differences(expected, found):
    """One line for each kernel that differs."""
    for kernel in sorted(expected.keys() | found.keys()):
        if kernel not in found:
            yield f"{kernel}: gone"
        elif kernel not in expected:
            yield f"{kernel}: not in the table"
        elif found[kernel] != expected[kernel]:
            values = zip(COLUMNS[1:], expected[kernel], found[kernel])
            yield f"{kernel}: " + ", ".join(f"{name} {before} -> {now}" for name, before, now in values if before != now)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    files = sorted(arguments.directory.glob("*.fatbin")) if arguments.directory else compiled()
    made_by, rows = measure(files)
    if re.search(r"(^|\s)(-O|--opt-level)", made_by[1]):
        sys.exit(f"cuda-resources: the kernels were assembled with `{made_by[1]}`, and programs built here contain them. They were kept from a build with "
                 "NVCC_APPEND_FLAGS; make them anew without: rm -r target/cuda-kernels; touch kernels/build.rs")
    if arguments.write:
        write_table(made_by, rows)
        print(f"{TABLE.relative_to(ROOT)}: {len(rows)} kernels")
        return
    table_by, expected = read_table()
    if made_by[0] != table_by[0]:
        print(f"the kernels are of {made_by[0]}, the table of {table_by[0]}: not compared")
        return
    lines = [f"options: {table_by[1]} -> {made_by[1]}"] * (made_by[1] != table_by[1]) + list(differences(expected, rows))
    if lines:
        sys.exit("\n".join([*lines, f"\nThe kernels differ from {TABLE.relative_to(ROOT)}. If that is meant: scripts/cuda-resources.py --write"]))
    print(f"{len(rows)} kernels have the registers, memory and instructions of {TABLE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
