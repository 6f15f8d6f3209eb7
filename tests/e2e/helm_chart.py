"""The manifests of the Helm chart, as Helm's own library renders them."""

import pytest
import yaml

from harness import ROOT

CHART = ROOT / "deploy" / "helm" / "prefold"


def manifests(text):
    return [manifest for manifest in yaml.safe_load_all(text) if manifest]


def render(values=None, name="test"):
    helm = pytest.importorskip("helm_python", reason="make test-clients installs it")
    with helm.chart.Chart.load(CHART) as chart:
        return [manifest for text in chart.render(values, name=name, namespace="default").values()
                for manifest in manifests(text)]


def pod(found):
    """Pod specification of the deployment in `found`, and its container."""
    (deployment,) = of_kind(found, "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    return spec, container


def of_kind(found, kind):
    return [manifest for manifest in found if manifest["kind"] == kind]
