"""The rules, checked while attacks run; a violation becomes a finding with the steps that reproduce it."""

import math
import time
from collections import Counter
from dataclasses import dataclass, field

import answers
from limits import ARENA, MB, STACK
from plays import Load
from raw import Vitals

# Seconds. The server's cores are shared with the attacker and often with other work, so these hold on a busy machine; the
# distribution is printed. The target for a health check is 0.1 s: this is the bound of the median.
HEALTH_MEDIAN, HEALTH_MAX, GOOD_MAX = 0.1, 3.0, 10.0
# Maximum findings kept per rule and attack.
MOST = 2


@dataclass
class Window:
    """The time of an attack, from its first connection until the server has released its resources."""

    name: str
    load: Load
    steps: str
    baseline: int
    addresses: int
    begun: float = field(default_factory=time.monotonic)
    ended: float = math.inf
    peak: int = 0
    reserved: int = 0  # Growth of the address space.

    def overlaps(self, begun, ended):
        return self.begun <= ended and begun <= self.ended


@dataclass
class Finding:
    rule: str
    detail: str
    attacks: list

    def __str__(self):
        return f"{self.rule} ({', '.join(self.attacks) or 'no attack'}): {self.detail}"


class Oracle:
    """All findings about one server."""

    def __init__(self, target, limits):
        self.target, self.limits = target, limits
        self.vitals = Vitals(target.process.pid)
        self.windows, self.findings, self.counts = [], [], Counter()
        self.health, self.good, self.refused = [], [], Counter()
        self.faults_seen = 0
        self.threads = 0

    def find(self, rule, detail, windows=()):
        names = [window.name for window in windows]
        self.counts[rule, *names] += 1
        if self.counts[rule, *names] <= MOST:
            self.findings.append(Finding(rule, str(detail), names))

    # Attacks.

    def begin(self, name, load, steps):
        """Opens the window of an attack."""
        self.note_peak()
        self.vitals.reset_peak()
        window = Window(name, load, steps, self.vitals.resident(), self.addresses())
        self.windows.append(window)
        return window

    def note_peak(self):
        peak = self.vitals.peak()
        for window in self.windows:
            if window.ended == math.inf:
                window.peak = max(window.peak, peak)

    def bound(self, window):
        """Bytes that the concurrent attacks may take together, and the terms as text."""
        load = sum((other.load for other in self.windows if other.overlaps(window.begun, window.ended)), Load())
        terms = ", ".join(f"{name} {value / MB:.1f}" for name, value in self.limits.terms(load).items() if value)
        return self.limits.bound(load), terms

    def addresses(self):
        """Bytes of address space."""
        return self.vitals._status("VmSize") * 1024  # noqa: SLF001

    def sample(self):
        """Samples figures for which the system records no peak, several times a second."""
        threads = self.vitals.threads()
        self.threads = max(self.threads, threads)
        for window in self.windows[-1:]:
            grown = self.addresses() - window.addresses
            window.reserved = max(window.reserved, grown)
            bound = self.bound(window)[0] + ARENA + STACK * threads
            if window.ended == math.inf and grown > bound:
                self.find("address space", f"{grown / MB:.0f} MB reserved, the bound is {bound / MB:.0f} MB", [window])

    def end(self, window):
        """Closes the window, and judges memory and the log."""
        is_alive = self.target.process.poll() is None
        if is_alive:
            self.note_peak()
        window.ended = time.monotonic()
        self.check_log([other for other in self.windows if other is window or other.ended == math.inf])
        grown = window.peak - window.baseline
        bound, terms = self.bound(window)
        if is_alive and grown > bound:
            self.find("memory", f"{grown / MB:.1f} MB more at the peak, the bound is {bound / MB:.1f} MB ({terms})", [window])

    def check_log(self, windows):
        faults = self.target.log.faults
        for what, line in faults[self.faults_seen:]:
            self.find("log", f"a line {what}: {line}", windows)
        self.faults_seen = len(faults)

    def check_answers(self, window, plays, heard):
        for one, was in zip(plays, heard):
            for rule, detail in answers.faults(one, was):
                self.find(rule, f"{detail}\n      by: {one}", [window])

    # The good client.

    def judge(self, seen):
        """Judges the witness's observations."""
        begun, seconds, what, status = seen["at"], seen["seconds"], seen["what"], seen["status"]
        windows = [window for window in self.windows if window.overlaps(begun, begun + seconds)]
        is_health = what.startswith("/health")
        (self.health if is_health else self.good).append((begun, seconds, what))
        if seconds > (HEALTH_MAX if is_health else GOOD_MAX):
            self.find("latency", f"{what} took {seconds:.1f} s", windows)
        if seen.get("is_foreign"):
            self.find("another's text", f"{what}: {seen['failure']}", windows)
        elif status != 200:
            self.refused.update([tuple(seen["flags"])] if status == 429 else [])
            self.find("refused" if status else "no answer", f"{what}: {status} {seen['failure']}", windows)
        if seen.get("is_same") is False:
            self.find("wrong answer", f"{what} is not what it was before the attack", windows)
        if "counts" in seen:
            self.find("another's tokens", f"{what}: counts differ from those alone: {difference(*seen['counts'])}", windows)


def difference(expected, got):
    return {name: (value, got.get(name)) for name, value in expected.items() if value != got.get(name)}


def quantiles(seconds):
    """Median, 99th percentile and maximum, in milliseconds."""
    ordered = sorted(seconds)
    at = lambda share: round(1e3 * ordered[min(int(share * len(ordered)), len(ordered) - 1)], 1)  # noqa: E731
    return {"count": len(ordered), "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1)} if ordered else {"count": 0}
