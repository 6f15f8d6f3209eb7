"""Files of a run, each complete on disk after every check, so that a killed run keeps its results.

`summary.md` has a line for each check of the lists; `results.json` the figures of the checks that write JSON; `log.txt` all output as it
is printed; `failures.txt` the output of the checks that failed.
"""

import json
import os
import sys
import time

FILES = ("summary.md", "results.json", "log.txt", "failures.txt")
# Size limit of each file; the excess is omitted with a note.
MOST_BYTES = 8 << 20
# Size limits of a check's output in log.txt and in failures.txt, and of its figures.
MOST_LOGGED = 1 << 20
MOST_FAILURE = 60_000
MOST_FIGURES = 1 << 20


class Results:
    """Results of a run in the directory `out`."""

    def __init__(self, out, title, checks):
        out.mkdir(parents=True, exist_ok=True)
        self.out = out
        self.title = title
        self.rows = {check.name: {"list": check.list, "verdict": "not run", "seconds": None, "note": ""} for check in checks}
        self.document = {"title": title, "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "checks": self.rows, "figures": {}}
        self.failures = ""
        self.log = (out / "log.txt").open("wb", buffering=0)
        self.logged = self.logged_of_check = 0
        self.write()

    def copy(self, text):
        """Appends output to the log and to standard output, up to a limit per check, so that a verbose check does not crowd out others."""
        piece = text.encode(errors="replace")
        left = min(MOST_BYTES - self.logged, MOST_LOGGED - self.logged_of_check)
        if left > 0:
            kept = piece if len(piece) <= left else piece[:left] + b"\n[the rest is left out: the limit of the log]\n"
            self.log.write(kept)
            say(kept.decode(errors="replace"))
        self.logged += min(len(piece), max(left, 0))
        self.logged_of_check += len(piece)

    def started(self, name):
        self.rows[name]["verdict"] = "unfinished"
        self.logged_of_check = 0
        self.write()

    def ended(self, name, verdict, seconds, note, output="", figures=None):
        """Records a check. `note` is one line for the summary, `figures` the JSON that the check wrote."""
        self.rows[name].update(verdict=verdict, seconds=round(seconds, 1), note=note)
        if figures is not None:
            fits = len(json.dumps(figures)) <= MOST_FIGURES
            self.document["figures"][name] = figures if fits else f"left out: more than {MOST_FIGURES} bytes"
        if verdict not in ("ok", "skipped", "cut"):
            self.failures += f"== {name}: {verdict} {note}\n{output[-MOST_FAILURE:]}\n\n"
        self.write()

    def write(self):
        """Writes the files, each replaced by an atomic rename, so that no file is ever incomplete."""
        replace(self.out / "summary.md", self.summary())
        replace(self.out / "results.json", json.dumps(self.document, indent=1))
        replace(self.out / "failures.txt", self.failures[-MOST_BYTES:])

    def summary(self):
        lines = [f"# {self.title}", ""]
        for name in dict.fromkeys(row["list"] for row in self.rows.values()):
            lines += [f"## {name}", "", "| check | verdict | seconds | |", "|---|---|---|---|"]
            for check, row in self.rows.items():
                if row["list"] == name:
                    seconds = "" if row["seconds"] is None else f"{row['seconds']:.1f}"
                    lines.append(f"| {check} | {row['verdict']} | {seconds} | {row['note'].replace('|', '/')} |")
            lines.append("")
        return "\n".join(lines)


def say(text):
    """Prints, and ignores a closed standard output, since the files have the same content."""
    try:
        print(text, end="", flush=True)
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")


def replace(path, text):
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(text)
    os.replace(unfinished, path)
