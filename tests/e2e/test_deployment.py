"""The programs that read the files in deploy/ accept them."""

import hashlib
import re
import shutil
import signal
import socket
import subprocess
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import PurePath

import pytest
import yaml

from fake_hub import NAME, Hub
from harness import PREFOLD, ROOT, START_LIMIT, STOP_LIMIT, Address, Server, environment, eventually, run_to_end
from loading import Loading

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "prefold"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
TARGETS = ["cpu", "cuda"]
CACHES = ["HUGGINGFACE_HUB_CACHE", "HF_XET_CACHE"]
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


def pod(found):
    """Pod specification of the deployment in `found`, and its container."""
    (deployment,) = [manifest for manifest in found if manifest["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    return spec, container


def variables(container):
    """A container's variables, except those from secrets."""
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


def stage(target):
    """The Dockerfile's settings for the image of this target."""
    return re.search(rf"^FROM \S+ AS {target}\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.M | re.S).group(1)


def image_variables(target):
    lines = re.findall(r"^ENV (.*)$", stage(target), re.M)
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


def assert_caches_in(volume, variables):
    """Both download caches are in a volume, the only writable place."""
    for name in CACHES:
        assert PurePath(variables[name]).is_relative_to(volume), name


def assert_writable(found):
    """The caches of a pod with a read-only root are in its writable volume."""
    spec, container = pod(found)
    assert container["securityContext"]["readOnlyRootFilesystem"]
    (volume,) = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert_caches_in(volume, variables(container))
    # Otherwise a service's name can become a variable of the server, such as PROMETHEUS_PORT.
    assert spec["enableServiceLinks"] is False


def test_the_kubernetes_manifests_are_valid():
    found = manifests((DEPLOY / "kubernetes" / "prefold.yaml").read_text())
    for manifest in found:
        validate(manifest)
    assert_writable(found)
    kinds = {manifest["kind"] for manifest in found}
    assert kinds == {"PersistentVolumeClaim", "Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler"}
    with pytest.raises(Exception, match="Additional properties|additional"):
        validate({**found[0], "specs": {}})


def test_every_flag_in_the_files_is_one():
    known = flags_of(PREFOLD)
    used = {}
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file():
            used[path.name] = set(re.findall(r'(?<![\w-])--[a-z][a-z-]+', path.read_text())) - {"--from-literal"}
    assert sum(map(len, used.values())) > 4
    assert {name: flags - known for name, flags in used.items() if flags - known} == {}


def test_the_compose_file():
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["prefold"]
    # The built stage has a health check and a volume for models.
    target = service["build"]["target"]
    (volume,) = {mount.split(":")[1] for mount in service["volumes"]}
    assert "HEALTHCHECK" in stage(target) and f"VOLUME {volume}\n" in stage(target)
    assert_caches_in(volume, {**image_variables(target), **service["environment"]})
    # The health check uses the variable's port, so a flag must not set another one.
    assert "--model-id" in service["command"] and "--port" not in service["command"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("target", TARGETS)
def test_the_image_leaves_the_port_to_the_configuration_file(target, tmp_path):
    """A variable overrides the file, so the file cannot change a variable set by the image."""
    assert "${PORT:-3000}" in stage(target)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = tmp_path / "prefold.toml"
    path.write_text(f"port = {port}\n")
    with started(["--config", path], image_variables(target), tmp_path) as address:
        assert address == ("0.0.0.0", port)


@pytest.mark.parametrize("target", TARGETS)
def test_the_image_can_download_what_is_kept_in_xet_onto_a_read_only_root(target, tmp_path):
    # Nothing can be written below a file, even by root.
    volume, home = tmp_path / "volume", "/dev/null/home"
    image = {name: value.replace("/data", str(volume)) for name, value in image_variables(target).items() if name in CACHES}
    with Hub(xet=["model.safetensors"]) as hub:
        with Loading("--model-id", NAME, "--hf-endpoint", hub.url, env={**image, "HOME": home}) as server:
            eventually(server.is_ready, "the model is loaded", START_LIMIT)


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
    assert_writable(found)
    _, container = pod(found)
    assert (container["livenessProbe"]["httpGet"]["path"], container["readinessProbe"]["httpGet"]["path"]) == (
        "/health", "/ready")
    kinds = {manifest["kind"] for manifest in found}
    assert ("HorizontalPodAutoscaler" in kinds) == (not any("replicas" in manifest["spec"] for manifest in found if manifest["kind"] == "Deployment"))
    if values is None:
        assert kinds >= {"PodDisruptionBudget", "HorizontalPodAutoscaler", "PersistentVolumeClaim", "Service"}


def test_helm_finds_no_fault():
    helm = pytest.importorskip("helm_python", reason="make test-clients installs it")
    report = helm.chart.lint(CHART, strict=True)
    assert report["errors"] == [], report
    assert [message for message in report["messages"] if message["severity"] > 1] == []
    with pytest.raises(helm.HelmError), helm.chart.Chart.load(CHART) as chart:
        chart.validate_schema({"settings": {"api-key": "in plain sight"}})
    # These have their own value in the chart, or override the file.
    for key in "port", "hostname", "prometheus-port", "huggingface-hub-cache":
        with pytest.raises(helm.HelmError), helm.chart.Chart.load(CHART) as chart:
            chart.validate_schema({"settings": {key: "1"}})


@contextmanager
def started(arguments, variables, directory):
    """Runs the server with only these arguments and variables, and a container's HOSTNAME; yields its address once it is
    ready."""
    path = directory / "log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            [PREFOLD, *arguments], cwd=directory, env={"HOSTNAME": "prefold-5d4f7c9b8-x2x7k", **environment(directory), **variables},
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def ready():
        assert process.poll() is None, path.read_text()
        return re.search(r" ready address=(\S+):(\d+) ", path.read_text())

    try:
        eventually(ready, "the server is ready", START_LIMIT)
        hostname, port = ready().groups()
        yield hostname, int(port)
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(STOP_LIMIT)
    assert status == 0, path.read_text()


def test_the_server_takes_the_charts_settings(tmp_path):
    """The chart's command line, file and variables, over those of the image and of Kubernetes."""
    settings = {"max-batch-tokens": 1000000, "radix-mlp-threshold": 0.5, "auto-truncate": False,
                "default-prompt": 'with "quotes" and\nlines', "cors-allow-origin": ["https://a.example"]}
    with socket.socket() as one, socket.socket() as other:
        for free in one, other:
            free.bind(("127.0.0.1", 0))
        port, metrics_port = (free.getsockname()[1] for free in (one, other))
    found = render({"model": "", "settings": settings, "hostname": "127.0.0.1", "port": port, "metricsPort": metrics_port})
    (text,) = [manifest["data"]["prefold.toml"] for manifest in found if manifest["kind"] == "ConfigMap"]
    assert tomllib.loads(text) == settings
    path = tmp_path / "prefold.toml"
    path.write_text(text)
    _, container = pod(found)
    (mount,) = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "config"]
    arguments = [argument.replace(mount, str(tmp_path)) for argument in container["args"]]
    # As set by a service named "prometheus" with service links.
    given = {"PROMETHEUS_PORT": "tcp://10.96.0.7:9090", **image_variables("cpu"), **variables(container)}
    with started(arguments, given, tmp_path) as address:
        assert address == ("127.0.0.1", port)
        info = Address(port).get("/info").json()
        assert (info["max_batch_tokens"], info["auto_truncate"]) == (1000000, False)
        assert (Address(port).get("/metrics").status, Address(metrics_port).get("/metrics").status) == (404, 200)
        named = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert named == {"http": port, "metrics": metrics_port}
    path.write_text(text + "max-bach-tokens = 5\n")
    status, output = run_to_end("--config", path)
    assert status == 2 and "max-batch-tokens" in output


@pytest.fixture
def proxied(tmp_path):
    """Two servers behind nginx with deploy/nginx.conf, in which only the ports are changed."""
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

    # Requests without a key go to both.
    before = counts(first, second)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: rerank(proxy, "question", keyed=False), range(24)))
    assert all(after > b for after, b in zip(counts(first, second), before, strict=True))

    # One replica stops: no request fails, and the other's keys stay there.
    first.stop()
    before = counts(second)[0]
    for query in homes:
        rerank(proxy, f"question {query}")
    assert counts(second)[0] - before == len(homes)
