"""The alerts of docs/operations.md fire when they should, as Prometheus' own `promtool` evaluates them."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from harness import ROOT
from helm_chart import CHART, of_kind, render

RULES = CHART / "files" / "alerts.yaml"
ALERTS = {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
SERVER = {"job": "prefold", "instance": "a:3000"}
OTHER = {"job": "prefold", "instance": "b:3000"}
# A server that Prometheus found by annotations of its pod, and a program that is not prefold.
POD = {"job": "kubernetes-pods", "instance": "10.0.0.1:9000"}
DATABASE = {"job": "database", "instance": "d:9187"}
INSTANCE = {"instance": "a:3000"}
# The samples of promtool, four a minute: `1x39` is the value 1 for 10 minutes, `_x39` nothing.
ALWAYS = "1x600"
DAY = 86400


def series(name, labels=SERVER, **more):
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in (labels | more).items()) + "}"


def up(labels=SERVER):
    return series("up", labels)


def built(labels=SERVER):
    return series("prefold_build_info", labels, version="0.2.0")


def started(labels=SERVER):
    return series("process_start_time_seconds", labels)


def requests(status, route="/embed", labels=SERVER):
    return series("prefold_http_requests_total", labels, status=status, route=route)


def reloaded(files):
    return series("prefold_last_reload_successful", files=files)


def expiry(labels=SERVER):
    return series("prefold_tls_certificate_expiry_timestamp_seconds", labels)


def waits(le):
    return series("te_request_queue_duration_bucket", le=le)


# Per case: the alert, the samples, and at some minutes the labels with which it fires.
CASES = {
    "a server goes down": ("PrefoldDown", {up(): "1x39 0x400", built(): "1x39 stale", up(OTHER): ALWAYS, built(OTHER): ALWAYS},
                           {9: [], 14: [], 16: [SERVER], 100: [SERVER]}),
    "a server of a job with another name goes down": (
        "PrefoldDown", {up(POD): "1x39 0x400", built(POD): "1x39 stale"}, {14: [], 16: [POD], 100: [POD]}),
    "a server never becomes ready": ("PrefoldDown", {up(): "0x400"}, {4: [], 6: [SERVER]}),
    "a model loads for four minutes": ("PrefoldDown", {up(): "0x15 1x400", built(): "_x15 1x400"}, {3: [], 6: []}),
    "a pod is replaced": ("PrefoldDown", {up(POD): "1x39 stale", built(POD): "1x39 stale"}, {12: [], 30: []}),
    "another program is down": ("PrefoldDown", {up(DATABASE): "0x400", up(): ALWAYS, built(): ALWAYS}, {6: [], 60: []}),

    "all servers are gone": ("PrefoldAbsent", {built(): "1x39 stale", built(OTHER): "1x79 stale"}, {16: [], 24: [], 26: [{}]}),

    "three starts": ("PrefoldRestarts", {built(): ALWAYS, started(): "5x39 600x39 1200x400"}, {9: [], 15: [], 21: [SERVER], 90: []}),
    "three starts with gaps": (
        "PrefoldRestarts", {started(): "5x30 stale _x8 600x30 stale _x8 1200x400", built(): "1x30 stale _x8 1x30 stale _x8 1x400"},
        {21: [SERVER]}),
    "one start": ("PrefoldRestarts", {built(): ALWAYS, started(): "5x39 600x400"}, {11: [], 30: []}),
    "starts of another program": (
        "PrefoldRestarts", {built(): ALWAYS, started(DATABASE): "5x39 600x39 1200x400"}, {21: []}),

    "many requests are refused": (
        "PrefoldRefusesRequests", {requests("200"): "0+9x400", requests("429"): "0+1x400"}, {4: [], 6: [INSTANCE]}),
    "all requests are refused while probes are answered": (
        "PrefoldRefusesRequests",
        {requests("429"): "0+1x400", **{requests("200", route): "0+60x400" for route in ("/health", "/ready", "/ping", "/metrics")}},
        {4: [], 6: [INSTANCE]}),
    "requests to the root are refused": (
        "PrefoldRefusesRequests", {requests("429", "/"): "0+1x400", requests("200", "/"): "0+9x400"}, {4: [], 6: [INSTANCE]}),
    "few requests are refused": ("PrefoldRefusesRequests", {requests("200"): "0+99x400", requests("429"): "0+1x400"}, {30: []}),

    "requests fail": ("PrefoldFails", {requests("500"): "0+1x400"}, {1: [INSTANCE], 60: [INSTANCE]}),
    "the first requests fail": (
        "PrefoldFails", {requests("200"): "9x400", requests("500"): "_x79 3x400"}, {19: [], 20: [INSTANCE], 29: [INSTANCE], 31: []}),
    "requests fail again": ("PrefoldFails", {requests("500"): "2x79 5x400"}, {15: [], 21: [INSTANCE], 29: [INSTANCE], 31: []}),
    "requests fail before and after a restart": (
        "PrefoldFails", {requests("500"): "2x79 stale _x4 1x400"}, {15: [], 21: [], 22: [INSTANCE], 32: []}),
    "a forward pass and a request to another server fail": (
        "PrefoldFails", {requests("424"): "_x79 1x400", requests("503", labels=OTHER): "_x79 1x400"},
        {19: [], 21: [INSTANCE, {"instance": "b:3000"}]}),
    "requests are refused, and probes fail": (
        "PrefoldFails", {requests("429"): "_x79 0+1x400", requests("422"): "0+1x400", requests("503", "/ready"): "0+1x400"}, {21: []}),

    "calls wait long": ("PrefoldWaitsLong", {waits("2.5"): "0+9x400", waits("+Inf"): "0+10x400", waits("5"): "0+10x400"},
                        {9: [], 12: [INSTANCE]}),
    "calls wait a moment": ("PrefoldWaitsLong", {waits("2.5"): "0+10x400", waits("+Inf"): "0+10x400"}, {30: []}),

    "no batch ends": ("PrefoldStuck", {series("prefold_queue_tokens"): "0x39 50x400", series("te_batch_next_size_count"): "0+1x39 40x400"},
                      {14: [], 22: [SERVER]}),
    "batches end": ("PrefoldStuck", {series("prefold_queue_tokens"): "50x400", series("te_batch_next_size_count"): "0+1x400"}, {22: []}),

    "a reload fails": ("PrefoldReloadFails", {reloaded("tls"): "1x39 0x39 1x400", reloaded("api_keys"): ALWAYS},
                       {9: [], 12: [{**SERVER, "files": "tls"}], 21: []}),
    "a certificate and its key are replaced one after the other": ("PrefoldReloadFails", {reloaded("tls"): "1x39 0x1 1x400"}, {10: [], 11: [], 12: []}),

    # Seconds from the start, in which the certificate of a server is replaced in time.
    "certificates expire": (
        "PrefoldCertificateExpires", {expiry(): f"{8 * DAY}x8000", expiry(OTHER): f"{8 * DAY}x4000 {98 * DAY}x4000"},
        {23 * 60: [], 25 * 60: [SERVER]}),
    "a certificate has expired": ("PrefoldCertificateExpires", {expiry(): "600x400"}, {20: [SERVER]}),
}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
@pytest.mark.parametrize("case", CASES)
def test_an_alert_fires_when_it_should(tmp_path, case):
    alert, samples, times = CASES[case]
    rule = ALERTS[alert]
    expected = [{"alertname": alert, "eval_time": f"{minute}m", "exp_alerts": [
        {"exp_labels": rule["labels"] | labels, "exp_annotations": rule["annotations"]} for labels in firing]}
        for minute, firing in times.items()]
    test = {"interval": "15s", "alert_rule_test": expected,
            "input_series": [{"series": name, "values": values} for name, values in samples.items()]}
    path = tmp_path / "test.json"
    # JSON is valid YAML.
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_in_a_case():
    assert {alert for alert, _, times in CASES.values() if any(times.values())} == set(ALERTS)


def test_the_page_has_the_same_alerts():
    page = (ROOT / "docs" / "operations.md").read_text()
    assert yaml.safe_load(page.split("```yaml\ngroups:")[1].join(["groups:", ""]).split("```")[0]) == yaml.safe_load(RULES.read_text())
    section = page.split("## Metrics")[1].split("\n## ")[0]
    metrics = {name for names in re.findall(r"^\| (`.*?) \|", section, re.M) for name in re.findall(r"`(\w+)`", names)}
    for name, rule in ALERTS.items():
        used = set(re.findall(r"\b(?:te|prefold|process)_[a-z_]+", rule["expr"]))
        assert used and {re.sub("_(bucket|count|sum)$", "", metric) for metric in used} <= metrics, name
        assert rule["annotations"]["summary"] and rule["annotations"]["runbook"]


def test_the_chart_installs_the_alerts():
    (rules,) = of_kind(render({"prometheusRule": {"enabled": True, "labels": {"release": "monitoring"}}}), "PrometheusRule")
    assert rules["spec"] == yaml.safe_load(RULES.read_text())
    assert rules["metadata"]["labels"]["release"] == "monitoring"
