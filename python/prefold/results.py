"""Items of answers."""

from __future__ import annotations

from typing import NamedTuple


class Ranked(NamedTuple):
    """A text of a rerank call: its index among the texts and its score."""

    index: int  # type: ignore[assignment]  # The tuple's own `index` is given up for the name of the API.
    score: float


class Label(NamedTuple):
    """A label of a text and its score."""

    label: str
    score: float


class Token(NamedTuple):
    """A token. `start` and `stop` are character offsets in the text, its prompt included; None for special tokens."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None
