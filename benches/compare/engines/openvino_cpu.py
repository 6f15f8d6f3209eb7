"""OpenVINO's CPU plugin on its own conversion of the model. By default it chooses the best type for the CPU, also for the operations of a
quantized model that are not int8."""

import threading

import openvino

from engines.exported import Exported


class Engine(Exported):
    def __init__(self, model, dtype, threads, streams):
        super().__init__(model)
        settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": streams}
        if dtype not in ("default", "int8"):
            settings["INFERENCE_PRECISION_HINT"] = {"float32": "f32", "bfloat16": "bf16"}[dtype]
        self.compiled = openvino.Core().compile_model(f"{model}/model.xml", "CPU", settings)
        self.local = threading.local()
        computed = self.compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
        self.dtype = dtype if dtype == "int8" else {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}[computed]
        self.versions = {"openvino": openvino.__version__}

    def run(self, ids, mask, types):
        if not hasattr(self.local, "request"):
            self.local.request = self.compiled.create_infer_request()
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        return self.local.request.infer(inputs, share_inputs=True, share_outputs=True)[0]
