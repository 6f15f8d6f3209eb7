"""The table of published checkpoints in docs/models.md is what `prefold check-model` says of their configuration.

`UPDATE_DOCS=1` writes the table. The configuration is quoted in tests/fixtures/published, with sources.
"""

import hashlib
import json
import os
import re
import subprocess

from harness import FIXTURES, PREFOLD, ROOT, environment

PUBLISHED = FIXTURES / "published"
SOURCES = json.loads((PUBLISHED / "sources.json").read_text())
DOCUMENT = ROOT / "docs" / "models.md"
TABLE = re.compile(r"(<!-- published checkpoints -->\n).*?(\n<!-- end -->)", re.DOTALL)
# The one remark that all have, since there are no tensors.
BARE = "only the configuration was checked"
# The refusal of an embedding model whose pooling is in a file that is not there.
NO_PURPOSE = "does not say what it is for"


def folder(entry):
    return PUBLISHED / entry["model"].replace("/", "--")


def check(home, entry):
    command = [PREFOLD, "check-model", str(folder(entry)), "--json"]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True)
    return json.loads(done.stdout)


def is_whole(entry):
    """Both files that a row needs are quoted; a classifier publishes no modules.json."""
    files = entry.get("files", {})
    return "config.json" in files and ("modules.json" in files or entry.get("modules") is False)


def is_published(entry):
    return is_whole(entry) and all(file["copy"] == "published" for file in entry["files"].values())


def result(entry, found):
    """The result in words, and whether the checkpoint runs; `None` where that is not known."""
    if found is None:
        return "unknown", None
    notes = [note.replace(str(folder(entry)), "it") for note in found["notes"] if BARE not in note]
    if found["verdict"] == "does_not_run":
        if NO_PURPOSE in notes[0]:
            return "unknown", None
        return f"does not run: {notes[0]}", False
    if not is_whole(entry):
        return "unknown", None
    return ("runs, but " + "; ".join(notes) if notes else "runs"), True


def answers(found):
    said = found.get("answers", {})
    parts = []
    if "embed" in said:
        parts.append(f"{said['embed']['dimensions']} values, {', '.join(said['embed']['pooling'])}")
    elif "rerank" in said:
        parts.append(f"reranks, {said['rerank']['scores']}")
    elif "classify" in said:
        parts.append(f"{len(said['classify']['labels'])} labels")
    return "; ".join(parts)


def copy(entry):
    files = entry.get("files")
    if not files:
        return "none"
    kinds = {file["copy"]: file.get("note", "") for file in files.values() if file["copy"] != "published"}
    parts = [f"{kind}: {note}" if note else kind for kind, note in kinds.items()] or ["published"]
    return "; ".join(parts + ([] if is_whole(entry) else ["no `modules.json`"]))


def row(entry, found):
    said, _ = result(entry, found)
    known = found or {}
    whole = said != "unknown"
    cells = [f"`{entry['model']}`", said, known.get("family", ""), answers(known) if whole else "",
             str(known.get("max_input_length", "")) if whole else "", copy(entry)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(home):
    listed = [entry for entry in SOURCES if entry.get("listed", True)]
    found = [check(home, entry) if "files" in entry else None for entry in listed]
    runs = [entry for entry, said in zip(listed, found) if result(entry, said)[1]]
    counted = sum(map(is_published, runs))
    summary = (f"Of {len(listed)} checkpoints {len(runs)} run as far as their configuration says; {counted} of these are counted, because what was "
               f"checked is the published text. {sum(result(e, s)[1] is None for e, s in zip(listed, found))} are unknown.")
    head = "| checkpoint | result | family | answers | tokens | copy that was checked |\n|---|---|---|---|---|---|"
    return "\n".join(["", summary, "", head, *map(row, listed, found), ""])


def test_the_table_is_what_the_check_says(tmp_path):
    text = DOCUMENT.read_text()
    written = TABLE.sub(lambda found: found[1] + table(tmp_path) + found[2], text)
    assert TABLE.search(text), "docs/models.md has no place for the table"
    if "UPDATE_DOCS" in os.environ:
        DOCUMENT.write_text(written)
    assert written == DOCUMENT.read_text(), "docs/models.md is stale: UPDATE_DOCS=1 pytest tests/e2e/test_published_models.py"


def test_every_quoted_file_has_a_source():
    files = {path for path in PUBLISHED.rglob("*.json") if path.parent != PUBLISHED}
    named = {folder(entry) / name: file for entry in SOURCES for name, file in entry.get("files", {}).items()}
    assert files == set(named)
    for path, file in named.items():
        assert file["copy"] in ("published", "saved again", "edited") and file["source"], path
        data = path.read_bytes()
        json.loads(data)
        if "object" in file:
            assert hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() == file["object"], path


def test_every_quoted_config_is_read_or_refused_by_name(tmp_path):
    """What a config lacks is its purpose or a family; no field of a supported family is refused."""
    for entry in (entry for entry in SOURCES if "files" in entry):
        found = check(tmp_path, entry)
        words = (NO_PURPOSE, "architecture") if found["verdict"] == "does_not_run" else ()
        assert not words or any(word in found["notes"][0] for word in words), (entry["model"], found["notes"])
