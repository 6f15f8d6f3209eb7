"""Layout of the sources: folders, layers and file sizes, as stated in docs/architecture.md and CONTRIBUTING.md."""

import re
import subprocess

import pytest

import rust_imports
from harness import ROOT

ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
# `core: engine > execute > schedule, plan > error`: a file may import from its own level and from levels to the right.
LAYERS = {
    crate: [set(re.findall(r"\w+", level)) for level in levels.split(">")]
    for crate, levels in re.findall(r"^    (\w+): +(\w.*>.*)$", ARCHITECTURE, re.MULTILINE)
}
CRATES = sorted({path.parents[1].relative_to(ROOT).as_posix() for place in ("*", "tools/*", "tests/*", "examples/*")
                 for name in ("lib.rs", "main.rs") for path in ROOT.glob(f"{place}/src/{name}")})
# Files directly under `src`.
MOST_FILES = {"core": 12, "backends": 8, "router": 8}
LONGEST, LONGEST_TEST = 400, 500
# The wiring: files that call layers and handlers, and files that start threads.
WIRING = ["router/src/server/routing.rs", "router/src/routes/table.rs", "core/src/execute/mod.rs"]


def module(file):
    """Folder or file directly under `src` that contains a file."""
    return file.split("/")[0].removesuffix(".rs")


@pytest.mark.parametrize("crate", CRATES)
def test_no_circle_of_files(crate):
    assert not rust_imports.circles(rust_imports.Crate(ROOT / crate).imports())


@pytest.mark.parametrize("crate", CRATES)
def test_no_circle_of_folders(crate):
    """Files in a circle of folders need not be one: `a/x.rs` imports `b/y.rs`, and `b/z.rs` imports `a/w.rs`."""
    assert not rust_imports.circles(rust_imports.between_folders(rust_imports.Crate(ROOT / crate).imports()))


@pytest.mark.parametrize("crate", sorted(LAYERS))
def test_imports_follow_the_layers(crate):
    level = {name: depth for depth, names in enumerate(LAYERS[crate]) for name in names}
    imports = rust_imports.Crate(ROOT / crate).imports()
    assert {module(file) for file in imports} == set(level), "the layers of docs/architecture.md name other modules"
    upward = [
        f"{file} -> {target}" for file, targets in imports.items() for target in targets
        if level[module(target)] < level[module(file)]
    ]
    assert not upward


def test_every_large_crate_has_layers():
    assert set(LAYERS) >= set(MOST_FILES) | {"kernels"}


@pytest.mark.parametrize("crate", sorted(MOST_FILES))
def test_few_files_lie_beside_the_folders(crate):
    assert len(list((ROOT / crate / "src").glob("*.rs"))) <= MOST_FILES[crate]


def test_no_file_is_long():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True)
    long = {}
    for name in listed.stdout.splitlines():
        if re.search(r"\.(rs|py|sh|cu|cuh|cpp|h)$", name) and (ROOT / name).exists():
            lines = len((ROOT / name).read_text().splitlines())
            if lines > (LONGEST_TEST if re.search(r"test", name) else LONGEST):
                long[name] = lines
    assert not long


def rows(document, heading, columns):
    """The rows of the table below a heading."""
    section = document.split(f"\n{heading}\n")[1].split("\n#")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    assert all(len(line) == columns for line in lines), lines
    return lines[1:]


def test_a_request_can_be_followed():
    """Each row of the request's table has a function that exists; the next row's function is named in its file, in the file
    of an earlier row, or in the wiring of layers and threads."""
    way = [(file.strip("`"), function.strip("`")) for file, function, *_ in rows(ARCHITECTURE, "### One request, step by step", 4)]
    assert 5 < len(way) <= 30
    code = {file: rust_imports.without_tests(rust_imports.without_literals((ROOT / file).read_text())) for file, _ in way}
    for file, function in way:
        for name, kind in zip(function.split("::")[::-1], ("fn", "for|impl")):
            assert re.search(rf"\b({kind}) {name}\b", code[file]), f"{file} has no {function}"
    named = "".join(rust_imports.without_literals((ROOT / file).read_text()) for file in WIRING)
    for (file, _), (_, following) in zip(way, way[1:]):
        named += code[file]
        assert re.search(rf"(?<!fn )\b({following.replace('::', '|')})\b", named), f"neither {file} nor a file before it names {following}"


