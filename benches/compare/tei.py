"""text-embeddings-inference as a contender: a `text-embeddings-router` built with its ONNX Runtime backend, which computes in float32."""

from server import Server, free_port
from venvs import TARGET


class Tei(Server):
    product, ready = "text-embeddings-inference", "/health"

    def __init__(self, binary, model):
        super().__init__("text-embeddings-inference", "float32", "tei")
        self.binary, self.model = binary, model

    def command(self):
        # By default `/embed` refuses texts that are too long; prefold truncates them where the model's files say so.
        return [self.binary, "--model-id", self.model, "--pooling", "mean", "--hostname", "127.0.0.1", "--port", self.port,
                "--prometheus-port", free_port(), "--max-client-batch-size", 1024, "--auto-truncate"]

    def environment(self):
        """The library of the peer `onnxruntime`, for a router built to load one."""
        found = sorted((TARGET / "venvs/onnxruntime").rglob("libonnxruntime.so*"))
        return {"ORT_DYLIB_PATH": str(found[0])} if found else {}
