"""torch's equivalent of a kernel, on copies of the same memory and timed the same way.

torch works in the device's primary context, as the kernels do. Errors here are reported and do not affect other results.
"""

import ctypes
import importlib.util

import numpy as np

# Tolerance for values up to 1, proportional for larger ones: several kernels of torch follow each other, and each rounds.
LARGEST_DIFFERENCE = 0.05


def version():
    """torch's version if it has a CUDA device; else the reason why it is not timed."""
    if importlib.util.find_spec("torch") is None:
        return None, "torch is not installed"
    try:
        import torch

        return (torch.__version__, None) if torch.cuda.is_available() else (None, f"torch {torch.__version__} has no CUDA device")
    except Exception as problem:
        return None, f"torch cannot be imported: {problem}"


def tensors(torch, device, memory):
    """Flat tensors with the content of a run's buffers."""
    made = {name: torch.empty(held.buffer.size, dtype=getattr(torch, held.buffer.element.torch), device="cuda") for name, held in memory.items()}
    # Work on torch's stream may still read the previous content of this memory.
    torch.cuda.synchronize()
    for name, held in memory.items():
        device.copy(made[name].data_ptr(), held.address, held.buffer.size * held.buffer.element.size)
    device.synchronize()
    return made


def difference(torch, run, result, rng):
    """The largest difference of torch's first output from the reference, over a sample of rows."""
    output = run.outputs[0]
    element = run.buffers[output.buffer].element
    if str(result.dtype) != f"torch.{element.torch}":
        raise TypeError(f"torch's result is {result.dtype}, not {element.torch}")
    rows = np.unique(rng.choice(output.rows, min(output.rows, 16), replace=False))
    words = {2: torch.int16, 4: torch.int32}[element.size]
    chosen = result.reshape(output.rows, -1)[torch.from_numpy(rows).to(result.device)].contiguous().view(words)
    expected = np.asarray(output.reference(rows), np.float64)
    found = element.wide(chosen.cpu().numpy().view(element.storage))
    return float(np.max(np.abs(found - expected) / np.maximum(np.abs(expected), 1.0)))


def times(timer, session, held, rng):
    """`torch_us` and so on of the equivalent, and its difference from the reference; or `torch_problem`. `held`: the memory of the input
    sets that alternate; the first set is the session's."""
    import torch

    try:
        run, device = session.run, timer.device
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        # An in-place kernel has changed it.
        session.memory.upload()
        with torch.no_grad():
            queue = [run.torch_equivalent(torch, tensors(torch, device, memory)) for memory in held]
            result = queue[0]()
            differs = None if result is None else difference(torch, run, result, rng)
            found = {**timer.measure(queue, stream).description("torch_"), "torch_difference": differs}
        del queue, result
        torch.cuda.empty_cache()
        if differs is not None and not differs <= LARGEST_DIFFERENCE:
            return {"torch_problem": f"its result differs from the reference by {differs}, so it is not equivalent"}
        return found
    except Exception as problem:
        return {"torch_problem": f"{type(problem).__name__}: {problem}"}
