"""benches/gpu/kernels on the simulated device: every kernel passes, and every kind of fault is noticed and does not affect other cases.
Needs nvcc; SIMULATED_DEVICE names the directory of the simulator's libraries."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from harness import ROOT
from simulated import LIBRARIES, on, required

pytestmark = required

HARNESS = ROOT / "benches" / "gpu" / "kernels"
CUBINS = ROOT / "benches" / "gpu" / "cubins.sh"
# Device memory for small shapes, of which an eighth is copied to fill the time between launches.
SETTINGS = {"SIM_DEVICE_BYTES": 400_000_000}


def compile_cubins(directory, *names, **environment):
    # Other builds on the simulated device omit optimisation, which would change the sizes.
    env = {name: value for name, value in os.environ.items() if name != "NVCC_APPEND_FLAGS"} | environment
    return subprocess.run([CUBINS, directory, *names], env=env, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def cubins(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cubins")
    done = compile_cubins(directory)
    assert done.returncode == 0, done.stderr
    assert int(re.search(r"(\d+) in all", done.stdout)[1]) < 2 << 20
    return directory


class Run:
    """A finished run: its status, its output and its JSON."""

    def __init__(self, tmp_path, modules, *args, harness=HARNESS, **settings):
        self.out = tmp_path / "kernels.json"
        process = subprocess.run(command(harness, modules, self.out, *args), env={**os.environ, **on(LIBRARIES, SETTINGS | settings)},
                                 capture_output=True, text=True, timeout=600, check=False)
        self.status, self.output = process.returncode, process.stdout + process.stderr
        self.json = json.loads(self.out.read_text())

    @property
    def cases(self):
        return self.json["cases"]

    def problems(self):
        """Failures by kernel and variant."""
        assert self.status == (1 if any(not case["ok"] for case in self.cases) else 0), self.output
        return {f"{case['kernel']} {case['variant']}": case["problem"] for case in self.cases if not case["ok"]}


def command(harness, modules, out, *args):
    return [sys.executable, harness, "--modules", modules, "--out", out, "--seed", "1", "--no-torch", *map(str, args)]


def test_every_kernel_passes(tmp_path, cubins):
    """All pass, and every kernel compiled by nvcc has a case: the harness reads the names in the cubins."""
    run = Run(tmp_path, cubins, "--check")
    assert not run.problems(), run.output
    assert run.json["finished"] and not run.json["left"]
    assert len({case["kernel"] for case in run.cases}) >= 78
    assert all(case["worst"] <= 1 for case in run.cases)
    device, modules = run.json["device"], run.json["modules"]
    assert device["name"] == "Simulated H100" and device["compute_capability"] == [9, 0]
    assert sum(module["bytes"] for module in modules.values()) == sum(file.stat().st_size for file in cubins.iterdir())


def test_kernels_are_timed(tmp_path, cubins):
    run = Run(tmp_path, cubins, "--time", "--small", "--only", "rows,add_rms_norm,flash_attention_bf16_128", "--modules", cubins)
    assert not run.problems(), run.output
    by_family = {family: [case for case in run.cases if case["family"] == family] for family in ("rows", "norm", "attention")}
    assert all(by_family.values())
    for case in run.cases:
        assert 0 < case["us_min"] <= case["us"] <= case["us_max"]
        rate, peak = ("TFLOP/s", None) if case["family"] == "attention" else ("GB/s", "of_copy")
        assert case[rate] > 0 and (peak is None or case[peak] > 0) and case["copy_GB/s"] > 0
        # A kernel is timed if its result is right.
        assert case["timed"] and case["worst"] <= 1


# A change of the harness, the expected finding, and the kernels that must report it.
FAULTS = {
    "reference": ("references.py", "x * _inverse_root(np.mean(x * x,", "x * _inverse_root(np.var(x,", "rms_norm_add", "expected"),
    "reference of attention": ("attention_run.py", "seen = (keys >= first[:, None])", "seen = (keys > first[:, None] - 2)",
                               "plain_attention_bf16", "expected"),
    "tolerance": ("tolerances.py", "1.001 * element.rounding", "0.4 * element.rounding", "bias_rows_bf16", "expected"),
    "NaN where none is expected": ("references.py", "rows[~inside] = np.nan", "rows[~inside] = 0", "embed_bf16_4", "is nan, expected 0"),
    "no NaN where one is expected": ("references.py", "result = x.max(0)", "result = x.max(0) * np.nan", "pool_rows", "expected nan"),
    "too few blocks": ("launch.py", "-(-rows // 8), 256", "rows // 8, 256", "gather_rows_16", "were not written, the first at"),
    "too many blocks": ("launch.py", "return Launch(pair[wide], rows,", "return Launch(pair[wide], rows + 1,", "convert_bf16,scale_rows",
                        "bytes after the buffer were written, the nearest 0 bytes away"),
    "an input is written": ("cases/activation.py", 'Pointer("bias") if bias else NULL, Pointer(target)',
                            'Pointer("bias") if bias else NULL, Pointer("x")', "activate_f32_4", "an input was written"),
    "another launch than prefold's": ("launch.py", "wide = width % step == 0 and aligned", "wide = False", "convert_f16",
                                      "prefold would launch convert_f16_1"),
    "an argument is missing": ("cases/rows.py", "[Pointer(\"x\"), f32(factor), u32(width)]", "[Pointer(\"x\"), f32(factor)]", "scale_rows_4",
                               "scale_rows_4 takes arguments of [8, 4, 4] bytes, not [8, 4]"),
    "an argument of another size": ("launch.py", '("distance_origin", ctypes.c_uint32)', '("distance_origin", 3 * ctypes.c_uint32)',
                                    "flash_attention_f16_64", "takes arguments of [152] bytes, not [160]"),
    "a kernel without a case": ("cases/rows.py", 'yield case("scale_rows_4", "1032', 'yield case("scale_rows_1", "1032', "gather_rows_2",
                                "module rows has a kernel that no case checks"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault, tmp_path, cubins):
    file, old, new, only, message = FAULTS[fault]
    harness = tmp_path / "kernels"
    shutil.copytree(HARNESS, harness, ignore=shutil.ignore_patterns("__pycache__"))
    text = (harness / file).read_text()
    assert text.count(old) >= 1
    (harness / file).write_text(text.replace(old, new))
    run = Run(tmp_path, cubins, "--check", "--only", only, harness=harness)
    problems = run.problems()
    assert problems and any(message in problem for problem in problems.values()), run.output


def test_a_broken_replacement_fails_alone(tmp_path, cubins):
    """A file of PREFOLD_CUDA_MODULES replaces its module; the other modules come from --modules."""
    variants = tmp_path / "variants"
    variants.mkdir()
    (variants / "norm.cubin").write_bytes(b"not a module at all" * 10)
    shutil.copy(cubins / "rope.cubin", variants / "rope.cubin")
    run = Run(tmp_path, cubins, "--check", "--only", "rms_norm_add,scale_rows,qk_norm_rope_f32_1", PREFOLD_CUDA_MODULES=variants)
    problems = run.problems()
    assert {name.split()[0] for name in problems} == {"rms_norm_add_1", "rms_norm_add_4"}
    assert all(f"module norm from {variants}/norm.cubin: cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE" in problem for problem in problems.values())
    assert f"module rope is replaced by {variants}/rope.cubin" in run.output
    assert {name for name, module in run.json["modules"].items() if module["override"]} == {"norm", "rope"}


def test_a_replacement_for_another_architecture_is_refused(tmp_path, cubins):
    variants = tmp_path / "variants"
    assert compile_cubins(variants, "experts", ARCH="80").returncode == 0
    run = Run(tmp_path, cubins, "--check", "--only", "scatter_add_rows_1", PREFOLD_CUDA_MODULES=variants)
    problems = run.problems()
    assert problems and all("CUDA_ERROR_NO_BINARY_FOR_GPU" in problem for problem in problems.values())


@pytest.mark.parametrize("what, settings, message", [
    ("no device", {"SIM_DEVICES": 0}, "cuInit: CUDA_ERROR_NO_DEVICE"),
    ("no modules", {}, "there is no activation.cubin or activation.fatbin in"),
    ("no replacements", {"PREFOLD_CUDA_MODULES": "/nowhere/to/be/found"}, "PREFOLD_CUDA_MODULES=/nowhere/to/be/found is not a directory"),
])
def test_what_is_missing_is_said(what, settings, message, tmp_path, cubins):
    run = Run(tmp_path, tmp_path if what == "no modules" else cubins, "--check", **settings)
    assert run.status == 1 and not run.cases
    assert message in run.json["problem"] and f"no kernel can run: {run.json['problem']}" in run.output


def test_a_lost_context_stops_only_its_case(tmp_path, cubins):
    """The second launch of each process breaks the device: a new process continues after each failure."""
    run = Run(tmp_path, cubins, "--check", "--only", "convert", SIM_FAULTS="launch@2=illegal_address")
    assert [case["ok"] for case in run.cases] == [True, False] * (len(run.cases) // 2) + [True] * (len(run.cases) % 2)
    assert len(run.cases) == 9
    assert all("CUDA_ERROR_ILLEGAL_ADDRESS (700)" in problem for problem in run.problems().values())


def test_a_crash_stops_only_its_case(tmp_path, cubins):
    """A copy within the device reads freed memory: the simulated device ends the process and reports the reason."""
    harness = tmp_path / "kernels"
    shutil.copytree(HARNESS, harness, ignore=shutil.ignore_patterns("__pycache__"))
    text = (harness / "cases" / "rows.py").read_text()
    (harness / "cases" / "rows.py").write_text(text.replace('[Pointer("x"), f32(factor)', '[Pointer("x", 1 << 30), f32(factor)'))
    run = Run(tmp_path, cubins, "--check", "--only", "scale_rows,gather_rows_2,rms_norm_add", harness=harness)
    problems = run.problems()
    assert {name.split()[0] for name in problems} == {"scale_rows_1", "scale_rows_4"} and len(run.cases) > len(problems)
    assert all("the process ended with SIGABRT" in problem and "simulated device: scale_rows" in problem for problem in problems.values())


def test_inputs_follow_from_the_seed(tmp_path, cubins):
    def worst(seed):
        return [case["worst"] for case in Run(tmp_path, cubins, "--check", "--only", "layer_norm_f32", "--seed", seed).cases]

    assert worst(1) == worst(1) != worst(2)


def test_no_case_begins_after_the_budget(tmp_path, cubins):
    run = Run(tmp_path, cubins, "--check", "--only", "gather", "--budget", 0)
    assert run.status == 0 and not run.cases and len(run.json["left"]) == 6
    assert "no time was left for 6 cases, from gather_rows_16" in run.output


def children(process):
    """Ids of a process's children."""
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        return [int(pid) for pid in file.read().split()]


