"""Tests of a Rust test program: first all in one process, then those that failed or did not end one by one, because after a
device error a process cannot use the device any more, and every later test fails too."""

import re

from kit import ROOT, Outcome

RESULT = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", re.MULTILINE)
# Root of the fixtures; a missing device is a failure.
VARIABLES = {"PREFOLD_FIXTURES": str(ROOT), "REQUIRE_CUDA": "1"}
# Time limit in seconds of a test that runs alone, and the share of the time for the run of all tests: a hanging test must leave time
# for the others.
ALONE_S = 40
TOGETHER = 0.6


def run(kit, program, limit_s, skipped=()):
    """Runs the tests of `program`, without those whose names contain one of `skipped`."""
    start = kit.left()
    command = [kit.program(program), *(part for name in skipped for part in ("--skip", name))]
    listed = kit.run([*command, "--list", "--format", "terse"], limit_s)
    names = re.findall(r"^(\S+): test$", listed.output, re.MULTILINE)
    if not names:
        return Outcome("FAILED", f"{program} lists no tests: status {listed.status}", listed.output)
    together = kit.run(command, TOGETHER * min(limit_s, kit.left()), **VARIABLES)
    found = dict(RESULT.findall(together.output))
    suspects = [name for name in names if found.get(name) not in ("ok", "ignored")]
    output, verdicts = together.output, found | {name: "unfinished" for name in suspects}
    for done, name in enumerate(suspects):
        left = min(limit_s - (start - kit.left()), kit.left())
        if left <= 1:
            break
        alone = kit.run([kit.program(program), "--exact", name, "--nocapture"], min(ALONE_S, left / (len(suspects) - done)), **VARIABLES)
        verdicts[name] = "ok" if alone.ok else "stopped" if alone.status is None else "FAILED"
        output += alone.output
    wrong = [name for name in names if verdicts[name] not in ("ok", "ignored")]
    only_together = [name for name in suspects if verdicts[name] == "ok"]
    note = f"{len(names) - len(wrong)} of {len(names)} tests pass"
    if wrong:
        note += f"; not {', '.join(f'{name} ({verdicts[name]})' for name in wrong)}"
    if only_together:
        note += f"; alone, not with others: {', '.join(only_together)}"
    if kit.left() <= 1 and not only_together and all(verdicts[name] == "unfinished" for name in wrong):
        return Outcome("cut" if wrong else "ok", note, output, verdicts)
    return Outcome("FAILED" if wrong or only_together else "ok", note, output, verdicts)
