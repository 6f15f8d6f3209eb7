"""torch's side of the comparison."""

import gc
from contextlib import contextmanager

import torch
import transformers
from torch_model import TorchModel
from torch_times import TorchTimes


class TorchSide:
    """Reference vectors and times of models on a device."""

    def __init__(self, args):
        self.args = args
        is_gpu = torch.device(args.device).type == "cuda"
        device = torch.cuda.get_device_name(args.device) if is_gpu else args.device
        self.head = {"torch": torch.__version__, "transformers": transformers.__version__, "torch's device": device}

    @contextmanager
    def models(self, directory):
        """The model in float32, the reference, and in bfloat16; their memory is freed afterwards."""
        models = [TorchModel(directory, self.args.device, dtype) for dtype in ("float32", "bfloat16")]
        try:
            yield models
        finally:
            models.clear()
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def times(self, directory):
        return TorchTimes(TorchModel(directory, self.args.device, "bfloat16"), self.args.runs, self.args.compile_seconds)
