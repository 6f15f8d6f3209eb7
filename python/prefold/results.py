"""Items of answers."""

from __future__ import annotations

from typing import NamedTuple


class Ranked(NamedTuple):
    """A text of a rerank call: its index among the texts and its score."""

    index: int  # type: ignore[assignment]  # Hides the tuple's own `index` in favour of the API's name.
    score: float


class Label(NamedTuple):
    """A label of a text and its score."""

    label: str
    score: float


class Token(NamedTuple):
    """A token. `start` and `stop` are character offsets in the text including its prompt; None for special tokens."""

    id: int
    text: str
    special: bool
    start: int | None
    stop: int | None
