"""Errors of the driver, the device and the libraries on the simulated device: at start-up, in one batch, and permanent."""

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import BINARIES, FIXTURES, PREFOLD, Server, run_to_end
from simulated import DEVICE_LOST, LIBRARIES, Simulated, assert_values, on, refused, required, small

pytestmark = required

MODEL = "qwen3-tiny"


def on_the_cpu(*args, env):
    """A server that must have chosen the CPU: one line says so, and /info."""
    with Server(FIXTURES / MODEL, *args, env=env) as server:
        info = server.get("/info").json()
        (line,) = [line for line in server.log().splitlines() if "built for CUDA" in line]
        (warning,) = [warning for warning in info["warnings"] if "built for CUDA" in warning]
        assert info["device"] == "cpu" and "WARN" in line and warning in line
        assert len(server.ask("/embed", inputs="a")[0]) > 1
        return warning


# --- Libraries and drivers -----------------------------------------------------------------------------------------------


def test_no_driver_is_the_cpu_unless_a_gpu_is_asked_for(tmp_path):
    nothing = on(tmp_path, {})
    assert "libcuda.so.1" in on_the_cpu(env=nothing)
    assert "libcuda.so.1" in refused("--device", "cuda", libraries=tmp_path)


def test_no_device_is_the_cpu_unless_a_gpu_is_asked_for():
    assert "CUDA_ERROR_NO_DEVICE" in on_the_cpu(env=on(LIBRARIES, {"SIM_DEVICES": 0}))
    assert "CUDA_ERROR_NO_DEVICE" in refused("--device", "cuda", SIM_DEVICES=0)


@pytest.mark.parametrize("fault, name, advice", [
    ("init@1=system_driver_mismatch", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "restart the machine"),
    ("init@1=unknown", "CUDA_ERROR_UNKNOWN", "Xid"),
    ("init@1=out_of_memory", "CUDA_ERROR_OUT_OF_MEMORY", "nvidia-smi"),
    ("count@1=device_unavailable", "CUDA_ERROR_DEVICE_UNAVAILABLE", "compute mode"),
])
@pytest.mark.parametrize("flags", [[], ["--device", "cuda"]])
def test_a_broken_driver_is_never_the_cpu(fault, name, advice, flags):
    output = refused(*flags, SIM_FAULTS=fault)
    assert name in output and advice in output, output
    assert flags or "--device cpu" in output, output


def test_the_cpu_can_be_chosen_beside_a_broken_driver():
    with Server(FIXTURES / MODEL, "--device", "cpu", env=on(LIBRARIES, {"SIM_FAULTS": "init@1=unknown"})) as server:
        assert server.get("/info").json()["device"] == "cpu"


@pytest.mark.parametrize("flags", [[], ["--device", "cuda"]])
def test_an_old_driver_is_told_its_version(flags):
    assert "driver 12.4 found, 13.0 needed (r580)" in refused(*flags, SIM_DRIVER_VERSION=12040)


def test_a_newer_driver_serves():
    with Simulated(MODEL, SIM_DRIVER_VERSION=13010) as server:
        assert_values(server, MODEL, "bfloat16")


def test_a_device_that_is_too_old_is_refused():
    assert "compute capability 7.5, 8.0 is needed" in refused(SIM_CAPABILITY="7.5")


def test_a_module_can_be_replaced_by_a_file(tmp_path):
    """The simulated device runs a kernel by name from any module: here from another one, built for every supported device."""
    assert f"PREFOLD_CUDA_MODULES: {tmp_path} has no module" in refused(PREFOLD_CUDA_MODULES=tmp_path)
    module = next((BINARIES.parent / "cuda-kernels").glob("rows-*.fatbin"))
    shutil.copy(module, tmp_path / "rope.fatbin")
    with Simulated(MODEL, PREFOLD_CUDA_MODULES=tmp_path) as server:
        assert_values(server, MODEL, "bfloat16")
        assert "kernels of PREFOLD_CUDA_MODULES replace the built-in ones: rope" in server.log()
    (tmp_path / "rope.cubin").write_bytes(b"no code" * 10)
    assert "CUDA_ERROR_INVALID_IMAGE" in refused(PREFOLD_CUDA_MODULES=tmp_path)
    (tmp_path / "rope.cubin").unlink()
    (tmp_path / "rope.cubin").mkdir()
    assert f"PREFOLD_CUDA_MODULES: {tmp_path}/rope.cubin cannot be read" in refused(PREFOLD_CUDA_MODULES=tmp_path)


@pytest.mark.parametrize("capability", ["8.0", "8.6", "8.9", "9.0", "10.0", "12.0", "12.1"])
def test_every_newer_device_has_code(capability):
    with Simulated(MODEL, SIM_CAPABILITY=capability) as server:
        assert_values(server, MODEL, "bfloat16")


