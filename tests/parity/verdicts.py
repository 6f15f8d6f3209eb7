"""Comparison of the two sides' answers, without their libraries."""

import json
import math
import re
from dataclasses import dataclass, field

VECTOR, RELATIVE = 1e-4, 2e-3
# Maximum ratio of the server's rounding error to the libraries'.
ROUNDING = 4


@dataclass
class Outcome:
    """What became of a draft. `kind`: equal, refused, named, oracle (it fails), different."""
    kind: str
    reason: str = ""
    # Of a difference: the ask, the text's number, both answers.
    where: dict = field(default_factory=dict)
    compared: int = 0
    skipped: int = 0
    requests_refused: list = field(default_factory=list)


def is_finite(value):
    if isinstance(value, (list, tuple)):
        return all(map(is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def agree(ask, want, got):
    """True if two answers are the same within the tolerance of their kind."""
    if isinstance(want, (list, tuple)) and isinstance(got, (list, tuple)):
        if len(want) != len(got):
            return False
        if ask["ask"] == "embed":
            scale = VECTOR * max(1.0, max(map(abs, want), default=1.0))
            return all(abs(a - b) <= scale for a, b in zip(want, got))
        return all(agree(ask, a, b) for a, b in zip(want, got))
    if isinstance(want, float) or isinstance(got, float):
        return abs(want - got) <= RELATIVE * abs(want) + VECTOR
    return want == got


def numbers(answer):
    """The numbers of an answer, in order."""
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, (list, tuple)):
        return [number for part in answer for number in numbers(part)]
    return [answer] if isinstance(answer, float) else []


def is_rounding(want, got, exact):
    """True if an answer is about as far from the libraries' answer in float64 as their answer in float32 is."""
    want, got, exact = map(numbers, (want, got, exact))
    if not exact or not len(want) == len(got) == len(exact):
        return False
    theirs, ours = (max(abs(a - b) for a, b in zip(answer, exact)) for answer in (want, got))
    return ours <= ROUNDING * theirs


def compare(pairs, warnings, settings):
    """The outcome of (ask, texts, the libraries' answers, the server's answers)."""
    outcome = Outcome("equal")
    for ask, wanted, given in pairs:
        if len(wanted) != len(given):
            return Outcome("different", "number of answers", {"ask": ask, "text": 0, "want": len(wanted), "got": len(given)})
        for number, (want, got) in enumerate(zip(wanted, given)):
            if want is None or not is_finite(want):
                outcome.skipped += 1
            elif isinstance(got, dict):
                outcome.requests_refused.append(shortened(got["error"]))
                if got["status"] >= 500:
                    return Outcome("different", f"status {got['status']}", {"ask": ask, "text": number, "want": want, "got": got})
            elif agree(ask, want, got):
                outcome.compared += 1
            else:
                where = {"ask": ask, "text": number, "want": want, "got": got}
                kind = "named" if is_named(warnings, settings) else "different"
                return Outcome(kind, shortened("; ".join(warnings)) if kind == "named" else ask["ask"], where)
    return outcome


def is_named(texts, settings):
    """True if a text names the field of a setting."""
    return any(re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", text) for text in texts for _, name, _ in settings)


def shortened(message):
    """A reason without values, so that equal reasons count as one."""
    message = re.sub(r"\x1b\[[0-9;]*m", "", message)
    lines = [line for line in message.splitlines() if "ERROR" in line or "error" in line.lower()] or message.splitlines() or [""]
    line = lines[-1].split("ERROR")[-1]
    line = re.sub(r"/tmp/\S+", "PATH", line)
    line = re.sub(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", "VALUE", line)
    return re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "N", line).strip()[:240]


def as_text(value):
    return json.dumps(value, ensure_ascii=False)