class Started:
    """A run in progress: `lines` of its output so far."""

    def __init__(self, tmp_path, modules, *args):
        self.out = tmp_path / "kernels.json"
        self.process = subprocess.Popen(command(HARNESS, modules, self.out, *args), env={**os.environ, **on(LIBRARIES, SETTINGS)},
                                        stdout=subprocess.PIPE, text=True)

    def wait_for_results(self, count):
        results = 0
        for line in self.process.stdout:
            results += line.startswith(("ok", "FAILED"))
            if results == count:
                return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def test_what_was_found_survives_a_kill(tmp_path, cubins):
    with Started(tmp_path, cubins, "--check", "--only", "rows") as started:
        started.wait_for_results(5)
        workers = children(started.process)
        started.process.kill()
        started.process.wait()
        found = json.loads(started.out.read_text())
        assert not found["finished"] and len(found["cases"]) >= 5 and all(case["ok"] for case in found["cases"])
        # The process with the device ends with it.
        assert len(workers) == 1
        deadline = time.monotonic() + 30
        while os.path.exists(f"/proc/{workers[0]}") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not os.path.exists(f"/proc/{workers[0]}")


def test_a_case_that_hangs_is_ended(tmp_path, cubins):
    with Started(tmp_path, cubins, "--check", "--only", "activate_bf16", "--limit", 3) as started:
        started.wait_for_results(2)
        for worker in children(started.process):
            os.kill(worker, signal.SIGSTOP)
        output = started.process.stdout.read()
        assert started.process.wait() == 1
    cases = json.loads(started.out.read_text())["cases"]
    problems = [case["problem"] for case in cases if not case["ok"]]
    assert problems == ["did not answer within 3 s and was ended"], output
    assert cases[-1]["ok"] and len(cases) > 5
