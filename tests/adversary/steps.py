"""Steps of an attacker's connection, and their player."""

import asyncio
import socket
import struct
from dataclasses import dataclass, field

# Maximum seconds of one write before the attacker gives up, and of one connection.
SEND_LIMIT = 20
# Maximum bytes of answers kept for the checks; the rest is read and counted.
KEPT = 1 << 20


@dataclass
class Heard:
    """What one connection received."""

    data: bytearray = field(default_factory=bytearray)
    count: int = 0
    is_closed: bool = False  # By the server.
    is_reset: bool = False
    is_sent: bool = True  # False after a write that failed.
    failure: str = ""

    def take(self, data):
        self.count += len(data)
        self.data += data[:max(0, KEPT - len(self.data))]
        self.is_closed = self.is_closed or not data

    @property
    def is_whole(self):
        """True unless bytes were dropped."""
        return self.count == len(self.data)


def shown(data, most=160):
    """Short form of bytes, for the steps that reproduce a finding."""
    return repr(data) if len(data) <= most else f"{data[:most]!r}... ({len(data)} bytes)"


@dataclass(frozen=True)
class Send:
    """A write of all bytes at once."""

    data: bytes

    async def run(self, loop, client, heard):
        try:
            async with asyncio.timeout(SEND_LIMIT):
                await loop.sock_sendall(client, self.data)
        except (OSError, TimeoutError):
            heard.is_sent = False  # Data that the server sent before closing is still read.

    def __str__(self):
        return f"send {shown(self.data)}"


@dataclass(frozen=True)
class Drip:
    """A write of `size` bytes at a time, with pauses."""

    data: bytes
    size: int = 1
    pause: float = 0.05

    async def run(self, loop, client, heard):
        for start in range(0, len(self.data), self.size):
            await Send(self.data[start:start + self.size]).run(loop, client, heard)
            if not heard.is_sent:
                return
            await asyncio.sleep(self.pause)

    def __str__(self):
        return f"send {self.size} bytes every {self.pause} s of {shown(self.data)}"


@dataclass(frozen=True)
class Pause:
    """A pause without reading or writing."""

    seconds: float

    async def run(self, loop, client, heard):
        await asyncio.sleep(self.seconds)

    def __str__(self):
        return f"neither read nor write for {self.seconds:.2f} s"


@dataclass(frozen=True)
class Read:
    """Reading until the server closes, for at most `seconds`; `size` bytes every `pause` seconds, or without pauses."""

    seconds: float
    size: int = 1 << 16
    pause: float = 0.0
    enough: int | None = None  # Bytes after which the step ends.

    async def run(self, loop, client, heard):
        had = heard.count
        try:
            async with asyncio.timeout(self.seconds):
                while not heard.is_closed and (self.enough is None or heard.count - had < self.enough):
                    heard.take(await loop.sock_recv(client, self.size))
                    if self.pause:
                        await asyncio.sleep(self.pause)
        except TimeoutError:
            pass
        except OSError:
            heard.is_closed = heard.is_reset = True

    def __str__(self):
        speed = f"{self.size} bytes every {self.pause} s" if self.pause else "all that comes"
        return f"read {speed} for {self.seconds:.2f} s, or until the end"


@dataclass(frozen=True)
class HalfClose:
    """The end of the client's sending half."""

    async def run(self, loop, client, heard):
        try:
            client.shutdown(socket.SHUT_WR)
        except OSError:
            heard.is_sent = False

    def __str__(self):
        return "close the sending half"


async def play(port, one, heard):
    """Plays one connection (`plays.Play`) from connecting to leaving; received data goes to `heard`."""
    loop = asyncio.get_running_loop()
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        client.setblocking(False)
        if one.receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, one.receive_buffer)
        async with asyncio.timeout(SEND_LIMIT):
            await loop.sock_connect(client, ("127.0.0.1", port))
        for step in one.steps:
            await step.run(loop, client, heard)
    except (OSError, TimeoutError) as error:
        heard.failure = repr(error)
    finally:
        if one.resets:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
