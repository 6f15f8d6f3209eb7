"""The checks, most important first: `right` checks the device's results, `fast` measures times."""

import shutil
from dataclasses import dataclass
from typing import Callable

import rust_tests
from kit import PATH, ROOT, Kit, Outcome


@dataclass(frozen=True)
class Check:
    """A check of a list, with its time limit in seconds."""

    name: str
    list: str
    limit_s: int
    run: Callable[[Kit, int], Outcome]


def machine(kit, limit_s):
    return kit.check(kit.python("machine.py", kit.program("prefold"), kit.device), limit_s)


def ceilings(kit, limit_s):
    """Ceilings of this device, measured with torch: a copy in its memory, and a matrix product."""
    figures = kit.work / "ceilings.json"
    return kit.check(kit.python("ceilings.py", "--device", kit.device, "--out", figures), limit_s, figures, ours=False)


def kernel_tests(kit, limit_s):
    return rust_tests.run(kit, "test-kernels", limit_s, kit.load.skipped)


def model_tests(kit, limit_s):
    return rust_tests.run(kit, "test-backends", limit_s)


def harness(*flags):
    """The kernels called from Python, without prefold's programs."""

    def run(kit, limit_s):
        figures = kit.work / f"harness{flags[0]}.json"
        if kit.modules is None:
            return Outcome("skipped", "no modules: --modules")
        small = ["--small"] if kit.load.layers else []
        command = kit.python("kernels", "--modules", kit.modules, *flags, *small, "--budget", int(0.8 * min(limit_s, kit.left())), "--out", figures)
        return kit.check(command, limit_s, figures, ours=False)

    return run


def serves(model):
    """A server's responses over HTTP, compared with the same program on the CPU."""

    def run(kit, limit_s):
        command = kit.python("serve.py", "compare", kit.program("prefold"), ROOT / model, kit.device, "--logs", kit.work,
                             "--flags", *kit.load.server_flags)  # fmt: skip
        return kit.check(command, limit_s)

    return run


def forward(kit, limit_s, role, name, *flags):
    """Forward passes of a shape with compaction off, ragged and compact."""
    figures = kit.work / f"{name}.json"
    layers = ["--layers", kit.load.layers] if kit.load.layers else []
    command = [kit.program("prefold-bench"), "forward", "--device", kit.device, "--shape", kit.load.shapes[role], *layers,
               "--models", kit.models(role), "--runs", kit.load.runs, "--json", figures, *flags]  # fmt: skip
    outcome = kit.check(command, limit_s, figures)
    outcome.note = outcome.note or "; ".join(map(times, (outcome.figures or {}).get("rows", [])))
    return outcome


def times(row):
    """A batch's medians in milliseconds."""
    ways = [f"{way} {row[f'{way} ms']:.2f}" for way in ("off", "ragged", "compact") if row.get(f"{way} ms")]
    return f"{row['case']}: {', '.join(ways)} ms"


def batches(role):
    """The batches that torch computes too: MS MARCO's shape and texts that share nothing; for encoders only the latter."""

    def run(kit, limit_s):
        load = kit.load
        unshared = ["--no-msmarco", "--unshared", load.encoder_batches]
        decoder = ["--msmarco", load.msmarco, "--unshared", load.unshared]
        # Figures of an earlier run.
        kit.answers(role).unlink(missing_ok=True)
        kit.models(role).mkdir(parents=True, exist_ok=True)
        answers = ["--answers", kit.answers(role)]
        return forward(kit, limit_s, role, f"forward-{role}", "--no-prefix", *(decoder if is_decoder(role) else unshared), *answers)

    return run


def is_decoder(role):
    return role in ("0.6b", "4b", "8b")


def grid(role):
    """The paper's synthetic batches: sequences that share a prefix."""

    def run(kit, limit_s):
        load, start = kit.load, kit.left()
        parts = {}
        for suffix in load.suffixes:
            flags = ["--no-msmarco", "--batch", load.batch, "--prefix", load.prefixes, "--suffix", suffix]
            outcome = forward(kit, limit_s - (start - kit.left()), role, f"grid-{role}-{suffix}", *flags)
            parts[f"suffix {suffix}"] = outcome.figures
            if outcome.verdict != "ok":
                break
        return Outcome(outcome.verdict, outcome.note, outcome.output, parts)

    return run


def parity(role, *flags):
    """The answers of the forward passes compared with torch's in float32 on the same weights; with --time, also torch's times."""

    def run(kit, limit_s):
        answers, forward = kit.answers(role), kit.work / f"forward-{role}.json"
        if not (answers.exists() and kit.has_model(role)):
            return Outcome("skipped", f"no answers of forward-{role}")
        figures = kit.work / f"parity-{role}{''.join(flags)}.json"
        # If answers differ, a bisection finds the layer; it needs further runs of prefold-bench.
        search = [] if flags else ["--layers", kit.program("prefold-bench")]
        command = kit.python("parity", kit.model(role), answers, "--device", kit.device, "--forward", forward, *flags, *search,
                             "--budget", int(min(limit_s, kit.left())), "--out", figures)  # fmt: skip
        return kit.check(command, limit_s, figures, ours=False)

    return run


