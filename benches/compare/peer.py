"""Peers: other engines, each in a separate process that speaks worker.py's protocol."""

import json
import subprocess
from dataclasses import dataclass

import venvs
from process import Answer, Process


@dataclass(frozen=True)
class Kind:
    """A row of PEERS: requirements/`venv`.txt, a module of engines/, and the requested dtype (`default`: the engine's choice)."""

    title: str
    venv: str
    engine: str
    dtype: str
    form: str  # input: the `checkpoint`, its `exported` forms, or their `quantized` forms


PEERS = {
    "torch-f32": Kind("sentence-transformers float32", "torch", "sentence_transformers_torch", "float32", "checkpoint"),
    "torch-bf16": Kind("sentence-transformers bfloat16", "torch", "sentence_transformers_torch", "bfloat16", "checkpoint"),
    "onnxruntime": Kind("ONNX Runtime float32", "onnxruntime", "onnx_runtime", "float32", "exported"),
    "onnxruntime-int8": Kind("ONNX Runtime int8", "onnxruntime", "onnx_runtime", "int8", "quantized"),
    "openvino-f32": Kind("OpenVINO float32", "openvino", "openvino_cpu", "float32", "exported"),
    "openvino": Kind("OpenVINO default", "openvino", "openvino_cpu", "default", "exported"),
    "openvino-int8": Kind("OpenVINO int8", "openvino", "openvino_cpu", "int8", "quantized"),
    "fastembed": Kind("fastembed float32", "fastembed", "fastembed_onnx", "float32", "exported"),
}


class Peer(Process):
    def __init__(self, label, model, threads, streams=1, kind=None):
        """Computes `streams` texts at once, with `threads` / `streams` threads each. `kind` defaults to the row of PEERS."""
        self.kind = kind or PEERS[label]
        super().__init__(self.kind.title, self.kind.dtype, label)
        self.model, self.threads, self.streams = model, threads, streams

    def start(self):
        """Starts the worker; returns the seconds from exec until its model is loaded."""
        here = venvs.HERE
        log = venvs.TARGET / "logs" / f"{self.label}-{self.streams}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as file:
            self.launch([self.interpreter(), here / "worker.py", self.kind.engine, self.model, self.kind.dtype, self.threads, self.streams],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True)
        self.log = log
        loaded = self.ask(do="load")
        self.versions, self.dtype = loaded["versions"], loaded["dtype"]
        return loaded["at"] - self.launched

    def interpreter(self):
        return venvs.python(self.kind.venv)

    def ask(self, **command):
        self.child.stdin.write(json.dumps(command) + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended (log: {self.log})")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']} (log: {self.log})")
        return answer

    def embed(self, texts):
        answer = self.ask(do="embed", texts=texts)
        return Answer(answer["seconds"], answer["tokens"], answer["values"])

    def score(self, query, texts):
        answer = self.ask(do="score", query=query, texts=texts)
        return Answer(answer["seconds"], answer["tokens"], answer["values"])

    def serve(self, gather=False):
        """Port on which the worker now answers /v1/embeddings (http_server.py)."""
        return self.ask(do="serve", gather=gather)["port"]