def test_a_missing_library_is_named(tmp_path):
    (tmp_path / "libcuda.so.1").symlink_to(Path(LIBRARIES) / "libcuda.so.1")
    output = refused(libraries=tmp_path)
    assert "libcublas.so.13" in output and "LD_LIBRARY_PATH" in output, output
    (tmp_path / "libcublas.so.13").write_bytes(b"")
    assert "file too short" in refused(libraries=tmp_path)


def test_a_damaged_driver_is_no_missing_one(tmp_path):
    (tmp_path / "libcuda.so.1").write_bytes(b"")
    assert "libcuda.so.1 cannot be used" in refused(libraries=tmp_path)


def test_the_second_of_two_devices():
    with Simulated(MODEL, device="cuda:1", SIM_DEVICES=2) as server:
        assert server.get("/info").json()["device"] == "cuda:1"
        assert_values(server, MODEL, "bfloat16")
    assert "there is no such device" in refused("--device", "cuda:2", SIM_DEVICES=2)


# --- Memory --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["gemm@1=out_of_memory", "copy@1=out_of_memory",
                                   "launch@5=launch_out_of_resources", "launch@9=out_of_memory"])
def test_one_batch_fails_and_the_next_works(tmp_path, fault):
    faults = tmp_path / "faults"
    with Simulated(MODEL, SIM_FAULTS_FILE=faults, SIM_SEED=len(fault)) as server:
        assert_values(server, MODEL, "bfloat16")
        faults.write_text(fault)
        failed = server.post("/embed", {"inputs": "there is no room for this"})
        assert failed.status == 424 and failed.json()["error_type"] == "Backend", failed
        assert server.get("/health").status == 200
        assert_values(server, MODEL, "bfloat16")


def test_requests_allocate_and_load_nothing(tmp_path):
    """The warm-up has used everything: a later allocation would fail, and a kernel loaded at its first launch would be in the log."""
    faults = tmp_path / "faults"
    with Simulated(MODEL, SIM_FAULTS_FILE=faults) as server:
        faults.write_text("alloc@1=out_of_memory")
        for inputs in (["a"], ["a b c", "a b d"], ["one text of some words"] * 3):
            server.ask("/embed", inputs=inputs)
        assert_values(server, MODEL, "bfloat16")


def test_a_model_that_does_not_fit_is_refused():
    assert "OUT_OF_MEMORY" in refused(SIM_FAULTS="alloc@3=out_of_memory")
    output = refused("--device", "cuda", SIM_DEVICE_BYTES=2 << 20)
    assert "max-batch-tokens" in output or "memory" in output.lower(), output


# --- A device that fails for good ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", ["launch@37=illegal_address", "launch@20=launch_failed", "gemm@5=ecc_uncorrectable",
                                   "copy@2=unknown", "synchronize@1=illegal_address", "launch@1=hardware_stack_error"])
def test_a_device_that_fails_for_good_ends_the_server(tmp_path, fault, seed):
    """Requests in flight get 503, one log line gives the reason, and the exit status is distinct for supervisors."""
    faults = tmp_path / "faults"
    server = Simulated(MODEL, SIM_FAULTS_FILE=faults, SIM_SEED=seed)
    assert_values(server, MODEL, "bfloat16")

    def ask(i):
        try:
            return server.post("/embed", {"inputs": f"text {i} of some words"})
        except OSError:
            return None  # It has ended.

    faults.write_text(fault)
    with ThreadPoolExecutor(8) as pool:
        answers = [answer for answer in pool.map(ask, range(16)) if answer]
    assert {answer.status for answer in answers} <= {200, 503}, answers
    lost = [answer for answer in answers if answer.status == 503]
    assert lost and all("device has failed" in answer.json()["error"] and answer.headers["retry-after"] for answer in lost), answers
    assert server.wait() == DEVICE_LOST
    log = server.log()
    assert log.count("no answer is possible any more") == 1 and re.search("CUDA_ERROR_|CUBLAS_STATUS_", log), log
    assert len([line for line in log.splitlines() if " ERROR " in line]) == 1, log


def test_a_device_that_fails_in_the_warm_up():
    environment = on(LIBRARIES, {"SIM_FAULTS": "launch@1=illegal_address"})
    status, output = run_to_end(FIXTURES / MODEL, *small(200), env=environment)
    assert status == DEVICE_LOST and "the device has failed" in output, (status, output)


# --- The program ---------------------------------------------------------------------------------------------------------


def test_the_program_names_none_of_the_libraries():
    needed = subprocess.run(["readelf", "-d", PREFOLD], capture_output=True, text=True, check=True).stdout
    libraries = re.findall(r"NEEDED.*\[(.*)\]", needed)
    assert libraries and not [name for name in libraries if re.match("libcu|libnv", name)], libraries