def test_the_map_names_files_that_exist():
    document = (ROOT / "CONTRIBUTING.md").read_text()
    changes = rows(document, "## Where to look", 2)
    assert len(changes) >= 20
    recipes = document.split("\n## Recipes\n")[1].split("\n## ")[0]
    places = [place for _, place in changes] + [recipes]
    paths = [path for place in places for path in re.findall(r"`([\w.-]+/[\w./-]*)`", place)]
    assert len(paths) > 100
    assert not [path for path in paths if not (ROOT / path).exists()]


def write(directory, files):
    for name, text in files.items():
        file = directory / "src" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return rust_imports.Crate(directory)


@pytest.mark.parametrize("patch", sorted((ROOT / "tests/cuda-mutants").glob("*.patch")), ids=lambda patch: patch.stem)
def test_mutants_apply(patch):
    """scripts/cuda-mutants.sh takes too long for every change; this test notices a patch that no longer applies. As there, one line of
    context is enough."""
    applied = subprocess.run(["git", "apply", "--check", "-C1", patch], cwd=ROOT, capture_output=True, text=True)
    assert applied.returncode == 0, applied.stderr


def test_imports_are_read(tmp_path):
    """The parser handles re-exports, nested trees and paths without `use`, and skips tests, comments and strings."""
    crate = write(tmp_path, {
        "lib.rs": "mod a; pub mod b; mod error;\npub use error::Error as Failure;\n#[cfg(test)] mod tests;",
        "a.rs": 'use crate::{Failure, b::{self, deep::{Deep, Other as Another}}};\n// crate::b::x\nconst A: &str = "crate::b::y";',
        "b/mod.rs": "pub mod deep;\npub use self::deep::Deep;\n#[cfg(test)]\nmod tests { use crate::a::A; }",
        "b/deep.rs": "pub struct Deep;\npub fn of(x: super::super::error::Error) { crate::a::run() }",
        "error.rs": "use std::fmt;\npub struct Error;\nfn f() { fmt::write() }",
    })
    assert crate.imports() == {
        "lib.rs": {"error.rs"},
        "a.rs": {"error.rs", "b/mod.rs", "b/deep.rs"},
        "b/mod.rs": {"b/deep.rs"},
        "b/deep.rs": {"error.rs", "a.rs"},
        "error.rs": set(),
    }


def test_circles_between_folders_are_found():
    imports = {"a/x.rs": {"b/y.rs"}, "b/z.rs": {"a/w.rs"}, "c.rs": {"c/x.rs"}, "c/x.rs": {"b/y.rs"}, "c/y.rs": {"c/x.rs"}}
    assert rust_imports.circles(imports) == []
    folders = rust_imports.between_folders(imports)
    assert folders == {"a": {"b"}, "b": {"a"}, "c/mod": {"c/x"}, "c": {"b"}, "c/y": {"c/x"}}
    assert rust_imports.circles(folders) == [["a", "b"]]
    # Deep inside a folder, and between a folder and its parent's own file.
    deep = {"a/b/x.rs": {"a/c/y.rs"}, "a/c/z.rs": {"a/d.rs"}, "a/d.rs": {"a/b/w.rs"}, "e/mod.rs": {"e/f/x.rs"}, "e/f/y.rs": {"e/mod.rs"}}
    assert rust_imports.circles(rust_imports.between_folders(deep)) == [["a/b", "a/c", "a/d"], ["e/f", "e/mod"]]


def test_circles_are_found():
    assert rust_imports.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert rust_imports.circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
