"""ONNX Runtime's CPU provider."""

import onnxruntime

from engines.exported import Exported


class Engine(Exported):
    def __init__(self, model, dtype, threads, streams):
        super().__init__(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads // streams
        self.session = onnxruntime.InferenceSession(f"{model}/model.onnx", options, providers=["CPUExecutionProvider"])
        self.dtype = dtype
        self.versions = {"onnxruntime": onnxruntime.__version__}

    def run(self, ids, mask, types):
        return self.session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": types})[0]
