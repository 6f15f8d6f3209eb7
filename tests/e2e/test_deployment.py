"""The programs that read the files in deploy/ accept them."""

import json
import re
import shutil
import signal
import socket
import subprocess
import tomllib
from contextlib import contextmanager
from pathlib import PurePath

import pytest
import yaml

from fake_hub import LISTING, NAME, Hub, hang
from harness import PREFOLD, ROOT, START_LIMIT, STOP_LIMIT, Address, Server, environment, eventually, run_to_end
from helm_chart import CHART, manifests, of_kind, pod, render
from https import HttpsServer, copy
from loading import Loading

DEPLOY = ROOT / "deploy"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
TARGETS = ["cpu", "cuda"]
CACHES = ["HUGGINGFACE_HUB_CACHE", "HF_XET_CACHE"]
KUBERNETES = "1.33"


def flags_of(binary):
    done = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True)
    return set(re.findall(r"--[a-z][a-z-]+", done.stdout))


def validate(manifest):
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="make test-clients installs it")
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def variables(container):
    """A container's variables, except those from secrets."""
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


def stage(target):
    """The Dockerfile's settings for the image of this target, after the settings of its base stage."""
    base, settings = re.search(rf"^FROM (\S+) AS {target}\n(.*?)(?=^FROM |\Z)", DOCKERFILE, re.M | re.S).groups()
    return (stage(base) if f" AS {base}\n" in DOCKERFILE else "") + settings


def image_variables(target):
    lines = re.findall(r"^ENV (.*)$", stage(target), re.M)
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


def image_user():
    """The common user of all images."""
    (user,) = set(re.findall(r"useradd --uid (\d+)", DOCKERFILE))
    return int(user)


def assert_caches_in(volume, variables):
    """Both download caches are in a volume, the only writable place."""
    for name in CACHES:
        assert PurePath(variables[name]).is_relative_to(volume), name


def assert_writable(spec, container):
    """The caches of a pod with a read-only root are in its writable volume."""
    assert container["securityContext"]["readOnlyRootFilesystem"]
    (volume,) = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert_caches_in(volume, variables(container))
    # Otherwise a service's name can become a variable of the server, such as PROMETHEUS_PORT.
    assert spec["enableServiceLinks"] is False


def assert_threads_are_bounded(container):
    """A CPU limit, which the server rounds down to whole cores; without one, the number of threads from the CPU request."""
    if cpu := container["resources"].get("limits", {}).get("cpu"):
        assert re.fullmatch("[1-9][0-9]*", str(cpu)), cpu
        return
    sources = {variable["name"]: variable.get("valueFrom", {}).get("resourceFieldRef") for variable in container["env"]}
    for name in "RAYON_NUM_THREADS", "TOKIO_WORKER_THREADS", "TOKENIZATION_WORKERS":
        assert sources[name] == {"resource": "requests.cpu"}, name


def assert_stops_unnoticed(spec, container):
    """A stopping pod continues to serve until proxies know of it, and is not killed before its last request is answered."""
    delay, timeout = (int(flag(container, f"shutdown-{part}")) for part in ("delay", "timeout"))
    assert delay > 0 and spec["terminationGracePeriodSeconds"] > delay + timeout


def flag(container, name):
    (value,) = [value for key, _, value in (argument.partition("=") for argument in container["args"]) if key == f"--{name}"]
    return value


