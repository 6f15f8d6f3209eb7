"""Results: a table printed row by row, and a JSON file that is complete after every row; and the time budget."""

import json
import math
import os
import time

COLUMNS = {
    "parity": {"batch": 28, "way": 16, "smallest": 10, "mean": 10, "difference": 11, "length": 9, "nearest": 10, "misplaced": 10, "verdict": 8},
    "layers": {"layers": 8, "batch": 28, "way": 16, "smallest": 10, "mean": 10, "difference": 11, "verdict": 8},
    "times": {"batch": 28, "torch": 10, "tokens": 8, "padded": 8, "ms": 10, "range": 18, "tokens/s": 11,
              "off x": 8, "ragged x": 9, "compact x": 10, "compile s": 10},
}  # fmt: skip


class OutOfTime(Exception):
    """The budget is spent."""


class Clock:
    """A budget of seconds since `start`; the last twentieth is reserved for work that cannot be interrupted."""

    def __init__(self, budget=None, start=None):
        self.deadline = math.inf if budget is None else (time.monotonic() if start is None else start) + 0.95 * budget

    def left(self):
        return self.deadline - time.monotonic()

    def check(self):
        """Raises OutOfTime if the budget is spent."""
        if self.left() <= 0:
            raise OutOfTime


class Document:
    """Rows of the tables of COLUMNS, printed and, if a path is given, written."""

    def __init__(self, path, head):
        self.path = path
        self.content = head | {name: [] for name in COLUMNS} | {"ended": None}
        self.table = None
        self.write()

    def add(self, table, row):
        columns = COLUMNS[table]
        if self.table != table:
            self.table = table
            print("\n" + line(columns, {name: name for name in columns}))
        print(line(columns, row), flush=True)
        if row.get("failed"):
            print(f"    {row['failed']}", flush=True)
        self.content[table].append(row)

    def ended(self, why):
        """The reason for missing rows."""
        print(f"\n{why}", flush=True)
        self.content["ended"] = why
        self.write()

    def write(self):
        """Replaces the file atomically."""
        if self.path:
            unfinished = self.path.with_name(self.path.name + ".unfinished")
            unfinished.write_text(json.dumps(finite(self.content), indent=1))
            os.replace(unfinished, self.path)


def finite(value):
    """The same with the strings NaN, Infinity and -Infinity for numbers that JSON lacks."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def line(columns, row):
    """Texts to the left, numbers to the right."""
    cells = [(shown(name, row.get(name)), width) for name, width in columns.items()]
    texts = ("layers", "batch", "way", "torch")
    return "".join(text.ljust(width) if name in texts else text.rjust(width) for name, (text, width) in zip(columns, cells)).rstrip()


def shown(name, value):
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return "-".join(shown(name, item) for item in value)
    if not isinstance(value, float):
        return str(value)
    if name in ("smallest", "mean", "nearest"):
        return f"{value:.6f}"
    if name in ("difference", "length"):
        return f"{value:.1e}"
    return f"{value:.0f}" if value >= 1000 else f"{value:.2f}" if value < 100 else f"{value:.1f}"
