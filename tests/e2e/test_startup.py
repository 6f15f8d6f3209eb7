"""Start-up, and refusals to start."""

import http.client
import json
import os
import shutil
import socket
import subprocess

import pytest

from harness import FIXTURES, PREFOLD, START_LIMIT, STOP_LIMIT, Server, environment, eventually, run_to_end
from reference import BUILTIN, assert_unit


def test_the_built_in_model_is_served_from_anywhere_without_network_or_home(tmp_path):
    """The harness starts the server in an empty directory, with a hub address without a listener."""
    with Server("--dtype", "float32", env={"HOME": str(tmp_path / "missing"), "HTTPS_PROXY": "http://127.0.0.1:9"}) as server:
        case = json.loads((BUILTIN / "expected.json").read_text())["texts"][0]
        assert_unit(server.ask("/embed", inputs=case["text"])[0][:32], case["embedding_first32"])


def test_the_published_benchmark_flags_are_accepted():
    flags = "--max-client-batch-size 512 --auto-truncate --max-batch-tokens 16384 --radix-mlp-threshold 0.95".split()
    with Server("--model-id", FIXTURES / "qwen3-tiny", *flags) as server:
        info = server.get("/info").json()
        assert (info["max_client_batch_size"], info["max_batch_tokens"]) == (512, 16384)


PUBLISHED = ("--model-id Qwen/Qwen3-Embedding-0.6B --port 3000 --max-client-batch-size 512 --auto-truncate "
             "--max-batch-tokens 16384 --radix-mlp-threshold 0.95")


def test_the_published_benchmark_line_starts_the_server(tmp_path):
    """The documented command unchanged but for the port. The hub's cache has a small model under that name."""
    cached(tmp_path / "hub", "Qwen/Qwen3-Embedding-0.6B")
    line = PUBLISHED.replace("--port 3000 ", "").split()
    with Server(*line, env={"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}) as server:
        info = server.get("/info").json()
        assert (info["model_id"], info["auto_truncate"]) == ("Qwen/Qwen3-Embedding-0.6B", True)
        assert info["radix_mlp_threshold"] == pytest.approx(0.95)
        answer = server.ask("/v1/embeddings", model="Qwen/Qwen3-Embedding-0.6B", input="Hi")
        assert len(answer["data"][0]["embedding"]) == 64


def test_flags_may_come_from_the_environment():
    environment = {"MODEL_ID": str(FIXTURES / "qwen3-tiny"), "MAX_CLIENT_BATCH_SIZE": "3", "AUTO_TRUNCATE": "false",
                   "SERVED_MODEL_NAME": "tiny"}
    with Server(env=environment) as server:
        assert len(server.ask("/embed", inputs="Hi")[0]) == 64
        assert server.post("/embed", {"inputs": ["Hi"] * (3 * 64 + 1)}).status == 413
        assert server.get("/info").json()["auto_truncate"] is False
        assert server.ask("/v1/embeddings", input="Hi")["model"] == "tiny"


def test_a_loading_server_is_alive_and_not_ready():
    """The port opens before the model is loaded, and early requests wait."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    command = [PREFOLD, "--hostname", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def ask(method, path, body=None):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            try:
                connection.request(method, path, body)
                response = connection.getresponse()
                return response.status, response.read()
            finally:
                connection.close()

        def alive():
            try:
                return ask("GET", "/health")[0] == 200
            except ConnectionError:
                return False

        eventually(alive, "the port is open", START_LIMIT)
        status, body = ask("GET", "/ready")
        if status == 503:
            assert b"the model is loading" in body
        # Valid whether or not the server was ready.
        status, body = ask("POST", "/embed", json.dumps({"inputs": "Hi"}))
        assert status == 200 and len(json.loads(body)[0]) == 384
        assert ask("GET", "/ready")[0] == 200
    finally:
        process.terminate()
        assert process.wait(STOP_LIMIT) == 0


def cached(hub, name):
    """A small model under this name, in the cache layout of the hub's own clients."""
    repository = hub / f"models--{name.replace('/', '--')}"
    commit = "0123456789abcdef0123456789abcdef01234567"
    shutil.copytree(FIXTURES / "qwen3-tiny", repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)


def copy(tmp_path, **changes):
    """A copy of qwen3-tiny with changes to its config.json."""
    model = tmp_path / "model"
    shutil.copytree(FIXTURES / "qwen3-tiny", model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, **changes}))
    return model


