"""Cases as data: how to run a kernel, its expected output, and its cost."""

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
    # The content before the run, with `size` elements; None: poison.
    values: Values | None
    # Whether the kernel may write to it.
    written: bool
    # Offset of its start from a multiple of 256 bytes.
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
        """Whether all starts are aligned to 16 bytes."""
        return all(self[name].shift % 16 == 0 for name in names if name in self)


@dataclass
class Output:
    """Expected content of a buffer after a run, as a matrix of `rows` rows."""

    buffer: str
    rows: int
    # The rows of the given indices as float64, [len(rows), width]. An expected NaN must be NaN.
    reference: Callable[[np.ndarray], np.ndarray]
    # Maximum absolute error of each value, for the same indices and the reference's rows; broadcast to their shape.
    tolerance: Callable[[np.ndarray, np.ndarray], np.ndarray | float]
    # Number of random rows that are compared before a kernel is timed; other cases compare all.
    sample: int = 256


def exact(rows, expected):
    """The tolerance of kernels that only move or round."""
    return 0.0


@dataclass
class Run:
    """A kernel with its arguments. Timed runs are also checked."""

    launch: Launch
    # In the kernel's order: Pointer, a ctypes number, or Structure.
    arguments: list
    buffers: Buffers
    outputs: list[Output]
    # Minimum bytes read or written, and operations; 0 where they are not reported.
    bytes: int = 0
    flops: float = 0.0
    # `torch_equivalent(torch, tensors)` gets the buffers as flat tensors of their type, prepares views of them, and returns a
    # function that does with torch what the kernel does and returns the first output. None: torch has no such operation.
    torch_equivalent: Callable | None = None


@dataclass(frozen=True)
class Case:
    """A kernel under a name."""

    kernel: str
    # Name among the kernel's cases.
    variant: str
    # Makes the run from a random number generator, deterministically.
    build: Callable[[np.random.Generator], Run] = field(repr=False)
    timed: bool = False

    @property
    def name(self):
        return f"{self.kernel} {self.variant}"


def case(kernel, variant, make, *arguments, timed=False, **settings):
    """The case whose run is `make(rng, *arguments, **settings)`."""
    return Case(kernel, variant, lambda rng: make(rng, *arguments, **settings), timed)
