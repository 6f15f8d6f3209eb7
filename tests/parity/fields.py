"""The list of settings, parsed from the generated table in docs/models.md: the fields that drafts vary."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "models.md"
ROW = re.compile(r"^\| (\S.*?) \| (followed|refused|named|named in some|no effect) \| (`.*`.*?) \| (.*) \|$")
FIELD = re.compile(r"`([^`]+)`(?: \(unless ([^)]*)\))?")


@dataclass(frozen=True)
class Field:
    file: str
    name: str
    mark: str
    default: str
    read_in: str

    def defaults(self):
        """Values that a refused or named field may have."""
        return [json.loads(value) for value in self.default.split(" or ")] if self.default else []


def listed(text=None):
    """All fields of the table, in its order."""
    text = text or DOCUMENT.read_text(encoding="utf-8")
    table = text.split("<!-- settings:")[1].split("<!-- end of settings -->")[0]
    found = []
    for line in table.splitlines():
        if row := ROW.match(line):
            file, mark, fields, read_in = row.groups()
            found += [Field(file, name, mark, default, read_in) for name, default in FIELD.findall(fields)]
    stated = int(re.search(r"^(\d+) fields:", table, re.MULTILINE).group(1))
    if len(found) != stated:
        raise ValueError(f"the table states {stated} fields and has {len(found)}")
    return found