@pytest.mark.parametrize("changes, named", [
    ({"model_type": "mamba", "architectures": ["MambaModel"]}, "mamba"),
    ({"hidden_act": "gelu_new"}, "gelu_new"),
    ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "longrope"),
    ({"intermediate_size": 96}, "mlp"),
    ({"num_hidden_layers": 4}, "layers.3"),
])
def test_what_is_not_supported_is_refused_by_name(tmp_path, changes, named):
    status, output = run_to_end("--model-id", copy(tmp_path, **changes))
    assert status != 0
    assert named in output and "panicked" not in output, output


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path, missing):
    model = copy(tmp_path)
    (model / missing).unlink()
    status, output = run_to_end("--model-id", model)
    assert status != 0
    assert missing in output and "panicked" not in output, output


@pytest.mark.parametrize(
    "content", [b"", b"\x08\0\0\0\0\0\0\0{broken}", b"\xff" * 64], ids=["empty", "no JSON", "huge header"])
def test_a_broken_weights_file_is_refused(tmp_path, content):
    model = copy(tmp_path)
    (model / "model.safetensors").write_bytes(content)
    status, output = run_to_end("--model-id", model)
    assert status != 0
    assert "model.safetensors" in output and "panicked" not in output, output


@pytest.mark.parametrize("args, named", [
    (["--model-id", "/no/such/model"], "/no/such/model"),
    (["--model-id", "prefold-tests/does-not-exist"], "prefold-tests/does-not-exist"),
    (["--radix-mlp-threshold", "1.5"], "radix-mlp-threshold"),
    (["--max-batch-tokens", "0"], "max-batch-tokens"),
    (["--pooling", "median"], "median"),
    (["--default-prompt-name", "nonsense"], "nonsense"),
    (["--no-such-flag"], "no-such-flag"),
    (["--log-level", "WARNING"], "unknown log level `WARNING`"),
    (["--cors-allow-origin", "https://a.example/"], "https://a.example/"),
])
def test_bad_arguments_are_refused_by_name(args, named):
    status, output = run_to_end(*args)
    assert status != 0
    assert named in output and "panicked" not in output, output


def test_a_port_in_use_is_an_error():
    with Server() as server:
        status, output = run_to_end("--port", server.port)
        assert status != 0
        assert str(server.port) in output and "choose another port with --port" in output and "os error" not in output
        status, output = run_to_end("--port", server.port, "--log-level", "off")
        assert status != 0 and str(server.port) in output, "the reason is printed even without a log"


def test_variables_that_are_not_meant_for_the_server_are_none():
    """An unset `${HF_TOKEN}` as passed by Compose, Kubernetes' address of a service called prefold, and unrelated variables."""
    env = {"HF_TOKEN": "", "SERVED_MODEL_NAME": "", "MAX_BATCH_TOKENS": "", "PREFOLD_MAX_BATCH_MS": "", "TASK": "paint",
           "DEVICE": "gpu", "ATTENTION": "please", "SCHEDULING": "weekly", "PREFOLD_HOSTNAME": "127.0.0.1"}
    with Server("--host", "127.0.0.1", env=env) as server:
        assert server.get("/v1/models").json()["data"][0]["id"] == "prefold-mini"
    links = {name: "tcp://10.0.0.1:3000" for name in ("PREFOLD_PORT", "PROMETHEUS_PORT", "PREFOLD_PROMETHEUS_PORT")}
    with Server(env=links) as server:
        ignored = [line for line in server.log().splitlines() if "is a service's address" in line]
        assert len(ignored) == 3 and all("ignored" in line for line in ignored), server.log()


@pytest.mark.parametrize("env, args, words", [
    ({"PORT": "many"}, [], ["must be a whole number from 0 to 65535", "(environment variable PORT)"]),
    ({"PORT": "many", "PREFOLD_PORT": "few"}, [], ["'few'", "(environment variable PREFOLD_PORT)"]),
    ({"PREFOLD_TASK": "paint"}, [], ["paint", "(environment variable PREFOLD_TASK)"]),
    ({"MODEL_ID": "/no/such/model"}, [], ["/no/such/model", "from the environment variable MODEL_ID"]),
    ({"PREFOLD_RADIX_MLP_PAD": "5"}, [], ["--radix-mlp-pad", "from the environment variable PREFOLD_RADIX_MLP_PAD"]),
    ({"API_KEY": "sesame\n  \nopen", "PORT": "0"}, ["--port", "x"], ["'x'"]),
])
def test_an_error_names_the_variable(env, args, words):
    status, output = run_to_end(*args, env=env)
    assert status == 2 and all(word in output for word in words), output
    assert args or "environment variable" in output and "sesame" not in output


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root without its capabilities")
def test_a_folder_that_may_not_be_read_is_named(tmp_path):
    model = tmp_path / "locked" / "x"
    shutil.copytree(FIXTURES / "qwen3-tiny", model)
    without_rights = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    for folder, id in [(model.parent, "locked/x"), (model.parent, model), (model, model)]:
        folder.chmod(0)
        done = subprocess.run([*without_rights, PREFOLD, "--port", "0", "--model-id", id], cwd=tmp_path, text=True,
                              env=environment(tmp_path), capture_output=True, timeout=START_LIMIT)
        folder.chmod(0o700)
        output = done.stdout + done.stderr
        assert done.returncode in (1, 2) and "Permission denied" in output and str(id) in output, output


