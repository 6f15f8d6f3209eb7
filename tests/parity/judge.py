"""The outcome of one draft: its checkpoint is written, both sides are asked, the answers are compared."""

import tempfile
from pathlib import Path

import asks
import checkpoint
import oracle
import rules
import served
import verdicts
from verdicts import Outcome


# The class follows from the task, which need not be the base's.
DERIVED = [["config.json", "architecture", None]]


class Judge:
    def __init__(self, source, flags=()):
        self.source, self.flags, self.count = source, flags, 0

    def __call__(self, draft):
        with tempfile.TemporaryDirectory(prefix="parity-") as folder:
            self.count += 1
            return self.of(draft, Path(folder))

    def of(self, draft, folder):
        """The outcome, with the checkpoint in an empty folder."""
        try:
            checkpoint.write(draft, self.source.bases[draft["base"]], folder)
            libraries = oracle.Oracle(draft, folder)
        except oracle.Failed as error:
            return Outcome("oracle fails", verdicts.shortened(str(error).splitlines()[0]))
        except Exception as error:
            return Outcome("oracle fails", "writing: " + verdicts.shortened(f"{type(error).__name__}: {error}".splitlines()[0]))
        try:
            server = served.Served(draft, folder, self.flags)
        except served.Refused as error:
            return refusal(draft, str(error))
        try:
            found = [(ask, libraries.answer(ask, draft["texts"]), server.answer(ask, draft["texts"])) for ask in asks.of(draft, folder)]
            if "panicked" in server.server.log():
                return Outcome("different", "panic", {"ask": {"ask": "panic"}, "text": 0, "got": server.server.log()[-2000:]})
            outcome = verdicts.compare(found, server.warnings, draft["settings"])
        finally:
            server.close()
        if outcome.kind == "different" and (rule := rules.explanation(draft, outcome.where)):
            outcome.kind, outcome.reason = "rule", rule
        return outcome


def refusal(draft, message):
    """A refusal counts as a difference if nothing in the draft can be its reason, or if it is a panic."""
    where = {"ask": {"ask": "start"}, "text": 0, "want": "answers", "got": message[-2000:]}
    if "panicked" in message or not (draft["settings"] or verdicts.is_named([message], DERIVED)):
        return Outcome("different", "start: " + verdicts.shortened(message), where)
    named = verdicts.is_named([message], [*draft["settings"], *DERIVED])
    return Outcome("refused" if named else "refused without the setting's name", verdicts.shortened(message), where)
