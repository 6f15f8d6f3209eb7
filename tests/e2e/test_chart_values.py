"""Values of the Helm chart: volumes, authorization, and combinations that it refuses because the pods would not work."""

import re

import pytest
import yaml

from harness import ROOT
from helm_chart import CHART, of_kind, pod, render

PROTECTED = {"settings": {"protect-metrics": True}}
MONITORED = {"podMonitor": {"enabled": True}}


def test_the_pages_key_file_is_mounted():
    (block,) = re.findall(r"```yaml\n(settings:\n.*?)```", (ROOT / "docs" / "deployment.md").read_text(), re.S)
    values = yaml.safe_load(block)
    found = render(values | {"tlsSecret": "certificate"})
    spec, container = pod(found)
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert set(mounts) == {"/etc/prefold", "/etc/prefold-tls", "/cache", "/etc/prefold-keys"}
    assert len(volumes) == 4 and {mount["name"] for mount in mounts.values()} == set(volumes)
    folder, _, _ = values["settings"]["api-key-file"].rpartition("/")
    assert volumes[mounts[folder]["name"]]["secret"] == {"secretName": "embeddings-keys"}
    (config,) = of_kind(found, "ConfigMap")
    assert config["data"]["prefold.toml"].count("api-key-file = ") == 1


@pytest.mark.parametrize(("values", "authorization"), [
    ({}, None),
    ({"existingSecret": "keys"}, None),
    ({"existingSecret": "keys", "settings": {"protect-metrics": False}}, None),
    ({"existingSecret": "keys", **PROTECTED}, {"credentials": {"name": "keys", "key": "api-key"}}),
    ({"existingSecret": "keys", "extraArgs": ["--protect-metrics"]}, {"credentials": {"name": "keys", "key": "api-key"}}),
    ({"podMonitor": {"enabled": True, "authorization": {"credentials": {"name": "a", "key": "b"}}}, **PROTECTED},
     {"credentials": {"name": "a", "key": "b"}}),
])
def test_prometheus_gets_the_key_of_protected_metrics(values, authorization):
    (monitor,) = of_kind(render(MONITORED | values), "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint == {"port": "metrics"} | ({"authorization": authorization} if authorization else {})


REFUSED = {
    "metrics on the port": ({"port": 9000}, "port and metricsPort are both 9000"),
    "a socket": ({"settings": {"uds-path": "/run/prefold"}}, "no port for the probes"),
    "a socket by an argument": ({"extraArgs": ["--uds-path=/run/prefold"]}, "no port for the probes"),
    "annotations without a key": (PROTECTED, "scrapeAnnotations"),
    "annotations without a key by an argument": ({"extraArgs": ["--protect-metrics"]}, "scrapeAnnotations"),
    "a monitor without a key": (PROTECTED | MONITORED, "podMonitor needs an API key"),
    "KEDA without scaling": ({"autoscaling": {"keda": {"enabled": True}}}, "without autoscaling.enabled"),
    "more replicas than the most": (
        {"autoscaling": {"enabled": True, "minReplicas": 9}}, "minReplicas (9) is greater than autoscaling.maxReplicas (8)"),
    **{f"{name} twice": ({"existingSecret": "keys", "extraEnv": [{"name": name, "value": "a"}]}, f"extraEnv sets {name}")
       for name in ("API_KEY", "PREFOLD_API_KEY", "HF_TOKEN")},
}


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_cannot_work_are_refused(case):
    helm = pytest.importorskip("helm_python", reason="make test-clients installs it")
    values, message = REFUSED[case]
    with pytest.raises(helm.HelmError, match=re.escape(message)):
        render(values)


def test_similar_values_are_accepted():
    for values in (
        {"settings": {"protect-metrics": True}, "scrapeAnnotations": False},
        {"settings": {"protect-metrics": False}},
        {"autoscaling": {"minReplicas": 9}},
        {"autoscaling": {"enabled": True, "minReplicas": 8}},
        {"extraEnv": [{"name": "API_KEY", "value": "a"}]},
        {"existingSecret": "keys", "extraEnv": [{"name": "RUST_LOG", "value": "debug"}]},
    ):
        assert of_kind(render(values), "Deployment"), values


def test_the_aliases_of_flags_are_refused():
    """The chart looks for flags by their own names, and so does its schema, which allows no underscores. The server takes both in a file."""
    helm = pytest.importorskip("helm_python", reason="make test-clients installs it")
    arguments = ROOT / "router" / "src" / "cli" / "args"
    aliases = {alias for path in arguments.glob("*.rs") for alias in re.findall(r'\balias = "([a-z-]+)"', path.read_text())}
    assert len(aliases) >= 8
    for alias in aliases:
        with pytest.raises(helm.HelmError, match=rf"settings\.{alias} is an alias"):
            render({"settings": {alias: "1"}})
    with pytest.raises(helm.HelmError, match="max_batch_tokens"):
        render({"settings": {"max_batch_tokens": 1}})
    # What a message names instead is a setting or a value of the chart.
    flags = (ROOT / "docs" / "cli.md").read_text()
    table = (CHART / "templates" / "_checks.tpl").read_text()
    assert all(f"`--{name}`" in flags for name in re.findall(r'"settings\.([a-z-]+)"', table))
