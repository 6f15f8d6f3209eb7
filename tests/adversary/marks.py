"""Canaries: strings that belong to one client, and where they may appear."""

import re

# Kinds: a text to process, which appears in no log line and no message; a wrong value of a field, and a path, whose beginning
# messages may contain.
TEXT, FIELD, PATH = "tcn", "fcn", "pcn"
ANY = re.compile(rb"[tfp]cn[0-9a-f]{10}")
TEXTS = re.compile(rb"tcn[0-9a-f]{10}")
# Characters of a client's text in a message, and the dots after them.
CUT = 203
LENGTH = len(TEXT) + 10


def make(chance, kind=TEXT):
    return f"{kind}{chance.getrandbits(40):010x}"


def strings(value):
    """All strings of a JSON value, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def uncut(value):
    """A string of a JSON value that repeats a client's text beyond the cut, if there is one."""
    for text in strings(value):
        if len(ANY.findall(text.encode(errors="replace"))) * (LENGTH + 1) > CUT + LENGTH:
            return text
    return None
