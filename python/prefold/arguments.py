"""Type checks of arguments: the name of an argument determines its type."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .errors import InputError

LARGEST = 2**63 - 1


def check(**arguments: Any) -> None:
    """Raises `InputError` for the first argument that is not of its type."""
    for name, value in arguments.items():
        problem = KINDS[name](value)
        if problem:
            raise InputError(f"`{name}` {problem}", name)


def text(value: Any) -> str | None:
    """The problem of a value that must be a text, as the rest of a sentence; None if it is one."""
    if not isinstance(value, str):
        return f"is {type(value).__name__}; it must be str"
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return f"is not valid Unicode: {error}"
    return None


def flag(value: Any) -> str | None:
    """The problem of a value that must be True or False."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # The second: numpy's.
        return None
    return f"is {shown(value)}; it must be True or False"


def number(value: Any) -> str | None:
    """The problem of a value that must be a whole number: an int, or an integer of numpy."""
    try:
        # A bool is an int in Python.
        whole = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        whole = None
    if whole is None:
        return f"is {shown(value)}; it must be an int"
    return f"is {whole}; it must be from 1 to {LARGEST}" if abs(whole) > LARGEST else None


def positive(value: Any) -> str | None:
    """The problem of a value that must be a positive whole number."""
    return number(value) or (f"is {value}; it must be at least 1" if value < 1 else None)


def optional(kind: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
    """The problem of a value that may also be None."""
    return lambda value: None if value is None else kind(value)


def shown(value: Any) -> str:
    """The value if it is short, else its type."""
    written = repr(value)
    return written if len(written) <= 40 else type(value).__name__


KINDS: dict[str, Callable[[Any], str | None]] = {
    "query": text,
    "prompt_name": optional(text),
    "prompt": optional(text),
    "input_type": optional(text),
    "task": optional(text),
    "instruction": optional(text),
    "truncate": optional(flag),
    "normalize": optional(flag),
    "raw_scores": flag,
    "add_special_tokens": flag,
    "progress": flag,
    "batch": optional(number),
    "dimensions": optional(number),
    "top_n": optional(positive),
}
