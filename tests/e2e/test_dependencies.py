"""Checks licences, sources and bans of all dependencies against deny.toml like cargo-deny, without needing it."""

import json
import re
import subprocess
import tomllib

import pytest

from harness import ROOT

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
RULES = tomllib.loads((ROOT / "deny.toml").read_text())


@pytest.fixture(scope="module")
def packages():
    """All packages of any feature on any platform."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--all-features"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode:
        # Packages of other platforms or features may not have been downloaded.
        command.remove("--offline")
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["packages"]


def is_allowed(expression, allowed):
    """True if the allowed licences satisfy an SPDX expression."""
    # A slash is the older notation for OR.
    tokens = re.findall(r"\(|\)|\bOR\b|\bAND\b|[\w.+-]+(?: WITH [\w.+-]+)?", expression.replace("/", " OR "))

    def either():
        found = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            found = both() or found
        return found

    def both():
        found = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            found = one() and found
        return found

    def one():
        token = tokens.pop(0)
        if token != "(":
            return token in allowed
        found = either()
        assert tokens.pop(0) == ")", expression
        return found

    found = either()
    assert not tokens, f"{expression}: left over {tokens}"
    return found


def test_expressions_are_read():
    allowed = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"}
    for expression in ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-3.0", "(GPL-3.0 OR MIT) AND Apache-2.0", "Apache-2.0 WITH LLVM-exception"]:
        assert is_allowed(expression, allowed), expression
    for expression in ["GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR MIT) AND MPL-2.0", "MIT WITH Classpath-exception-2.0"]:
        assert not is_allowed(expression, allowed), expression


def test_licences(packages):
    allowed = set(RULES["licenses"]["allow"])
    excepted = {rule["crate"]: set(rule["allow"]) for rule in RULES["licenses"].get("exceptions", [])}
    wrong = {
        package["name"]: package["license"] for package in packages
        if not is_allowed(package["license"] or "none", allowed | excepted.get(package["name"], set()))
    }
    assert not wrong


def test_sources(packages):
    assert {package["source"] for package in packages} == {CRATES_IO, None}
    assert all(package["manifest_path"].startswith(str(ROOT)) for package in packages if package["source"] is None)


def test_bans(packages):
    names = {package["name"] for package in packages}
    assert not names & {rule["crate"] for rule in RULES["bans"]["deny"]}
    ours = [package for package in packages if package["source"] is None]
    assert not [(d["name"], p["name"]) for p in ours for d in p["dependencies"] if d["req"] == "*" and not d.get("path")]


def test_each_direct_dependency_has_a_line(packages):
    used = {dependency["name"] for package in packages if package["source"] is None for dependency in package["dependencies"]}
    table = (ROOT / "docs/dependencies.md").read_text().split("|---|---|---|\n")[1]
    names = [name.strip() for line in table.splitlines() if line.startswith("|") for name in line.split("|")[1].split(",")]
    assert sorted(names) == sorted(used)
