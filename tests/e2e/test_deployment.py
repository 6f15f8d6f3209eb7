"""The files in deploy/ are accepted by the programs that they are for."""

import hashlib
import re
import shutil
import socket
import subprocess
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from harness import PREFOLD, ROOT, Address, Server, eventually, run_to_end

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "prefold"
KUBERNETES = "1.33"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def flags_of(binary):
    done = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True)
    return set(re.findall(r"--[a-z][a-z-]+", done.stdout))


def validate(manifest):
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="make test-clients installs it")
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def manifests(text):
    return [manifest for manifest in yaml.safe_load_all(text) if manifest]


def test_the_kubernetes_manifests_are_valid():
    found = manifests((DEPLOY / "kubernetes" / "prefold.yaml").read_text())
    for manifest in found:
        validate(manifest)
    kinds = {manifest["kind"] for manifest in found}
    assert kinds == {"PersistentVolumeClaim", "Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler"}
    with pytest.raises(Exception, match="Additional properties|additional"):
        validate({**found[0], "specs": {}})


def test_every_flag_in_the_files_is_one():
    known = flags_of(PREFOLD)
    used = {}
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file():
            used[path.name] = set(re.findall(r'(?<![\w-])--[a-z][a-z-]+', path.read_text())) - {"--fail", "--silent"}
    assert sum(map(len, used.values())) > 4
    assert {name: flags - known for name, flags in used.items() if flags - known} == {}


def test_the_compose_file():
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["prefold"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    # The stage that is built has a health check, and a volume where the models go.
    assert f"AS {service['build']['target']}\n" in dockerfile and "HEALTHCHECK" in dockerfile
    (volume,) = {mount.split(":")[1] for mount in service["volumes"]}
    assert f"HUGGINGFACE_HUB_CACHE={volume} " in dockerfile
    assert "--model-id" in service["command"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def render(values=None):
    helm = pytest.importorskip("helm_python", reason="make test-clients installs it")
    with helm.chart.Chart.load(CHART) as chart:
        return [manifest for text in chart.render(values, name="test", namespace="default").values()
                for manifest in manifests(text)]


@pytest.mark.parametrize("values", [
    None,
    {"autoscaling": {"enabled": False}, "disruptionBudget": {"enabled": False}, "cache": {"enabled": False}},
    {"existingSecret": "keys", "cache": {"existingClaim": "models"}, "imagePullSecrets": [{"name": "registry"}],
     "nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}], "podAnnotations": {"a": "b"}},
], ids=["defaults", "little", "much"])
def test_the_helm_chart_renders_to_valid_manifests(values):
    found = render(values)
    for manifest in found:
        validate(manifest)
    (deployment,) = [manifest for manifest in found if manifest["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert (container["livenessProbe"]["httpGet"]["path"], container["readinessProbe"]["httpGet"]["path"]) == (
        "/health", "/ready")
    kinds = {manifest["kind"] for manifest in found}
    assert ("HorizontalPodAutoscaler" in kinds) == ("replicas" not in deployment["spec"])
    if values is None:
        assert kinds >= {"PodDisruptionBudget", "HorizontalPodAutoscaler", "PersistentVolumeClaim", "Service"}


def test_helm_finds_no_fault():
    helm = pytest.importorskip("helm_python", reason="make test-clients installs it")
    report = helm.chart.lint(CHART, strict=True)
    assert report["errors"] == [], report
    assert [message for message in report["messages"] if message["severity"] > 1] == []
    with pytest.raises(helm.HelmError), helm.chart.Chart.load(CHART) as chart:
        chart.validate_schema({"settings": {"api-key": "in plain sight"}})


def test_the_server_takes_the_charts_settings(tmp_path):
    settings = {"max-batch-tokens": 1000000, "radix-mlp-threshold": 0.5, "auto-truncate": False,
                "default-prompt": 'with "quotes" and\nlines', "cors-allow-origin": ["https://a.example"]}
    found = render({"model": "", "settings": settings})
    (text,) = [manifest["data"]["prefold.toml"] for manifest in found if manifest["kind"] == "ConfigMap"]
    assert tomllib.loads(text) == {**settings, "port": 3000, "prometheus-port": 9000}
    path = tmp_path / "prefold.toml"
    path.write_text(text.replace("9000", "0"))
    with Server("--config", path) as server:
        info = server.get("/info").json()
        assert (info["max_batch_tokens"], info["auto_truncate"]) == (1000000, False)
    path.write_text(text + "max-bach-tokens = 5\n")
    status, output = run_to_end("--config", path)
    assert status == 2 and "max-batch-tokens" in output


@pytest.fixture
def proxied(tmp_path):
    """Two servers behind nginx with deploy/nginx.conf, whose ports alone are changed."""
    if NGINX is None:
        pytest.skip("there is no nginx (Debian: apt-get install nginx-light)")
    with Server() as first, Server() as second:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        text = (DEPLOY / "nginx.conf").read_text()
        for old, new in [(":3000;", port), (":3001 ", first.port), (":3002 ", second.port)]:
            assert old in text
            text = text.replace(old, f":{new}{old[-1]}")
        configuration = tmp_path / "nginx.conf"
        paths = "".join(f"    {kind}_temp_path {tmp_path}/{kind};\n"
                        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        configuration.write_text(text.replace("http {\n", f"http {{\n    access_log off;\n{paths}", 1))
        with (tmp_path / "log").open("wb") as log:
            nginx = subprocess.Popen([NGINX, "-p", tmp_path, "-e", "stderr", "-c", configuration, "-g",
                                      f"daemon off; pid {tmp_path}/pid;"], stdout=log, stderr=log)
        proxy = Address(port)

        def answers():
            assert nginx.poll() is None, (tmp_path / "log").read_text()
            try:
                return proxy.get("/ready").status == 200
            except ConnectionError:
                return False

        try:
            eventually(answers, "nginx answers")
            yield proxy, first, second
        finally:
            nginx.terminate()
            nginx.wait(30)


def rerank(proxy, query, keyed=True):
    headers = {"x-prefix-key": hashlib.sha256(query.encode()).hexdigest()} if keyed else {}
    response = proxy.post("/rerank", {"query": query, "texts": ["one", "two"]}, headers)
    assert response.status == 200, response


def counts(*servers):
    return [server.metric("prefold_http_requests", route="/rerank", status="200") for server in servers]


def test_requests_that_share_a_prefix_meet_in_one_replica(proxied):
    proxy, first, second = proxied
    homes = {}
    for query in range(24):
        before = counts(first, second)
        for _ in range(3):
            rerank(proxy, f"question {query}")
        went = [after - b for after, b in zip(counts(first, second), before, strict=True)]
        assert sorted(went) == [0, 3], f"one key, two replicas: {went}"
        homes[query] = went.index(3)
    assert 2 <= sum(homes.values()) <= 22, f"the keys are spread: {homes}"

    # Without a key requests go to both.
    before = counts(first, second)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: rerank(proxy, "question", keyed=False), range(24)))
    assert all(after > b for after, b in zip(counts(first, second), before, strict=True))

    # A replica that leaves: nobody notices, and the other's keys stay where they are.
    first.stop()
    before = counts(second)[0]
    for query in homes:
        rerank(proxy, f"question {query}")
    assert counts(second)[0] - before == len(homes)
