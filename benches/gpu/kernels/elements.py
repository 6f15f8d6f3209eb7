"""Element types: conversion of numbers to the bits of a kernel's arguments, and back."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Element:
    """A type of the kernels. Arrays hold its bits in `storage`, a numpy type."""

    name: str
    storage: np.dtype
    # Largest relative error of rounding to the type, and half the distance between its smallest values.
    rounding: float
    smallest: float
    # torch's name.
    torch: str

    @property
    def size(self):
        return self.storage.itemsize

    def narrow(self, values):
        """The nearest values of the type, ties to even, as bits."""
        if self.name != "bf16":
            with np.errstate(over="ignore"):
                return np.asarray(values).astype(self.storage)
        values = np.asarray(values, np.float32)
        words = values.view(np.uint32)
        return np.where(np.isnan(values), 0x7FC0, (words + (words >> 16 & 1) + 0x7FFF) >> 16).astype(self.storage)

    def wide(self, bits):
        """Bits as float64; integers stay unchanged."""
        if self.name != "bf16":
            return bits.astype(np.float64)
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

    def rounded(self, values):
        """float64 values rounded through f32, as by a kernel that computes nothing."""
        with np.errstate(over="ignore"):
            return self.wide(self.narrow(np.asarray(values).astype(np.float32)))


F32 = Element("f32", np.dtype(np.float32), 2.0**-24, 2.0**-150, "float32")
BF16 = Element("bf16", np.dtype(np.uint16), 2.0**-8, 2.0**-134, "bfloat16")
F16 = Element("f16", np.dtype(np.float16), 2.0**-11, 2.0**-25, "float16")
# Indices, and rows that are copied bit for bit.
U32 = Element("u32", np.dtype(np.uint32), 0.0, 0.0, "int32")
U16 = Element("u16", np.dtype(np.uint16), 0.0, 0.0, "int16")

FLOATS = (F32, BF16, F16)


class Values:
    """An array of an element type; indexing gives float64, so that only the selected rows are widened."""

    def __init__(self, element, bits):
        self.element, self.bits = element, bits

    def __getitem__(self, index):
        return self.element.wide(self.bits[index])

    @property
    def shape(self):
        return self.bits.shape


def exactly(element, values):
    """Values rounded to the type."""
    return Values(element, element.narrow(np.asarray(values)))


# Random values of larger arrays repeat, since drawing them takes longer than the kernels; the period is not a multiple of a row.
PERIOD = (1 << 22) - 3


def random(rng, element, shape, low=-1.7, high=1.7):
    """Uniform values between `low` and `high`; indices below `high`."""
    count = int(np.prod(shape))
    if element in (U32, U16):
        return Values(element, rng.integers(0, high, shape, element.storage))
    some = element.narrow(rng.random(min(count, PERIOD), np.float32) * np.float32(high - low) + np.float32(low))
    return Values(element, np.resize(some, shape))


def small_first_row(values):
    """The same values with the first row scaled by 1e-3, small enough for a norm's eps to matter."""
    values.bits[0] = values.element.narrow(values[0] * 1e-3)
    return values
