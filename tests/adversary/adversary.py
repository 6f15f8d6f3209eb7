#!/usr/bin/env python3
"""A standing adversary: attacks servers with every shape on every route, with floods, products, and seeded random combinations, and loads
models from folders and hubs that try to exhaust memory or time.

    tests/adversary/adversary.py [--seconds 600] [--seed 1] [--kind embedding|reranker|...|folders|hubs] [--only NAME] [--json FILE]

Starts servers of all kinds in turn (PREFOLD_PROFILE=release for the optimised ones) and attacks them, while a good client sends requests
from another process and the rules of oracle.py are checked; the rules for loading are in loader.py. Each broken rule is printed with the
attack's name and steps; `--kind KIND --seed SEED --only NAME` repeats that attack alone. Exits with 1 if there is a finding.
"""

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "load"), str(HERE.parent / "e2e")]

import folders  # noqa: E402
import loads  # noqa: E402
import rounds  # noqa: E402
import schedules  # noqa: E402
import specials  # noqa: E402
from field import KEPT, Field  # noqa: E402
from harness import eventually  # noqa: E402
from kinds import KINDS  # noqa: E402
from limits import MB, Limits  # noqa: E402
from oracle import HEALTH_MEDIAN, MOST, quantiles  # noqa: E402
from target import Target  # noqa: E402

# Limits of open files of the attacker and the server.
FILES = 8000


async def assail(field, seed, seconds, attacks, say=lambda line: None):
    """Runs attacks until the time is over; random attacks and single products only fill the remaining time."""
    deadline = time.monotonic() + seconds
    for name, run in attacks:
        if time.monotonic() > deadline and name.startswith(schedules.FILLERS):
            break
        begun = time.monotonic()
        before = len(field.oracle.findings)
        await run()
        if not field.oracle.windows:
            continue
        window = field.oracle.windows[-1]
        grown, bound = (window.peak - window.baseline) / MB, field.oracle.bound(window)[0] / MB
        say(f"{name:40} {time.monotonic() - begun:6.1f} s  {grown:7.1f} of {bound:7.1f} MB  "
            f"{len(field.oracle.findings) - before or '':>3}")
        if field.target.process.poll() is not None:
            field.oracle.find("death", f"the server ended with {field.target.process.returncode}", [window])
            break
        drop_old_windows(field.oracle)


def drop_old_windows(oracle, kept=200):
    """Drops windows that no observation can still overlap, for runs of hours."""
    if len(oracle.windows) > 2 * kept:
        del oracle.windows[:-kept]


def afterwards(field):
    """Checks after the attacks that the server is as before."""
    oracle, target = field.oracle, field.target
    if target.process.poll() is not None:
        return
    checks = {
        "requests in flight": lambda: target.metric("prefold_http_requests_in_flight") == 1,
        "waiting inputs": lambda: target.metric("te_queue_size") == 0,
        "waiting tokens": lambda: target.metric("prefold_queue_tokens") == 0,
        "calls, succeeded and failed": lambda: target.metric("te_request_count") == (
            target.metric("te_request_success") + target.metric("te_request_failure")),
        f"{field.descriptors} descriptors": lambda: oracle.vitals.descriptors() <= field.descriptors,
        f"{field.threads} threads": lambda: oracle.vitals.threads() <= field.threads + 1,
        f"{(field.resident + KEPT) / MB:.0f} MB": lambda: oracle.vitals.resident() <= field.resident + KEPT,
    }
    for what, is_so in checks.items():
        try:
            eventually(is_so, what, 25)
        except AssertionError:
            oracle.find("afterwards", f"not as before: {what}; {oracle.vitals.threads()} threads, {oracle.vitals.descriptors()} "
                                      f"descriptors, {oracle.vitals.resident() / MB:.0f} MB")
    specials.quota_is_whole(field)
    specials.stop_among_unfinished(field)
    target.log.thread.join(10)
    oracle.check_log([])
    median = quantiles([seconds for _, seconds, _ in oracle.health])
    if median["count"] and median["p50_ms"] > 1e3 * HEALTH_MEDIAN:
        oracle.find("latency", f"the median of health checks is {median['p50_ms']} ms")


def stopped(field):
    """Final checks: SIGTERM still works, and the log is right."""
    seconds = specials.seconds_to_end(field.target, field.limits.shutdown_timeout + specials.STOP)
    if seconds is None or field.target.process.returncode != 0:
        field.oracle.find("shutdown", f"status {field.target.process.returncode} after {seconds} s")
    field.target.log.thread.join(10)
    field.oracle.check_log([])