def check(found):
    """Asserts the properties shared by the manifest and the chart; returns the pod specification and its container."""
    for manifest in found:
        validate(manifest)
    spec, container = pod(found)
    assert_writable(spec, container)
    assert_threads_are_bounded(container)
    assert_stops_unnoticed(spec, container)
    assert {key: spec["securityContext"][key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == dict.fromkeys(
        ("runAsUser", "runAsGroup", "fsGroup"), image_user())
    probes = [container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("liveness", "readiness")]
    assert probes == ["/health", "/ready"]

    (deployment,) = [manifest["spec"] for manifest in found if manifest["kind"] == "Deployment"]
    labels = deployment["template"]["metadata"]["labels"]
    selectors = [deployment["selector"], *(part["labelSelector"] for part in spec["topologySpreadConstraints"])]
    selectors += [manifest["spec"]["selector"] for manifest in found if manifest["kind"] == "PodDisruptionBudget"]
    selectors += [manifest["spec"]["podSelector"] for manifest in found if manifest["kind"] == "NetworkPolicy"]
    assert all(selector["matchLabels"].items() <= labels.items() for selector in selectors)

    accounts = [manifest for manifest in found if manifest["kind"] == "ServiceAccount"]
    assert all(account["automountServiceAccountToken"] is False for account in accounts)
    assert spec["serviceAccountName"] in {account["metadata"]["name"] for account in accounts} | {"default"}
    assert accounts or spec["automountServiceAccountToken"] is False
    return spec, container


def scraped(found):
    """Annotations by which Prometheus finds a pod's metrics."""
    (deployment,) = [manifest["spec"] for manifest in found if manifest["kind"] == "Deployment"]
    annotations = deployment["template"]["metadata"].get("annotations", {})
    return {key: value for key, value in annotations.items() if key.startswith("prometheus.io/")}


def scrape(container):
    port = {port["name"]: port["containerPort"] for port in container["ports"]}["metrics"]
    assert flag(container, "prometheus-port") == str(port)
    return {"prometheus.io/scrape": "true", "prometheus.io/port": str(port), "prometheus.io/path": "/metrics"}


def assert_runs_on_a_plain_cluster(found):
    """Nothing needs a shared file system, a metrics API or a custom resource."""
    spec, _ = pod(found)
    (cache,) = [volume for volume in spec["volumes"] if volume["name"] == "cache"]
    assert cache["emptyDir"]["sizeLimit"]
    kinds = {manifest["kind"] for manifest in found} - {"ConfigMap"}
    assert kinds == {"ServiceAccount", "Deployment", "Service", "PodDisruptionBudget"}
    # A pod leaves service only when it ends, never during a rollout.
    (rollout,) = [manifest["spec"]["strategy"]["rollingUpdate"] for manifest in found if manifest["kind"] == "Deployment"]
    assert rollout == {"maxSurge": 1, "maxUnavailable": 0}


def test_the_kubernetes_manifests_are_valid():
    found = manifests((DEPLOY / "kubernetes" / "prefold.yaml").read_text())
    _, container = check(found)
    assert scraped(found) == scrape(container)
    assert_runs_on_a_plain_cluster(found)
    with pytest.raises(Exception, match="Additional properties|additional"):
        validate({**found[0], "specs": {}})


def merged(base, patch):
    """A strategic merge patch, as far as the overlays use it: containers are merged by name, other lists are replaced."""
    result = dict(base)
    for key, value in patch.items():
        if isinstance(value, dict):
            result[key] = merged(base.get(key, {}), value)
        elif key == "containers":
            patches = {container["name"]: container for container in value}
            result[key] = [merged(container, patches.pop(container["name"], {})) for container in base[key]]
            assert not patches, "a container of the patch is not in the manifest"
        else:
            result[key] = value
    return result


def test_the_kubernetes_overlay_for_gpus():
    overlay = DEPLOY / "kubernetes" / "gpu"
    kustomization = yaml.safe_load((overlay / "kustomization.yaml").read_text())
    base = yaml.safe_load((overlay / kustomization["resources"][0] / "kustomization.yaml").read_text())
    (image,) = kustomization["images"]
    (patch,) = [yaml.safe_load((overlay / patch["path"]).read_text()) for patch in kustomization["patches"]]
    found = [merged(manifest, patch) if manifest["kind"] == patch["kind"] else manifest
             for resource in base["resources"] for manifest in manifests((DEPLOY / "kubernetes" / resource).read_text())]
    spec, container = check(found)
    assert container["image"].split(":")[0] == image["name"] and image["newTag"] == "cuda" in TARGETS
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1" and spec["tolerations"]


def test_the_truss_configuration():
    truss_config = pytest.importorskip("truss.base.truss_config", reason="make test-clients installs it")
    path = DEPLOY / "truss" / "config.yaml"
    config = truss_config.TrussConfig.from_yaml(path)
    server, accelerator = config.docker_server, config.resources.accelerator
    assert config.base_image.image.endswith(":cuda") and accelerator.count == 1
    assert server.run_as_user_id == image_user()
    assert f"--port {server.server_port} " in server.start_command and "--hostname 0.0.0.0 " in server.start_command
    assert (server.liveness_endpoint, server.readiness_endpoint) == ("/health", "/ready")
    assert_caches_in("/data", config.environment_variables)


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
    # The health checks use the variable's port, so a flag must not set another one.
    assert "--model-id" in service["command"] and "--port" not in service["command"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    # The image's user, who owns the volume.
    assert "user" not in service


def composes_health_check():
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["prefold"]
    kind, *command = (part.replace("$$", "$") for part in service["healthcheck"]["test"])
    assert kind == "CMD"
    return command


def images_health_check():
    (command,) = re.findall(r"^HEALTHCHECK .*? CMD (\[.*?\"\])$", DOCKERFILE, re.M | re.S)
    return json.loads(command.replace("\\\n", ""))


def status_of(command, server):
    done = subprocess.run(command, env={**environment("/"), "PORT": str(server.port)}, stderr=subprocess.DEVNULL, timeout=60)
    return done.returncode


@pytest.mark.parametrize("command", [composes_health_check(), images_health_check()], ids=["compose", "image"])
def test_the_health_checks_know_https(command, tmp_path):
    copy("first", tmp_path)
    with HttpsServer(tmp_path) as server:
        assert status_of(command, server) == 0
    assert status_of(command, server) != 0
    with Server() as server:
        assert status_of(command, server) == 0


def test_composes_health_check_waits_for_the_model():
    command = composes_health_check()

    def status(server):
        return status_of(command, server)

    with Hub() as hub:
        hub.faults["GET", LISTING] = hang
        with Loading("--model-id", NAME, "--hf-endpoint", hub.url) as server:
            assert hub.reached.wait(60) and server.status("/health") == 200
            assert status(server) != 0
            hub.heal()
    with Server() as server:
        assert status(server) == 0


def test_the_systemd_unit(tmp_path):
    unit = (DEPLOY / "prefold.service").read_text()
    settings = dict(re.findall(r"^(\w+)=(.*)$", unit, re.M))
    assert settings["ExecReload"] == "/bin/kill -HUP $MAINPID"
    # With systemd's default of 0.1 s, it gives up after five failures.
    assert int(settings["RestartSec"]) > 2
    assert int(settings["TimeoutStopSec"]) > 25
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    path = tmp_path / "prefold.service"
    path.write_text(unit.replace("/usr/local/bin/prefold", str(PREFOLD)))
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
    assert path.name not in done.stderr, done.stderr


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


@pytest.mark.parametrize("values", [
    None,
    {"disruptionBudget": {"enabled": False}, "serviceAccount": {"create": False}, "scrapeAnnotations": False,
     "resources": {"limits": {"cpu": None}}, "extraEnv": [{"name": "RUST_LOG", "value": "debug"}]},
    {"existingSecret": "keys", "tlsSecret": "certificate", "cache": {"existingClaim": "models"}, "imagePullSecrets": [{"name": "registry"}],
     "nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}], "podAnnotations": {"a": "b"},
     "affinity": {"nodeAffinity": {}}, "runtimeClassName": "nvidia", "autoscaling": {"enabled": True},
     "serviceAccount": {"name": "present", "annotations": {"a": "b"}}, "shutdownDelay": 30, "shutdownTimeout": 600,
     "extraArgs": ["--json-output"], "networkPolicy": {"enabled": True, "from": [{"podSelector": {}}]},
     "ingress": {"enabled": True, "className": "nginx", "annotations": {"a": "b"}, "hosts": ["a.example", "b.example"],
                 "tls": [{"secretName": "tls", "hosts": ["a.example"]}]}},
    {"cache": {"createClaim": True, "accessModes": ["ReadWriteOnce"], "storageClassName": "ssd"},
     "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {}}], "egress": []}},
    yaml.safe_load((CHART / "values-gpu.yaml").read_text()),
], ids=["defaults", "little", "much", "closed", "gpu"])
def test_the_helm_chart_renders_to_valid_manifests(values):
    found = render(values)
    spec, container = check(found)
    kinds = {manifest["kind"] for manifest in found}
    values = values or {}
    for kind, part in [("HorizontalPodAutoscaler", "autoscaling"), ("NetworkPolicy", "networkPolicy"), ("Ingress", "ingress")]:
        assert (kind in kinds) == values.get(part, {}).get("enabled", False), kind
    assert ("HorizontalPodAutoscaler" in kinds) == (not any("replicas" in manifest["spec"] for manifest in found if manifest["kind"] == "Deployment"))
    assert ("PersistentVolumeClaim" in kinds) == values.get("cache", {}).get("createClaim", False)
    assert scraped(found) == (scrape(container) if values.get("scrapeAnnotations", True) else {})
    # The last one with a name counts.
    assert container["args"][-1] in values.get("extraArgs", container["args"])
    assert container["env"][-1] in values.get("extraEnv", container["env"])
    mounted = [volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume]
    schemes = {container[f"{probe}Probe"]["httpGet"]["scheme"] for probe in ("liveness", "readiness")}
    assert (mounted, schemes) == ((["certificate"], {"HTTPS"}) if "tlsSecret" in values else ([], {"HTTP"}))
    if not values:
        assert_runs_on_a_plain_cluster(found)
        assert container["resources"]["limits"]["cpu"]


def test_the_chart_scales_by_keda_instead():
    found = render({"autoscaling": {"enabled": True, "queuedTokens": 1000, "keda": {"enabled": True, "prometheus": "http://metrics:9090"}}})
    assert not of_kind(found, "HorizontalPodAutoscaler")
    (scaled,) = of_kind(found, "ScaledObject")
    (deployment,) = of_kind(found, "Deployment")
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"] and "replicas" not in deployment["spec"]
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["metadata"] == {"serverAddress": "http://metrics:9090", "threshold": "1000",
                                   "query": 'sum(prefold_queue_tokens{namespace="default",pod=~"test-prefold-[a-z0-9]{1,10}-[a-z0-9]{5}"})'}


def pod_name(deployment, replica_set, pod):
    """The name that Kubernetes gives a deployment's pod."""
    return f"{deployment}-{replica_set}-"[:58] + pod


# The last ones are of 46 characters and more, whose pods' names Kubernetes cuts.
RELEASES = ["prefold", "prefold-b", "prefold-b-c", "test", "test-b", "prefold-" + "x" * 38, "prefold-" + "x" * 39, "prefold-" + "x" * 39 + "-b",
            "x" * 53]


@pytest.mark.parametrize("release", RELEASES)
def test_keda_counts_the_tokens_of_this_releases_pods(release):
    def rendered(name):
        return render({"autoscaling": {"enabled": True, "keda": {"enabled": True}}}, name)

    (scaled,) = of_kind(rendered(release), "ScaledObject")
    (pattern,) = re.findall('pod=~"(.*)"', scaled["spec"]["triggers"][0]["metadata"]["query"])
    for other in RELEASES:
        (deployment,) = of_kind(rendered(other), "Deployment")
        for replica_set in "5d4f7c9b8", "5d4f7c9b8x", "d4f7c":
            pod = pod_name(deployment["metadata"]["name"], replica_set, "x2x7k")
            assert bool(re.fullmatch(pattern, pod)) == (other == release), (pattern, pod)


def test_the_chart_counts_threads_once():
    """The chart omits its own variable where the user sets it, as a variable or as a setting."""
    for values, missing in [({"extraEnv": [{"name": "RAYON_NUM_THREADS", "value": "2"}]}, "RAYON_NUM_THREADS"),
                            ({"settings": {"tokenization-workers": 2}}, "TOKENIZATION_WORKERS")]:
        _, container = pod(render({"resources": {"limits": {"cpu": None}}, **values}))
        counted = [variable["name"] for variable in container["env"] if "resourceFieldRef" in variable.get("valueFrom", {})]
        assert len(counted) == 2 and missing not in counted


def test_the_gpu_values():
    _, container = pod(render(yaml.safe_load((CHART / "values-gpu.yaml").read_text())))
    assert container["image"].split(":")[1] in TARGETS
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1


def test_the_values_schema_has_every_value_and_no_other():
    def compare(values, schema, path):
        names = set(schema["properties"]) - {"global"}
        assert set(values) == names and schema["additionalProperties"] is False, path
        for name, part in schema["properties"].items():
            if "properties" in part:
                compare(values[name], part, f"{path}.{name}")
            elif part.get("type") == "object" and name in values and values[name]:
                # Objects with Kubernetes' own schemas.
                assert name in ("strategy", "resources"), name

    compare(yaml.safe_load((CHART / "values.yaml").read_text()), json.loads((CHART / "values.schema.json").read_text()), "")


def test_helm_finds_no_fault():
    helm = pytest.importorskip("helm_python", reason="make test-clients installs it")
    report = helm.chart.lint(CHART, strict=True)
    assert report["errors"] == [], report
    assert [message for message in report["messages"] if message["severity"] > 1] == []
    with pytest.raises(helm.HelmError), helm.chart.Chart.load(CHART) as chart:
        chart.validate_schema({"settings": {"api-key": "in plain sight"}})
    # These have their own value in the chart, or override the file.
    wrong = [{"settings": {key: "1"}} for key in (
        "port", "hostname", "prometheus-port", "huggingface-hub-cache", "shutdown-delay", "shutdown-timeout", "tls-cert")]
    # An ingress for every host, and a misspelt name.
    wrong += [{"ingress": {"enabled": True}}, {"autoscaling": {"enable": True}}]
    for values in wrong:
        with pytest.raises(helm.HelmError), helm.chart.Chart.load(CHART) as chart:
            chart.validate_schema(values)


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
        return re.search(r' serving address="(\S+):(\d+)" ', path.read_text())

    try:
        eventually(ready, "the server is ready", START_LIMIT)
        hostname, port = ready().groups()
        yield hostname, int(port)
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(STOP_LIMIT)
    assert status == 0, path.read_text()


def test_the_server_takes_the_charts_settings(tmp_path):
    """The chart's command line, file and variables, on top of the image's and Kubernetes'."""
    settings = {"max-batch-tokens": 1000000, "radix-mlp-threshold": 0.5, "auto-truncate": False,
                "default-prompt": 'with "quotes" and\nlines', "cors-allow-origin": ["https://a.example"]}
    with socket.socket() as one, socket.socket() as other:
        for free in one, other:
            free.bind(("127.0.0.1", 0))
        port, metrics_port = (free.getsockname()[1] for free in (one, other))
    found = render({"model": "", "settings": settings, "hostname": "127.0.0.1", "port": port, "metricsPort": metrics_port,
                    "shutdownDelay": 0})
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
