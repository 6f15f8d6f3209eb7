"""Progress of a call on standard error: tqdm's bar if tqdm is installed, else a line with a count."""

from __future__ import annotations

import sys
from typing import Protocol


class Bar(Protocol):
    """Progress of a call."""

    def update(self, texts: int) -> object: ...

    def close(self) -> object: ...


class Counter:
    """Line that counts texts."""

    def __init__(self, total: int | None) -> None:
        self.done, self.total = 0, total

    def update(self, texts: int) -> None:
        self.done += texts
        of = "" if self.total is None else f" of {self.total}"
        print(f"\r{self.done}{of} texts", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print(file=sys.stderr)


class Silent:
    """No progress."""

    def update(self, texts: int) -> None:
        pass

    def close(self) -> None:
        pass


def bar(total: int | None, shown: bool) -> Bar:
    """Progress over `total` texts; None if their number is unknown."""
    if not shown:
        return Silent()
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return Counter(total)
    shown_bar: Bar = tqdm(total=total, unit="text")
    return shown_bar