def attack(kind, seed, seconds, name=None, limits=Limits(), say=lambda line: None, attacks=schedules.everything_slowly, end=None):
    """Attacks a new server for a time, then stops it; returns its field with the findings."""
    one = KINDS[kind]
    limits = one.limits(limits)
    with tempfile.TemporaryDirectory(prefix="prefold-adversary-") as directory, \
            Target(limits, *one.arguments(Path(directory)), is_json=one.is_json) as target:
        field = Field(target, limits, one.questions)

        async def all_of_it():
            async with field.witnessed(one.questions):
                chosen = attacks(field, seed) if name is None else schedules.only(field, seed, name)
                await assail(field, seed, seconds, chosen, say)
        asyncio.run(all_of_it())
        (end or afterwards)(field)
        return field


def report(field, seed, kind):
    """All findings, each attack with the command that repeats it."""
    oracle = field.oracle
    lines = [f"adversary: {len(oracle.findings)} findings with seed {seed}, {kind}", *map(str, oracle.findings)]
    often = [f"  {count} times: {rule} ({', '.join(names)})" for (rule, *names), count in oracle.counts.items() if count > MOST]
    lines += [f"of a kind, {MOST} are shown:", *often] if often else []
    for window in oracle.windows:
        if any(window.name in finding.attacks for finding in oracle.findings):
            lines.append(f"{window.name}: tests/adversary/adversary.py --kind {kind} --seed {seed} --only {window.name}\n{window.steps}")
    return "\n".join(lines)


def figures(field):
    """The measured figures."""
    oracle = field.oracle
    kinds = sorted({what for _, _, what in oracle.good})
    return {
        "attacks": len(oracle.windows), "log_lines": field.target.log.count, "most_threads": oracle.threads,
        "most_reserved_mb": round(max((w.reserved for w in oracle.windows), default=0) / MB),
        "resident_mb": {"before": round(field.resident / MB, 1), "most": round(max((w.peak for w in oracle.windows), default=0) / MB, 1)},
        "health": quantiles([seconds for _, seconds, _ in oracle.health]),
        "good": {kind: quantiles([seconds for _, seconds, what in oracle.good if what == kind]) for kind in kinds},
        "refused": {" ".join(flags): count for flags, count in oracle.refused.items()},
    }


def may_open(files):
    """Raises this process' limit of open files, which the server inherits; False if the hard limit is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files if hard == resource.RLIM_INFINITY else min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted >= files


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=lambda text: int(text) if text.isdigit() else text, default=1, help="N; of a folder N.M too")
    parser.add_argument("--kind", choices=rounds.PARTS, help="only one kind of server, `folders` or `hubs`")
    parser.add_argument("--only", metavar="NAME", help="only one attack or load of --kind; `random` for all random ones")
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()
    if args.only and not args.kind:
        parser.error("--only needs --kind")
    if not may_open(FILES):
        parser.error(f"{FILES} open files are needed, the hard limit is {resource.getrlimit(resource.RLIMIT_NOFILE)[1]}")
    measured, findings = {}, 0
    for part, seed, result in parts(args, lambda line: print(line, flush=True)):
        one, count, text = told(part, seed, result)
        measured.setdefault(part, []).append(one)
        findings += count
        print(text, flush=True)
    print(json.dumps(measured, indent=1))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(measured, indent=1) + "\n")
    print(f"{findings} findings")
    return 1 if findings else 0


def parts(args, say):
    """(part, seed, field of a server or result of loads) of all requested parts."""
    if args.kind is None:
        for part, seed, result in rounds.run(attack, args.seed, args.seconds, say):
            if part == "embedding":
                specials.stop_among_heads(result.oracle.find)
            yield part, seed, result
    elif args.kind in KINDS:
        field = attack(args.kind, args.seed, args.seconds, args.only, say=say)
        if args.only is None:
            specials.stop_among_heads(field.oracle.find)
        yield args.kind, args.seed, field
    else:
        jobs = loads.only(args.seed, args.only) if args.only else rounds.load_jobs(args.kind, args.seed, folders.LONG)
        yield args.kind, args.seed, loads.run(jobs, args.seconds, say)


def told(part, seed, result):
    """(figures, findings, report) of a part."""
    if isinstance(result, Field):
        return figures(result), len(result.oracle.findings), report(result, seed, part)
    found, count = result
    lines = [f"adversary: {len(found)} findings with seed {seed} in {count} {part}", *found]
    return {"loads": count}, len(found), "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