def test_settings_come_from_flags_then_environment_then_file(tmp_path):
    path = tmp_path / "prefold.toml"
    path.write_text(f'model-id = "{FIXTURES / "qwen3-tiny"}"\nmax_batch_tokens = 1000\nmax-concurrent-requests = 7\n'
                    'max-client-batch-size = 5\napi-key = "from-the-file"\nauto-truncate = false\n')
    with Server("--config", path, "--max-batch-tokens", "3000",
                env={"MAX_BATCH_TOKENS": "2000", "MAX_CONCURRENT_REQUESTS": "9", "API_KEY": "sesame"}) as server:
        assert server.get("/info").status == 401
        info = server.get("/info", {"authorization": "Bearer sesame"}).json()
        assert info["max_batch_tokens"] == 3000
        assert info["max_concurrent_requests"] == 9
        assert (info["max_client_batch_size"], info["auto_truncate"]) == (5, False)
        assert "sesame" not in server.log() and "from-the-file" not in server.log()
    with Server(env={"PREFOLD_CONFIG": str(path)}) as server:
        info = server.get("/info", {"authorization": "Bearer from-the-file"}).json()
        assert (info["max_batch_tokens"], info["max_concurrent_requests"]) == (1000, 7)


@pytest.mark.parametrize("text, words", [
    ("max-batch-token = 1", "max-batch-tokens"),
    ("port = 1\napi-key = 'hunter2", "line 2"),
    ("max-batch-tokens = 0", "at least 1"),
])
def test_a_wrong_file_is_refused_without_showing_it(tmp_path, text, words):
    path = tmp_path / "prefold.toml"
    path.write_text(text)
    status, output = run_to_end("--config", path)
    assert status == 2
    assert str(path) in output and words in output and "hunter2" not in output, output


def test_offline_no_hub_is_asked(tmp_path):
    """A working hub must not be called."""
    with socket.create_server(("127.0.0.1", 0)) as hub:
        endpoint = f"http://127.0.0.1:{hub.getsockname()[1]}"
        model = ("--model-id", "prefold-tests/tiny", "--hf-endpoint", endpoint, "--huggingface-hub-cache", tmp_path)
        for args, env in [(("--offline",), {}), ((), {"HF_HUB_OFFLINE": "1"})]:
            status, output = run_to_end(*model, *args, env=env)
            assert status != 0 and "--offline" in output and "prefold-tests/tiny" in output, output
        cached(tmp_path, "prefold-tests/tiny")
        with Server(*model, "--offline") as server:
            assert len(server.ask("/embed", inputs="Hi")[0]) == 64
        hub.settimeout(0)
        with pytest.raises(BlockingIOError):
            hub.accept()


def test_what_may_not_be_meant_is_warned_of():
    def warnings(server):
        return [line for line in server.log().splitlines() if " WARN " in line]

    with Server("--hostname", "0.0.0.0", "--task", "rerank") as server:
        (doubt,) = server.get("/info").json()["warnings"]
        assert "an embedding model" in doubt and "cosine" in doubt
        scores, exposed = warnings(server)
        assert doubt in scores and "no API key" in exposed and str(server.port) in exposed
    for args in [("--hostname", "0.0.0.0", "--api-key", "sesame"), ("--hostname", "127.0.0.1")]:
        with Server(*args) as server:
            assert warnings(server) == []
    with Server("--hostname", "127.0.0.1", env={"PREFOLD_MAX_BATCH_TOKNS": "5", "PREFOLD_SERVICE_HOST": "h"}) as server:
        (typo,) = warnings(server)
        assert "PREFOLD_MAX_BATCH_TOKNS" in typo and "is PREFOLD_MAX_BATCH_TOKENS meant?" in typo
