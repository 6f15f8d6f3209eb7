#!/usr/bin/env python3
"""Checks and timings of prefold on this machine's GPU, for a machine available for a few minutes.

    run.py [right] [fast] --programs DIR --out DIR [--budget SECONDS]

`right` checks the device's results, `fast` measures times; the most important checks come first (checks.py). The files of --out are
complete after every check, and the run always ends when the budget is spent, even if a check hangs. The status is 1 if a check failed or
reached its own limit, 2 if one was cut or not run for lack of time, else 0. README.md explains how to get the programs.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import FAST, RIGHT
from kit import FULL, ROOT, SMALL, Kit, Outcome
from results import Results, say

# Ends a run before a machine's limit of ten minutes.
BUDGET_S = 560


def main():
    start = time.monotonic()
    args = arguments()
    checks = chosen(args)
    args.work.mkdir(parents=True, exist_ok=True)
    title = f"prefold {commit(args.programs)} on a GPU: {' and '.join(args.lists)}{'' if built_from_here(args.programs) else ' (the checkout is another commit)'}"
    results = Results(args.out, title, checks)
    for sign in signal.SIGTERM, signal.SIGHUP:
        signal.signal(sign, lambda *_: sys.exit("run.py: told to stop"))
    sys.stdout.reconfigure(errors="replace")
    kit = Kit(args.programs.resolve(), args.modules and args.modules.resolve(), args.work.resolve(), args.device, SMALL if args.small else FULL,
              start + args.budget, results.copy)  # fmt: skip
    for check in checks:
        if kit.left() > 1:
            attempt(kit, results, check)
    say("\n" + results.summary() + "\n")
    verdicts = [row["verdict"] for row in results.rows.values()]
    return 1 if {"FAILED", "stopped"} & set(verdicts) else 2 if {"cut", "not run"} & set(verdicts) else 0


def attempt(kit, results, check):
    """Runs a check; its own faults are a failure of the check, not of the run."""
    results.started(check.name)
    results.copy(f"\n== {check.name}, {kit.left():.0f} s left\n")
    began = kit.left()
    try:
        outcome = check.run(kit, check.limit_s)
    except Exception as error:
        outcome = Outcome("FAILED", f"the kit: {type(error).__name__}: {error}")
    results.ended(check.name, outcome.verdict, began - kit.left(), outcome.note, outcome.output, outcome.figures)
    results.copy(f"== {check.name}: {outcome.verdict} {outcome.note}\n")


def chosen(args):
    """The checks of the lists or of --only, from --from on."""
    checks = [check for name, group in (("right", RIGHT), ("fast", FAST)) if name in args.lists for check in group]
    names = [check.name for check in RIGHT + FAST]
    if unknown := set(args.only + ([args.first] if args.first else [])) - set(names):
        sys.exit(f"run.py: there is no check {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if args.only:
        checks = [check for check in RIGHT + FAST if check.name in args.only]
    if args.first:
        chosen = [check.name for check in checks]
        if args.first not in chosen:
            sys.exit(f"run.py: --from {args.first}: the check is not in the list")
        checks = checks[chosen.index(args.first) :]
    return checks


def commit(programs):
    """The commit that the programs were built from, written next to them by pack.sh."""
    try:
        return (programs / "commit").read_text().strip()[:12]
    except OSError:
        return "(commit unknown)"


def built_from_here(programs):
    """False if the programs were built from another commit than the checkout with the scripts and fixtures."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True) if shutil.which("git") else None
    return head is None or head.returncode != 0 or head.stdout.startswith(commit(programs)) or commit(programs).startswith("(")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists", nargs="*", choices=["right", "fast", []], help="default: both")
    parser.add_argument("--programs", type=Path, default=ROOT / "bin", help="directory of prefold, prefold-bench, test-kernels and test-backends")
    parser.add_argument("--modules", type=Path, help="directory of the kernels' modules; default: modules in the directory of the programs")
    parser.add_argument("--out", type=Path, default=Path("results"), help="directory of the results")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "prefold-gpu", help="directory of generated models and servers' logs")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds until the run ends (%(default)s)")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="names of checks")
    parser.add_argument("--from", dest="first", help="name of the first check to run")
    parser.add_argument("--small", action="store_true", help="small loads: the whole kit on a CPU or the simulated device")
    args = parser.parse_args()
    args.lists = args.lists or ["right", "fast"]
    if args.modules is None and (args.programs / "modules").is_dir():
        args.modules = args.programs / "modules"
    return args


if __name__ == "__main__":
    sys.exit(main())