def http(role):
    """The paper's load over HTTP, with compaction off and on."""

    def run(kit, limit_s):
        if not kit.has_model(role):
            return Outcome("skipped", f"no model of forward-{role}")
        figures = kit.work / f"http-{role}.json"
        load = kit.load
        command = kit.python("serve.py", "load", kit.program("prefold"), kit.model(role), kit.device, "--logs", kit.work, "--out", figures,
                             "--seconds", load.http_seconds, "--texts", load.texts, "--clients", load.clients, "--flags", *load.server_flags)  # fmt: skip
        return kit.check(command, limit_s, figures)

    return run


def operations(kit, limit_s):
    """Each kernel, product and attention of prefold's program in the shapes of Qwen3."""
    figures = kit.work / "operations.json"
    load = kit.load
    return kit.check([kit.program("prefold-bench"), "gpu", "--rows", load.rows, "--lengths", load.lengths, "--runs", load.runs, "--json", figures],
                     limit_s, figures)  # fmt: skip


def sanitizer(tool):
    """NVIDIA's compute-sanitizer over all kernels. Calls refused by the driver are tested on purpose and are not findings."""

    def run(kit, limit_s):
        packed = kit.packed("sanitizer") / "compute-sanitizer"
        program = packed if packed.exists() else shutil.which("compute-sanitizer", path=PATH)
        if not program:
            return Outcome("skipped", "no compute-sanitizer")
        # The tools' bookkeeping leaves too little memory for large matrices.
        command = [program, "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "1", kit.program("test-kernels"),
                   "--test-threads", "1", "--skip", "2_to_the_31"]  # fmt: skip
        return kit.check(command, limit_s)

    return run


def nsight(kernels):
    """Nsight Compute on a launch of each shape of kernels with these names."""

    def run(kit, limit_s):
        if not shutil.which("ncu", path=PATH):
            return Outcome("skipped", "no ncu")
        sections = [part for section in ("SpeedOfLight", "Occupancy", "WarpStateStats", "MemoryWorkloadAnalysis") for part in ("--section", section)]
        # One launch of each shape: an operation is queued many times.
        command = ["ncu", "--kernel-name", f"regex:{kernels}", "--filter-mode", "per-launch-config", "--launch-count", "1",
                   "--clock-control", "none", *sections, kit.program("prefold-bench"), "gpu", "--rows", kit.load.rows,
                   "--lengths", kit.load.lengths, "--runs", "1"]  # fmt: skip
        return kit.check(command, limit_s)

    return run


RIGHT = [
    Check("machine", "right", 20, machine),
    Check("ceilings", "right", 40, ceilings),
    Check("kernel-tests", "right", 90, kernel_tests),
    Check("kernel-harness", "right", 90, harness("--check")),
    Check("model-tests", "right", 120, model_tests),
    Check("serve-decoder", "right", 60, serves("router/builtin")),
    Check("serve-encoder", "right", 60, serves("tests/fixtures/bert-mean-tiny")),
    Check("forward-0.6b", "right", 120, batches("0.6b")),
    Check("parity-0.6b", "right", 120, parity("0.6b")),
]
# Models checked in `right` are timed against torch first. 4B and 8B follow, then the paper's grid, encoders, and slow tools.
ENCODERS = ("minilm", "bge-base", "bge-large", "modernbert")
FAST = [
    Check("torch-0.6b", "fast", 120, parity("0.6b", "--time")),
    Check("kernel-times", "fast", 120, harness("--time")),
    Check("operations", "fast", 60, operations),
    Check("http-0.6b", "fast", 150, http("0.6b")),
    *(Check(f"forward-{role}", "fast", 240, batches(role)) for role in ("4b", "8b")),
    Check("http-8b", "fast", 240, http("8b")),
    *(Check(f"torch-{role}", "fast", 240, parity(role, "--time")) for role in ("4b", "8b")),
    *(Check(f"grid-{role}", "fast", 300, grid(role)) for role in ("0.6b", "4b", "8b")),
    *(
        Check(f"{kind}-{role}", "fast", 120, run(role))
        for role in ENCODERS
        for kind, run in (("forward", batches), ("parity", parity), ("torch", lambda role: parity(role, "--time")))
    ),
    Check("nsight-attention", "fast", 120, nsight("flash_attention")),
    Check("nsight-product", "fast", 120, nsight("gemm|cutlass|nvjet|sm90")),
    *(Check(tool, "fast", 300, sanitizer(tool)) for tool in ("memcheck", "racecheck", "initcheck", "synccheck")),
]
