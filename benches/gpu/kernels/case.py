"""What a case is: data that says how to run a kernel, what must come out, and what it costs."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from elements import Element, Values
from launch import Launch


@dataclass
class Buffer:
    """Device memory of a run."""

    element: Element
    size: int
    # The content before the run, of `size` elements; None: poison.
    values: Values | None
    # Whether the kernel may write to it.
    written: bool
    # Bytes after a multiple of 256 at which it begins.
    shift: int


class Buffers(dict):
    """The buffers of a run by name."""

    def input(self, name, values, shift=0):
        """Memory that the kernel only reads. Returns the values."""
        self[name] = Buffer(values.element, values.bits.size, values, False, shift)
        return values

    def in_place(self, name, values, shift=0):
        """Memory that the kernel reads and writes. Returns the values before."""
        self[name] = Buffer(values.element, values.bits.size, values, True, shift)
        return values

    def output(self, name, element, size, shift=0):
        """Memory that the kernel writes."""
        self[name] = Buffer(element, size, None, True, shift)

    def aligned(self, *names):
        """Whether 16 bytes may be read or written at once at the starts of these."""
        return all(self[name].shift % 16 == 0 for name in names if name in self)


@dataclass
class Output:
    """What a run must leave in a buffer, seen as a matrix of `rows` rows."""

    buffer: str
    rows: int
    # The rows of these indices as float64, [len(rows), width]. NaN must be NaN.
    reference: Callable[[np.ndarray], np.ndarray]
    # Largest absolute error of each value, for the same indices and the reference's rows; broadcast to them.
    tolerance: Callable[[np.ndarray, np.ndarray], np.ndarray | float]
    # Rows that are compared before a kernel is timed, drawn at random; other cases compare all.
    sample: int = 256


def exact(rows, expected):
    """The tolerance of kernels that only move or round."""
    return 0.0


@dataclass
class Run:
    """A kernel with its arguments. What is timed is the same as what is checked."""

    launch: Launch
    # In the kernel's order: Pointer, a number of ctypes, or Structure.
    arguments: list
    buffers: Buffers
    outputs: list[Output]
    # Bytes that must be read or written, and operations; 0 where nobody would compare them.
    bytes: int = 0
    flops: float = 0.0
    # `torch_equivalent(torch, tensors)` gets the buffers as flat tensors of their type, prepares views of them, and returns a
    # function that does with torch what the kernel does and returns the first output. None: torch has no such operation.
    torch_equivalent: Callable | None = None


@dataclass(frozen=True)
class Case:
    """A kernel under a name."""

    kernel: str
    # What sets it apart from the kernel's other cases.
    variant: str
    # Makes the run from a generator of random numbers; always the same from the same one.
    build: Callable[[np.random.Generator], Run] = field(repr=False)
    timed: bool = False

    @property
    def name(self):
        return f"{self.kernel} {self.variant}"


def case(kernel, variant, make, *arguments, timed=False, **settings):
    """The case whose run is `make(rng, *arguments, **settings)`."""
    return Case(kernel, variant, lambda rng: make(rng, *arguments, **settings), timed)
