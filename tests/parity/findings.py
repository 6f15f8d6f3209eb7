"""Findings: minimised, told apart, written as folders that can be replayed."""

import json

import verdicts
from minimise import minimise


def fields_of(draft):
    """Names of a draft's settings, without values."""
    return frozenset((file, name) for file, name, _ in draft["settings"] if name not in ("num_hidden_layers", "n_layers"))


class Findings:
    """The findings of a run. `judge(draft)` gives an outcome, `write(draft, folder)` a checkpoint."""

    def __init__(self, judge, write, folder, most=2):
        self.judge, self.write, self.folder, self.most = judge, write, folder, most
        # By (ask, fields of the smallest draft): drafts of it.
        self.known = {}

    def add(self, draft, outcome):
        """Minimises a draft that differs, unless a known finding explains it; returns its key."""
        if key := self.explained(draft, outcome):
            self.known[key].append(draft)
            return key
        ask = outcome.where["ask"]["ask"]

        def differs(candidate):
            found = self.judge(candidate)
            return found.kind == "different" and found.where["ask"]["ask"] == ask
        smallest = minimise(draft, differs, outcome.where.get("text", 0))
        key = ask, fields_of(smallest)
        self.known.setdefault(key, []).append(draft)
        if len(self.known[key]) <= self.most:
            self.store(smallest, draft)
        return key

    def explained(self, draft, outcome):
        """A known finding without whose settings the draft no longer differs."""
        ask = outcome.where["ask"]["ask"]
        for known, fields in self.known:
            if known == ask and fields and fields <= fields_of(draft) and len(self.known[known, fields]) >= self.most:
                rest = {**draft, "settings": [setting for setting in draft["settings"] if tuple(setting[:2]) not in fields]}
                if self.judge(rest).kind != "different":
                    return known, fields
        return None

    def store(self, smallest, draft):
        outcome = self.judge(smallest)
        folder = self.folder / f"seed-{draft['seed']}"
        (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
        self.write(smallest, folder / "checkpoint")
        found = {"draft": smallest, "reason": outcome.reason, "where": outcome.where, "from": draft}
        (folder / "finding.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def report(self):
        """One line for each finding, the frequent ones first."""
        lines = []
        for (ask, fields), drafts in sorted(self.known.items(), key=lambda item: -len(item[1])):
            settings = ", ".join(f"{file} {name}" for file, name in sorted(fields)) or "no setting"
            seeds = ", ".join(f"{draft['seed']} ({draft['base']})" for draft in drafts[:self.most])
            lines.append(f"{len(drafts):4} {ask}: {settings}; seeds {seeds}")
        return lines


def told(outcome):
    """A difference in a few lines."""
    where = outcome.where
    return "\n".join([f"{outcome.reason}: {verdicts.as_text(where.get('ask'))}, text {where.get('text')}",
                      f"  libraries: {verdicts.as_text(where.get('want'))[:600]}", f"  server:    {verdicts.as_text(where.get('got'))[:600]}"])
