"""The examples of docs/clients.md run against a live server, where their packages are installed."""

import importlib.util
import json
import os
import re
import shutil
import subprocess

import pytest

from harness import ROOT
from reference import assert_close

# Some of these clients look up models, prices or news on the network, which is not available to tests.
os.environ.update({"HF_HUB_DISABLE_TELEMETRY": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false",
                   "HAYSTACK_TELEMETRY_ENABLED": "False", "ANONYMIZED_TELEMETRY": "False"})

PAGE = (ROOT / "docs" / "clients.md").read_text()
SECTIONS = [(section.splitlines()[0], section) for section in PAGE.split("\n## ")[1:]]
BLOCK = re.compile(r"```(python|js)\n(.*?)```", re.DOTALL)
EXAMPLES = [(name, *block) for name, section in SECTIONS for block in BLOCK.findall(section)]
IMPORT = re.compile(r"^(?:from|import) ([\w.]+)", re.MULTILINE)
QUERY, ANSWER, OTHER = "How do I lock a file?", "Use flock.", "The tide comes in."
ROUNDING = 1e-5


def is_installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
    except ValueError:  # A module that was imported already, and is lazy.
        return True


def check(made, rows):
    """Checks whatever an example has made: vectors of the query and the answer, or the answer as the best document."""
    checked = 0
    if "vector" in made:
        made["vectors"] = [made["vector"], rows[1]]
    if "vectors" in made:
        for vector, row in zip(made["vectors"], rows, strict=True):
            assert_close([float(x) for x in vector], row, ROUNDING)
        checked += 1
    if "ranked" in made:
        assert [result["index"] for result in made["ranked"].results] == [0, 1]
        checked += 1
    if "best" in made:
        assert [node.node.text for node in made["best"]] == [ANSWER]
        checked += 1
    if "found" in made:
        found = made["found"]
        texts = found["documents"][0] if isinstance(found, dict) else [point.payload["t" if "t" in point.payload else "text"] for point in found]
        assert texts == [ANSWER]
        checked += 1
    assert checked, sorted(made)


@pytest.mark.parametrize("name, code", [(name, code) for name, language, code in EXAMPLES if language == "python"],
                         ids=lambda value: value.splitlines()[0].replace(" ", "-") if "\n" in value else value)
def test_python(builtin, name, code):
    missing = [module for module in IMPORT.findall(code) if not is_installed(module)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    made = {}
    exec(compile(code.replace("http://localhost:3000", builtin.url()), name, "exec"), made)
    check(made, builtin.ask("/embed", inputs=[QUERY, ANSWER]))
    assert "foreign" not in builtin.log()


@pytest.mark.parametrize("code", [code for _, language, code in EXAMPLES if language == "js"])
def test_node(builtin, tmp_path, code):
    if shutil.which("npm") is None:
        pytest.skip("there is no Node")
    project = tmp_path / "node"
    shutil.copytree(ROOT / "examples" / "node", project, ignore=shutil.ignore_patterns("node_modules"))
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=project, check=True, capture_output=True, timeout=600)
    code = code.replace("http://localhost:3000", builtin.url()).replace("embeddings.length", "JSON.stringify(embeddings)")
    (project / "page.mjs").write_text(code)
    ran = subprocess.run(["node", "page.mjs"], cwd=project, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    check({"vectors": json.loads(ran.stdout)}, builtin.ask("/embed", inputs=[QUERY, ANSWER]))


def test_langchains_default_is_warned_of(builtin):
    """Without the setting its ids are OpenAI's; its token counter would download a vocabulary, so they are sent as it sends them."""
    answer = builtin.post("/v1/embeddings", {"model": "any", "input": [[4438, 656, 358, 5409, 264, 1052, 30]], "encoding_format": "float"})
    assert answer.status == 200 and answer.headers["x-foreign-token-ids"] == "1"
    assert "check_embedding_ctx_length=False" in builtin.whole_log(), "the warning comes once a minute at most"
    beyond = builtin.post("/v1/embeddings", {"model": "any", "input": [[9906, 100256]]})
    assert beyond.status == 400 and "check_embedding_ctx_length=False" in beyond.json()["error"]["message"]
