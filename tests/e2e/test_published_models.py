"""The table of published checkpoints in docs/models.md equals the output of `prefold check-model` for their
configuration.

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
# The remark that all have, since there are no tensors.
BARE = "only the configuration was checked"
# The refusal of an embedding model whose pooling is in a missing file.
NO_PURPOSE = "does not state its task"
# Copies identical to the publisher's files: quoted unchanged, or completed until they matched the hash that a cited list names for the
# hub's file.
EXACT = ("published", "proven")
# Copies that were completed until they had a hash that a list names: `proven` cites the list, `matched` does not.
COMPLETED = ("proven", "matched")
# Copies that are not counted: a downloaded folder that no list confirms, and files that a library or a person changed.
OTHER = ("copy", "saved again", "edited")


def folder(entry):
    return PUBLISHED / entry["model"].replace("/", "--")


def check(home, entry):
    command = [PREFOLD, "check-model", str(folder(entry)), "--json"]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True)
    return json.loads(done.stdout)


def is_whole(entry):
    """All files that a result needs are quoted: config.json, modules.json and the files of its modules. A classifier has no modules."""
    files = entry.get("files", {})
    if "config.json" not in files or entry.get("modules") is False:
        return "config.json" in files
    if "modules.json" not in files:
        return False
    modules = json.loads((folder(entry) / "modules.json").read_text())
    return all(f"{module['path']}/config.json" in files for module in modules if module["type"].endswith((".Pooling", ".Dense")))


def is_published(entry):
    files = entry.get("files", {})
    return is_whole(entry) and all(files[name]["copy"] in EXACT for name in ("config.json", "modules.json") if name in files)


def result(entry, found):
    """The result as text, and whether the checkpoint runs; `None` if unknown."""
    if found is None or not is_whole(entry):
        return "unknown", None
    # The model's path and lists of supported alternatives are omitted.
    notes = [re.sub(r" is not supported \(.*\)", " is not supported", note) for note in found["notes"] if BARE not in note]
    if found["verdict"] == "does_not_run":
        return f"does not run: {notes[0]}", False
    return ("runs, but " + "; ".join(notes) if notes else "runs"), True


def answers(found):
    said = found.get("answers", {})
    if "embed" in said:
        return f"{said['embed']['dimensions']} values, {', '.join(said['embed']['pooling'])}"
    if "rerank" in said:
        return f"reranks, {said['rerank']['scores']}"
    for name, what in (("classify", "labels"), ("classify_tokens", "labels of tokens")):
        if name in said:
            return f"{len(said[name]['labels'])} {what}"
    return ""


def copy(entry):
    others = {file["copy"]: file.get("note") if file["copy"] in ("saved again", "edited") else "" for file in entry["files"].values() if file["copy"] != "published"}
    return "; ".join(f"{kind}: {note}" if note else kind for kind, note in others.items()) or "published"


def hashes(data):
    return {"object": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(), "sha256": hashlib.sha256(data).hexdigest()}


def row(entry, found):
    cells = [f"`{entry['model']}`", result(entry, found)[0], found.get("family", ""), answers(found),
             str(found.get("max_input_length", "")), copy(entry)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(home):
    listed = [entry for entry in SOURCES if entry.get("listed", True)]
    found = {entry["model"]: check(home, entry) for entry in listed if is_whole(entry)}
    known = [entry for entry in listed if entry["model"] in found]
    runs = [entry for entry in known if result(entry, found[entry["model"]])[1]]
    unknown = ", ".join(f"`{entry['model']}`" for entry in listed if entry not in known)
    return "\n".join([
        "",
        f"Of {len(listed)} checkpoints {len(runs)} run as far as their configuration says ({sum(map(is_published, runs))} of them are counted), "
        f"{len(known) - len(runs)} do not, and {len(listed) - len(known)} are unknown.",
        "",
        "| checkpoint | result | family | answers | tokens | copy that was checked |",
        "|---|---|---|---|---|---|",
        *(row(entry, found[entry["model"]]) for entry in known),
        "",
        f"Unknown: {unknown}.",
        "",
    ])


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
        assert file["copy"] in (*EXACT, *COMPLETED, *OTHER), path
        assert file.get("source") or file["copy"] in COMPLETED, path
        json.loads(path.read_bytes())


def test_every_hash_is_that_of_the_bytes():
    """The hash that a list names for the hub's file is computed from the quoted bytes, and a proven text cites a list."""
    named = [(folder(entry) / name, file) for entry in SOURCES for name, file in entry.get("files", {}).items()]
    assert any(file["copy"] == "proven" for _, file in named)
    for path, file in named:
        data = path.read_bytes()
        own = hashes(data)
        assert file.get("object", own["object"]) == own["object"], path
        given = file.get("named", {})
        # A list can be of a checkout with the line breaks of Windows.
        listed = hashes(data.replace(b"\n", b"\r\n")) if given.get("line_breaks") == "crlf" else own
        assert all(given[kind] == listed[kind] for kind in listed if kind in given), path
        if file["copy"] in COMPLETED:
            assert file["note"] and ("object" in given or "sha256" in given), path
            cited = all(given.get(key) for key in ("repository", "path", "commit"))
            assert cited == (file["copy"] == "proven"), path


def test_every_quoted_config_is_read(tmp_path):
    """Where files are missing, the config is still read, and the refusal names the missing files. A static embedding lacks nothing else."""
    for entry in (entry for entry in SOURCES if "files" in entry and not is_whole(entry)):
        notes = check(tmp_path, entry)["notes"]
        assert any(words in notes[0] for words in (NO_PURPOSE, BARE)), (entry["model"], notes)
