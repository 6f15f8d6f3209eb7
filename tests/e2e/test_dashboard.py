"""The server has every metric used in docs/grafana/prefold.json."""

import json
import re
import shutil
import subprocess

import pytest

from harness import ROOT, eventually
from https import HttpsServer, copy

DASHBOARD = json.loads((ROOT / "docs" / "grafana" / "prefold.json").read_text())
NAME = re.compile(r"\b(?:te|prefold|process)_\w+")
# Labels that Prometheus adds, in Kubernetes `namespace` too.
ADDED = {"instance", "job", "namespace"}
VARIABLES = ["namespace", "model", "instance"]


def expressions():
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def without_variables(expression):
    for name, value in {"__rate_interval": "1m", **dict.fromkeys(VARIABLES, ".*")}.items():
        expression = expression.replace("$" + name, value)
    return expression


def samples(text):
    """Per metric name: the label names, and whether any value is non-zero."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", line)
        if match and not line.startswith("#"):
            name, labels, value = match.groups()
            known, live = found.get(name, (set(), False))
            found[name] = (known | set(re.findall(r'(\w+)="', labels or "")), live or float(value) != 0.0)
    return found


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """`/metrics` of a server with TLS, which has all metrics, after successful, refused and compacted requests with compact attention."""
    folder = tmp_path_factory.mktemp("tls")
    copy("first", folder)
    with HttpsServer(folder, "--attention", "compact") as server:
        texts = ["Represent the sentence: the tide comes in twice a day.", "Represent the sentence: bread rises."]
        server.ask("/embed", inputs=texts)
        server.ask("/rerank", query="tide", texts=texts)
        assert server.post("/embed", {"inputs": []}).status == 400

        def metrics():
            return server.get("/metrics").body.decode()

        eventually(lambda: "prefold_last_reload_successful{" in metrics(), "the files have been read again")
        return metrics()


@pytest.fixture(scope="module")
def exposed(text):
    return samples(text)


def test_operations_md_has_every_metric_and_no_other(text):
    section = (ROOT / "docs" / "operations.md").read_text().split("## Metrics")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (\w+) \|", section, re.M)
    documented = {(name, kind) for names, kind in rows for name in re.findall(r"`(\w+)`", names)}
    families = set(re.findall(r"^# TYPE (\w+) (\w+)", text, re.M))
    te_counters = {(name, kind) for name, kind in documented if name.startswith("te_") and kind == "counter"}
    assert families == documented | {(f"{name}_total", kind) for name, kind in te_counters}


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_of_the_dashboard_is_exposed_with_its_labels(exposed, expression):
    names = NAME.findall(expression)
    assert names, expression
    for name in names:
        assert name in exposed, name
    wanted = set()
    for labels in re.findall(r"by \(([^)]*)\)|\{([^}]*)\}", expression):
        wanted |= set(re.findall(r"(\w+)(?=\s*(?:,|=|!|$))", re.sub(r'"[^"]*"', "", "".join(labels))))
    have = set().union(*(exposed[name][0] for name in names)) | ADDED
    assert wanted <= have, (wanted, have)


def test_what_a_scheduler_is_watched_by_has_real_values(exposed):
    for name in [
        "te_request_count", "te_request_duration_sum", "te_batch_next_size_sum", "te_batch_next_tokens_sum",
        "prefold_batch_unique_tokens_sum", "te_radix_mlp_compression_ratio_sum", "prefold_planning_duration_sum",
        "prefold_backend_idle_duration_sum", "prefold_tokens_saved_total", "prefold_attention_work_saved_total",
        "prefold_request_tokenization_share_sum", "te_request_failure",
    ]:
        assert exposed[name][1], name
    # The queue is empty and nothing failed.
    for name in ["te_queue_size", "prefold_queue_tokens", "prefold_failed_sequences_total"]:
        assert not exposed[name][1], name


def test_cpu_time_has_fractions_of_a_second(text):
    (seconds,) = re.findall(r"^process_cpu_seconds_total (\S+)$", text, re.M)
    assert 0 < float(seconds) < 600 and "." in seconds, seconds


def test_variables_select_servers_by_namespace_and_model(exposed):
    """Each variable narrows the next one down, and every query is of the selected servers."""
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert list(variables) == ["datasource", *VARIABLES]
    for number, name in enumerate(VARIABLES):
        query = variables[name]["query"]["query"]
        assert query.startswith("label_values(prefold_build_info") and query.endswith(f", {name})"), query
        assert all(f'{earlier}=~"${earlier}"' in query for earlier in VARIABLES[:number]), query
        assert name in exposed["prefold_build_info"][0] | ADDED
    # Servers outside Kubernetes have no namespace. All servers means all of the model, so their list is the match.
    assert [variables[name].get("allValue") for name in VARIABLES] == [".*", None, None]
    for expression in expressions():
        selected = re.findall(r"\{([^}]*)\}", expression)
        assert len(selected) == len(NAME.findall(expression)), expression
        assert all('namespace=~"$namespace",instance=~"$instance"' in labels for labels in selected), expression


def test_legends_name_labels_of_their_expression():
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert re.search(rf"by \([^)]*\b{label}\b", target["expr"]), target


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
def test_prometheus_parses_every_expression(tmp_path):
    rules = [{"record": f"dashboard:{i}", "expr": without_variables(expression)} for i, expression in enumerate(expressions())]
    path = tmp_path / "rules.json"
    # JSON is valid YAML.
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
