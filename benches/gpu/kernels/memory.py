"""The buffers of a run in device memory, each between guard zones.

Guard zones of inputs are NaN in every float type and out of range as an index: a read of one shows in the output. Guard zones of written
buffers are large values, which, unlike NaN, no operation maps to themselves. Poison, the content of outputs before a run, is another NaN,
which no computation produces: unwritten words are recognised.
"""

import numpy as np

GUARD_BYTES = 4096
GUARD_OF_INPUT = np.frombuffer(b"\xf5\xff\xf5\xff", np.uint8)
GUARD_OF_OUTPUT = np.frombuffer(b"\x7f\x4b\x7f\x4b", np.uint8)
POISON = np.frombuffer(b"\xfe\xff\xfe\xff", np.uint8)


def filled(pattern, size):
    return np.resize(pattern, size)


class DeviceBuffer:
    """A buffer of a run: guard zone, content, guard zone."""

    def __init__(self, device, buffer):
        self.device, self.buffer = device, buffer
        self.start = GUARD_BYTES + buffer.shift
        self.end = self.start + buffer.size * buffer.element.size
        self.size = self.end + GUARD_BYTES
        self.guard = GUARD_OF_OUTPUT if buffer.written else GUARD_OF_INPUT
        self.base = device.allocate(self.size)

    @property
    def address(self):
        return self.base + self.start

    def upload(self):
        """Restores the content before the run and the guard zones."""
        image = np.empty(self.size, np.uint8)
        image[: self.start] = filled(self.guard, self.start)
        image[self.start : self.end] = self._before()
        image[self.end :] = filled(self.guard, GUARD_BYTES)
        self.device.upload(self.base, image)

    def _before(self):
        if self.buffer.values is None:
            return filled(POISON, self.end - self.start)
        return np.ascontiguousarray(self.buffer.values.bits).reshape(-1).view(np.uint8)

    def download(self):
        """The bits of the content; raises AssertionError if the kernel wrote to a guard zone or to an input."""
        image = np.empty(self.size, np.uint8)
        self.device.download(image, self.base)
        for place, zone in (("before", image[: self.start]), ("after", image[self.end :])):
            wrong = np.flatnonzero(zone != filled(self.guard, zone.size))
            if wrong.size:
                distance = self.start - wrong[-1] if place == "before" else wrong[0]
                raise AssertionError(f"{wrong.size} bytes {place} the buffer were written, the nearest {distance} bytes away")
        content = image[self.start : self.end]
        if not self.buffer.written and not np.array_equal(content, self._before()):
            raise AssertionError("an input was written")
        return content.view(self.buffer.element.storage)

    def copy_from(self, other):
        """Queues a copy of another buffer's memory, of the same size."""
        self.device.copy(self.base, other.base, self.size)

    def free(self):
        self.device.free(self.base)


class Memory(dict):
    """All buffers of a run by name, freed at the end of a `with` block."""

    def __init__(self, device, buffers):
        super().__init__()
        try:
            for name, buffer in buffers.items():
                self[name] = DeviceBuffer(device, buffer)
        except BaseException:
            self.free()
            raise

    def upload(self):
        for buffer in self.values():
            buffer.upload()

    def copy_from(self, other):
        for name, buffer in self.items():
            buffer.copy_from(other[name])

    @property
    def bytes(self):
        return sum(buffer.end - buffer.start for buffer in self.values())

    def free(self):
        while self:
            self.popitem()[1].free()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.free()
