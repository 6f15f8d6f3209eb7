"""Times of batches in PyTorch, with each of its attention implementations."""

import logging
import signal
import statistics
import time
import warnings
from contextlib import contextmanager, nullcontext

import numpy
import torch
from document import OutOfTime
from torch.nn.attention import SDPBackend, sdpa_kernel

# Scaled dot product attention with the default backend, FlashAttention and cuDNN.
BACKENDS = {"sdpa": None, "flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
COMPILED = "compile"
WARM = 2


class TorchTimes:
    """Timed passes of a model in bfloat16. Compilation may take `compile_seconds` for all batches together."""

    def __init__(self, model, runs, compile_seconds):
        self.model = model
        self.runs = runs
        self.compile_left = compile_seconds
        self.compiled = torch.compile(model.model)

    def rows(self, batch, clock):
        """Rows of the table: a way's median, range and tokens/s, or the reason why there are none."""
        prepared = Prepared(self.model, batch)
        rows = {name: {"batch": batch.name, "torch": name, "tokens": batch.tokens, "padded": prepared.padded} for name in (*BACKENDS, COMPILED)}
        passes = {name: self.eager(prepared, backend) for name, backend in BACKENDS.items()}
        passes[COMPILED] = lambda: prepared.run(self.compiled)
        times = {name: [] for name in passes}
        try:
            self.warm_up(passes, rows, clock)
            for _ in range(self.runs):
                # Alternating, so that drift of the machine affects all ways alike.
                for name, run in passes.items():
                    clock.check()
                    times[name].append(prepared.timed(run))
        except OutOfTime:
            pass
        for name, seconds in times.items():
            if seconds:
                median = statistics.median(seconds)
                rows[name] |= {"ms": median * 1e3, "range": [min(seconds) * 1e3, max(seconds) * 1e3], "tokens/s": batch.tokens / median}
            rows[name]["runs"] = len(seconds)
            if len(seconds) < self.runs:
                rows[name].setdefault("failed", f"the budget was spent after {len(seconds)} of {self.runs} timed passes")
        return list(rows.values())

    def warm_up(self, passes, rows, clock):
        """Runs each way and removes those that fail, with the reason in their rows. Raises OutOfTime."""
        for name in list(passes):
            clock.check()
            problem, seconds = attempt(self.compile if name == COMPILED else repeat, passes[name], clock)
            if name == COMPILED:
                rows[name]["compile s"] = seconds
            if problem:
                rows[name]["failed"] = problem
                del passes[name]

    def eager(self, prepared, backend):
        def run():
            with nullcontext() if backend is None else sdpa_kernel(backend):
                return prepared.run(self.model.model)

        return run

    def compile(self, run, clock):
        """Warms up, and compiles for the batch's new shapes."""
        if self.compile_left <= 0:
            raise TimeoutError("the time for compilation is spent")
        start, most = time.monotonic(), min(self.compile_left, clock.left())
        try:
            with alarm(most) as rang:
                run()
        except BaseException as error:
            # The state after an interrupted compilation is not reliable.
            torch._dynamo.reset()
            raise TimeoutError(f"not compiled within {most:.0f} s") if rang else error
        finally:
            self.compile_left -= time.monotonic() - start
        repeat(run, clock)


class Prepared:
    """A batch on the device, padded on the right. Under a causal mask no token sees the padding; with full attention a mask hides it."""

    def __init__(self, model, batch):
        self.model = model
        lengths = [len(sequence) for sequence in batch.sequences]
        ids = numpy.zeros((len(lengths), max(lengths)), dtype=numpy.int64)
        for row, sequence in zip(ids, batch.sequences):
            row[: len(sequence)] = sequence
        self.padded = ids.size
        self.ids = torch.from_numpy(ids).to(model.device)
        self.lengths = torch.tensor(lengths, device=model.device)
        self.mask = None
        if model.is_encoder and min(lengths) < max(lengths):
            self.mask = (torch.arange(max(lengths), device=model.device)[None] < self.lengths[:, None]).long()

    @torch.inference_mode()
    def run(self, model):
        """A pass from ids on the device to vectors on the host, where prefold's answers are too."""
        hidden = model(input_ids=self.ids, attention_mask=self.mask).last_hidden_state
        return self.model.pool(hidden, self.lengths).cpu()

    def timed(self, run):
        if self.model.device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        return time.perf_counter() - start


def repeat(run, clock):
    for _ in range(WARM):
        clock.check()
        run()


def attempt(warm_up, run, clock):
    """Why a way does not work, or None, and the seconds spent. A failing way is a result; only OutOfTime is raised."""
    start = time.monotonic()
    with warnings.catch_warnings(record=True) as said, silent_logs():
        warnings.simplefilter("always")
        try:
            warm_up(run, clock)
        except OutOfTime:
            raise
        except Exception as error:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            # The warnings say why no kernel is available.
            texts = [f"{type(error).__name__}: {error}", *(str(warning.message) for warning in said)]
            return " / ".join(dict.fromkeys(" ".join(text.split())[:200] for text in texts))[:600], time.monotonic() - start
    return None, time.monotonic() - start


@contextmanager
def silent_logs():
    """Silences the log of a failing compilation, thousands of lines; its error is reported in one line."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@contextmanager
def alarm(seconds):
    """Raises TimeoutError in the body after `seconds`, as soon as Python code runs. The yielded list is then not empty, because the body
    may replace the error by another one."""
    rang = []

    def ring(*_):
        rang.append(True)
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    # Repeated, since the body may swallow an error.
    signal.setitimer(signal.ITIMER_REAL, max(0.001, min(seconds, 1e6)), 5)
    try:
        yield rang
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
