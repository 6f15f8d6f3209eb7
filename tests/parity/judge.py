"""The outcome of one draft: its checkpoint is written, both sides are asked, the answers are compared."""

import tempfile
from pathlib import Path

import asks
import checkpoint
import gguf_rules
import oracle
import rules
import served
import verdicts
from verdicts import Outcome


# The class follows from the task, which need not be the base's.
DERIVED = [["config.json", "architecture", None]]


class Judge:
    def __init__(self, source, flags=(), converter=None):
        self.source, self.flags, self.converter, self.count = source, flags, converter, 0

    def __call__(self, draft):
        with tempfile.TemporaryDirectory(prefix="parity-") as folder, tempfile.TemporaryDirectory(prefix="parity-gguf-") as other:
            self.count += 1
            return self.of(draft, Path(folder), Path(other))

    def write(self, draft, folder):
        """Writes the draft's checkpoint to an empty folder."""
        checkpoint.write(draft, self.source.bases[draft["base"]], folder)
        if draft.get("gguf"):
            self.converter.prepare(draft, folder)

    def of(self, draft, folder, other):
        """The outcome, with the checkpoint in an empty folder, and its GGUF file in another one."""
        try:
            self.write(draft, folder)
            libraries = oracle.Oracle(draft, folder)
        except oracle.Failed as error:
            return Outcome("oracle fails", verdicts.shortened(str(error).splitlines()[0]))
        except Exception as error:
            return Outcome("oracle fails", "writing: " + verdicts.shortened(f"{type(error).__name__}: {error}".splitlines()[0]))
        given, flags = folder, self.flags
        if draft.get("gguf"):
            if not gguf_rules.is_carried(draft):
                return Outcome("not converted", "settings of files that are not in the folder")
            try:
                flags = (*flags, *self.converter.convert(draft, folder, other))
            except gguf_rules.NotConverted as error:
                return Outcome("not converted", verdicts.shortened(str(error)))
            given = other
        try:
            server = served.Served(draft, given, flags, asks.ends_in_unit_vectors(folder))
        except served.Refused as error:
            return gguf_rules.refusal(draft, str(error)) if draft.get("gguf") else refusal(draft, str(error))
        try:
            found = [(ask, libraries.answer(ask, draft["texts"]), server.answer(ask, draft["texts"])) for ask in asks.of(draft, folder)]
            if "panicked" in server.server.log():
                return Outcome("different", "panic", {"ask": {"ask": "panic"}, "text": 0, "got": server.server.log()[-2000:]})
            outcome = verdicts.compare(found, server.warnings, draft["settings"])
            if outcome.kind == "different" and draft.get("gguf") and gguf_rules.is_named(draft, server.warnings):
                outcome.kind, outcome.reason = "named", verdicts.shortened("; ".join(server.warnings))
        finally:
            server.close()
        explained = (rules, gguf_rules) if draft.get("gguf") else (rules,)
        if outcome.kind == "different" and (rule := next(filter(None, (it.explanation(draft, outcome.where) for it in explained)), None)):
            outcome.kind, outcome.reason = "rule", rule
        if outcome.kind == "different" and is_rounding(draft, folder, outcome.where):
            outcome.kind, outcome.reason = "rule", "rounding: the libraries in float32 are as far from float64"
        return outcome


def is_rounding(draft, folder, where):
    """True if the libraries' own rounding explains a difference."""
    try:
        exact = oracle.Oracle(draft, folder, oracle.EXACT).answer(where["ask"], draft["texts"])
    except oracle.Failed:
        return False
    return verdicts.is_rounding(where.get("want"), where.get("got"), exact[where["text"]])


def refusal(draft, message):
    """A refusal counts as a difference if nothing in the draft can be its reason, or if it is a panic."""
    where = {"ask": {"ask": "start"}, "text": 0, "want": "answers", "got": message[-2000:]}
    if "panicked" in message or not (draft["settings"] or verdicts.is_named([message], DERIVED)):
        return Outcome("different", "start: " + verdicts.shortened(message), where)
    named = verdicts.is_named([message], [*draft["settings"], *DERIVED])
    return Outcome("refused" if named else "refused without the setting's name", verdicts.shortened(message), where)
