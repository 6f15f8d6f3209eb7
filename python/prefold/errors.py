"""Exceptions of the package. `PrefoldError` is the base of all."""

from __future__ import annotations


class PrefoldError(Exception):
    """Base of all errors of prefold."""


class LoadError(PrefoldError, RuntimeError):
    """The model cannot be downloaded or read, or its settings are not supported."""


class SettingError(PrefoldError, ValueError):
    """A setting of the model is unknown, out of range or contradicts another one, or the model does not exist."""


class InputError(PrefoldError, ValueError):
    """An argument of a call has the wrong type, is out of range, or is empty. `field` is its name."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message, field)
        self.field = field

    def __str__(self) -> str:
        return str(self.args[0])


class TooLongError(InputError):
    """A text has more tokens than the model takes, and `truncate` is False."""


class TokenizationError(InputError):
    """The tokenizer cannot encode a text."""


class NotCapableError(PrefoldError, TypeError):
    """The model lacks this capability, for example labels of an embedding model."""


class OverloadedError(PrefoldError, RuntimeError):
    """A limit of the model's settings is reached, for example `max_concurrent_requests`."""


class InferenceError(PrefoldError, RuntimeError):
    """The forward pass failed."""


class ClosedError(PrefoldError, RuntimeError):
    """The model was closed."""


class ForkError(PrefoldError, RuntimeError):
    """The process was forked after its parent had loaded a model; the model's threads do not exist here."""
