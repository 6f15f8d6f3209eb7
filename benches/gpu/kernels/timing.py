"""Times on the device: events around many launches on inputs that are not in the cache; torch's equivalent is timed the same way."""

import statistics
import time
from ctypes import byref, c_float, c_void_p
from dataclasses import dataclass

import torch_side
from driver import L2_BYTES
from memory import Memory

# Bytes copied to measure the device's bandwidth, limited to the free memory divided by COPY_SHARE.
COPY_BYTES, COPY_SHARE = 1 << 30, 8
# Inputs rotate through this many times the cache's size.
CACHES, MOST_SETS = 4, 16


@dataclass(frozen=True)
class Length:
    """Length of a timing: rounds, and the seconds and launches of a round."""

    rounds: int
    seconds: float
    least: int
    most: int


LONG = Length(rounds=9, seconds=0.002, least=5, most=50)
SHORT = Length(rounds=2, seconds=0, least=2, most=2)


@dataclass(frozen=True)
class Times:
    """Seconds per launch of each round."""

    rounds: list
    launches: int

    @property
    def median(self):
        return statistics.median(self.rounds)

    def description(self, prefix=""):
        microseconds = {"us": self.median, "us_min": min(self.rounds), "us_max": max(self.rounds)}
        return {prefix + name: seconds * 1e6 for name, seconds in microseconds.items()} | {prefix + "launches": self.launches}


class Timer:
    """Events of a device, and the bandwidth of a copy within it."""

    def __init__(self, device, length=LONG):
        self.device, self.driver, self.length = device, device.driver, length
        self.start, self.end = c_void_p(), c_void_p()
        for event in (self.start, self.end):
            self.driver.cuEventCreate(byref(event), 0)
        self.copy_bytes = min(COPY_BYTES, device.memory()[0] // COPY_SHARE) // 4096 * 4096
        self.copied = [device.allocate(self.copy_bytes) for _ in range(2)]
        for address in self.copied:
            # Not all zeros, which a device may move faster.
            self.driver.cuMemsetD8Async(address, 0x35, self.copy_bytes, device.stream)
        self.copy_seconds = 0.0
        copy = self.measure([lambda: self.copy(device.stream)], device.stream, launches=length.least)
        self.copy_seconds = copy.median
        # Bytes read and bytes written.
        self.copy_bytes_per_second = 2 * self.copy_bytes / copy.median

    def copy(self, stream):
        self.device.copy(*self.copied, self.copy_bytes, stream)

    def measure(self, queue, stream, launches=None):
        """Times of the functions in `queue`, each of which queues work on the stream; they alternate."""
        for work in queue:
            work()
        self.driver.cuStreamSynchronize(stream)
        if launches is None:
            seconds, _ = self._round(queue, stream, self.length.least, 0.0)
            launches = round(min(max(self.length.seconds / max(seconds, 1e-9), self.length.least), self.length.most))
        # The time that the host takes to queue a round.
        _, host = self._round(queue, stream, launches, 0.0)
        return Times([self._round(queue, stream, launches, host)[0] for _ in range(self.length.rounds)], launches)

    def _round(self, queue, stream, launches, host):
        """Seconds per launch on the device, and seconds of all launches on the host. The device is first kept busy with copies for
        longer than `host` seconds, so that it does not wait for the host between launches."""
        if self.copy_seconds and host:
            for _ in range(1 + int(2 * host / self.copy_seconds)):
                self.copy(stream)
        self.driver.cuEventRecord(self.start, stream)
        began = time.perf_counter()
        for i in range(launches):
            queue[i % len(queue)]()
        host = time.perf_counter() - began
        self.driver.cuEventRecord(self.end, stream)
        self.driver.cuStreamSynchronize(stream)
        milliseconds = c_float()
        self.driver.cuEventElapsedTime(byref(milliseconds), self.start, self.end)
        return milliseconds.value / 1e3 / launches, host

    def times(self, session, rng, with_torch):
        """Microseconds of a run's kernel, its bytes and operations per second, and the same for torch."""
        run, device = session.run, self.device
        wanted = CACHES * device.attribute(L2_BYTES)
        sets = min(max(-(-wanted // session.memory.bytes), 1), MOST_SETS)
        others = []
        try:
            for _ in range(sets - 1):
                others.append(Memory(device, run.buffers))
                others[-1].copy_from(session.memory)
            held = [session.memory, *others]
            queue = [session.launcher(memory) for memory in held]
            found = self.measure(queue, device.stream)
            result = {**found.description(), "sets": sets, "copy_GB/s": self.copy_bytes_per_second / 1e9}
            if run.bytes:
                rate = run.bytes / found.median
                result |= {"GB/s": rate / 1e9, "of_copy": rate / self.copy_bytes_per_second}
            if run.flops:
                result["TFLOP/s"] = run.flops / found.median / 1e12
            if with_torch and run.torch_equivalent:
                result |= torch_side.times(self, session, held, rng)
            return result
        finally:
            for memory in others:
                memory.free()
