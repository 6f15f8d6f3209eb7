"""Model folders whose items are each within a limit although their sum or product may exceed it. Importing the modules of makers fills
`FOLDERS`."""

import json
import random
import shutil
from dataclasses import dataclass, field

from harness import FIXTURES

FOLDERS = {}
# Bytes of the largest file of a short and of a long run.
SHORT, LONG = 3_000_000, 40_000_000


@dataclass
class Draft:
    """A copy of a fixture that a maker changes. `scale` is the approximate size of the largest file in bytes."""

    chance: random.Random
    path: object
    scale: int
    room: int = 0  # Bytes that loading may take in addition to the bound by file size.
    words: list = field(default_factory=list)  # Random choices, for a report.

    def count(self, bytes_each, most=None):
        """As many items of this size as fit the scale; sometimes far fewer."""
        count = max(1, int(self.scale / bytes_each))
        if self.chance.random() < 0.3:
            count = int(count ** self.chance.uniform(0.5, 1))
        return min(count, most) if most else count

    def choose(self, *values):
        number = self.chance.randrange(len(values))
        self.words.append(f"choice {number + 1}" if callable(values[number]) else str(values[number])[:40])
        return values[number]

    def json(self, name):
        return json.loads((self.path / name).read_text())

    def write(self, name, value):
        """Writes bytes, text or a JSON value."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(value, bytes):
            file.write_bytes(value)
        else:
            file.write_text(value if isinstance(value, str) else json.dumps(value))

    def edit(self, name, **changes):
        self.write(name, {**self.json(name), **changes})

    def remove(self, *names):
        for name in names:
            (self.path / name).unlink()

    def word(self, size):
        """Random letters, which no other word is likely to begin with."""
        return "%06x" % self.chance.getrandbits(24) + "".join(self.chance.choices("abcdefghijklmnop", k=max(0, size - 6)))

    def model(self):
        """The path to load: the folder, or its only GGUF file."""
        found = list(self.path.glob("*.gguf"))
        return found[0] if found else self.path

    def size(self):
        """Bytes of the files; a file with several names counts once."""
        found = {(at.st_dev, at.st_ino): at.st_size for at in (file.lstat() for file in self.path.rglob("*") if file.is_file())}
        return sum(found.values())


def folder(*fixtures):
    """Registers a maker: `maker(draft)` changes a copy of one of the fixtures."""
    def register(maker):
        FOLDERS[maker.__name__] = maker, fixtures
        return maker
    return register


def make(name, seed, path, scale):
    """Makes the folder of this name and seed at a path that does not exist yet; returns its draft."""
    chance = random.Random(f"{seed} {name}")
    maker, fixtures = FOLDERS[name]
    fixture = chance.choice(fixtures)
    shutil.copytree(FIXTURES / fixture, path, ignore=shutil.ignore_patterns("expected*", "grads*"))
    draft = Draft(chance, path, scale, words=[fixture])
    maker(draft)
    return draft
