"""One run of a kernel on the device, compared with its reference."""

import numpy as np

import memory
from memory import Memory
from modules import Launcher


class Mismatch(Exception):
    """A kernel's output differs from its reference."""


def differences(output, element, bits, rows):
    """The largest error of these rows as a share of the tolerance, 0 if all are exact. NaN is right only where the reference has NaN."""
    expected = np.asarray(output.reference(rows), np.float64)
    found = element.wide(bits.reshape(output.rows, -1)[rows])
    allowed = np.broadcast_to(output.tolerance(rows, expected), expected.shape)
    if found.shape != expected.shape:
        raise Mismatch(f"the reference has rows of {expected.shape[1]} values, {output.buffer} of {found.shape[1]}")
    with np.errstate(invalid="ignore"):
        error = np.abs(found - expected)
        equal = (found == expected) | (np.isnan(found) & np.isnan(expected))
        # NaN is not within any tolerance.
        wrong = ~(equal | (error <= allowed))
        share = np.where(equal, 0.0, error / np.maximum(allowed, np.finfo(float).tiny))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise Mismatch(f"{output.buffer}[{rows[row]}][{column}] is {found[row, column]:.9g}, expected {expected[row, column]:.9g} within "
                       f"{allowed[row, column]:.3g}; {np.count_nonzero(wrong)} of {wrong.size} values are wrong")
    return float(share.max(initial=0.0))


def unwritten(element, bits):
    """Indices of values that still have the poison from before the run."""
    poison = np.resize(memory.POISON, element.size).view(element.storage)
    # Compared as integers: a NaN equals nothing.
    return np.flatnonzero(bits.view(f"u{element.size}") == poison.view(f"u{element.size}"))


def compare(run, held, rng, everything):
    """Downloads all buffers and returns the largest error as a share of the tolerance. `everything`: all rows instead of a sample."""
    found = {}
    for name, buffer in held.items():
        try:
            found[name] = buffer.download()
        except AssertionError as problem:
            raise Mismatch(f"{name}: {problem}") from None
    worst = 0.0
    for output in run.outputs:
        buffer, bits = run.buffers[output.buffer], found[output.buffer]
        if buffer.values is None and (missing := unwritten(buffer.element, bits)).size:
            raise Mismatch(f"{missing.size} of {bits.size} values of {output.buffer} were not written, the first at {missing[0]}")
        rows = np.arange(output.rows)
        if not everything and output.rows > output.sample:
            rows = np.unique(np.concatenate([[0, output.rows - 1], rng.choice(output.rows, output.sample, replace=False)]))
        worst = max(worst, differences(output, buffer.element, bits, rows))
    return worst


class Session:
    """A run with its buffers on the device, for a `with` block."""

    def __init__(self, device, function, run):
        self.device, self.function, self.run = device, function, run
        self.memory = Memory(device, run.buffers)

    def launcher(self, held=None):
        addresses = {name: buffer.address for name, buffer in (held or self.memory).items()}
        return Launcher(self.device, self.function, self.run.launch, self.run.arguments, addresses)

    def check(self, rng, everything=True):
        """Uploads, launches once, and compares."""
        self.memory.upload()
        self.launcher()()
        self.device.synchronize()
        return compare(self.run, self.memory, rng, everything)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        # A lost context cannot free memory.
        if not getattr(error, "is_lasting", False):
            self.memory.free()
