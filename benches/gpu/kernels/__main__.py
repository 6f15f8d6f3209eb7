"""Checks the CUDA kernels against float64 references and times them against torch, without prefold's program. See
README.md.

    benches/gpu/cubins.sh target/cubins
    python3 benches/gpu/kernels --modules target/cubins --out target/kernels.json
    python3 benches/gpu/kernels --modules target/cubins --time --only flash_attention,norm
"""

import argparse
import datetime
import os
import subprocess
import sys
import time
from pathlib import Path

try:
    import cases
    import modules
    import worker
    from case import Case
    from report import Report
    from supervisor import Child, Failed, Supervisor
except ImportError as error:
    print(f"=> no {error.name} here")
    sys.exit(77)  # Exit status for `skipped` (benches/gpu/kit.py).


def arguments():
    parser = argparse.ArgumentParser(prog="benches/gpu/kernels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=Path, help=f"directory of NAME.cubin or NAME.fatbin for {', '.join(modules.NAMES)}; files of the "
                                                     f"directory {modules.VARIABLE} replace them")
    parser.add_argument("--check", action="store_true", help="compare every kernel with its reference")
    parser.add_argument("--time", action="store_true", help="time kernels in published models' shapes; without --check and --time: both")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], metavar="NAME,...",
                        help=f"families ({', '.join(cases.FAMILIES)}) or beginnings of kernels' names")
    parser.add_argument("--rows", type=int, default=16_384, help="tokens of the batches that are timed (default 16384)")
    parser.add_argument("--small", action="store_true", help="time batches of 8 tokens in two short rounds, as on the simulated device")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS", help="start no case after this many seconds")
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS", help="abort a case that takes longer (default 60)")
    parser.add_argument("--seed", type=int, help="of the random inputs; default: another each time, which the output names")
    parser.add_argument("--no-torch", action="store_true", help="do not time torch")
    parser.add_argument("--list", action="store_true", help="print the cases and end")
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON of the results, written anew after each case")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if not parsed.check and not parsed.time:
        parsed.check = parsed.time = True
    if parsed.small:
        parsed.rows = 8
    if parsed.rows < 1:
        parser.error("--rows must be positive")
    return parser, parsed


def selected(args):
    """Pairs of a family and a case: all checks, then all timings."""
    found = []
    for timed in [False] * args.check + [True] * args.time:
        for family in cases.FAMILIES:
            known = cases.timings(family, args.rows) if timed else cases.checks(family)
            found += [(family, case) for case in known if cases.chosen(case, family, args.only)]
    return found


def commit():
    """The commit of the sources, if they are in a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True).stdout.strip() or None
    except OSError:
        return None # git is not installed.


def without_case(description):
    """Failures for kernels of the modules that no case checks; the kernels of a fatbin cannot be listed."""
    known = {case.kernel for family in cases.FAMILIES for case in cases.checks(family)}
    for name, module in description["modules"].items():
        for kernel in sorted((modules.kernels_of(Path(module["file"])) or set()) - known):
            yield name, Case(kernel, "has no case", None), {"ok": False, "problem": f"module {name} has a kernel that no case checks"}


def main():
    parser, args = arguments()
    if args.child:
        return worker.main()
    listed = selected(args)
    if not listed:
        parser.error(f"--only {','.join(args.only)} selects nothing")
    if args.list:
        for family, case in listed:
            print(family, case.name)
        return 0
    deadline = time.monotonic() + args.budget
    seed = int.from_bytes(os.urandom(4)) if args.seed is None else args.seed
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    report = Report(args.out, {"command": sys.argv, "commit": commit(), "date": date, "seed": seed, "rows": args.rows})
    settings = {"modules": args.modules and str(args.modules), "seed": seed, "rows": args.rows, "small": args.small, "torch": not args.no_torch}
    try:
        with Child(settings) as child:
            description = child.description
    except Failed as failure:
        report.content["problem"] = str(failure)
        report.write()
        print(f"no kernel can run: {failure}", file=sys.stderr)
        return 1
    report.begin(description)
    if args.check:
        for result in without_case(description):
            report.add(*result)
    left = []
    with Supervisor(settings, args.limit) as supervisor:
        for family, case in listed:
            if time.monotonic() >= deadline:
                left.append(case.name)
            else:
                report.add(family, case, supervisor.run(family, case))
    report.end(left)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
