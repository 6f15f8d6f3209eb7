"""fastembed, with its own tokenization, pooling and ONNX Runtime session."""

import importlib.metadata

import fastembed
import numpy

BATCH = 32


class Engine:
    def __init__(self, model, dtype, threads, streams):
        self.model = fastembed.TextEmbedding("sentence-transformers/all-MiniLM-L6-v2", specific_model_path=model, threads=threads // streams)
        self.dtype = dtype
        self.versions = {name: importlib.metadata.version(name) for name in ("fastembed", "onnxruntime")}

    def embed(self, texts):
        # It pads a batch to its longest text and does not sort; it is fastest when texts are sorted by length.
        order = sorted(range(len(texts)), key=lambda text: -len(texts[text]))
        vectors = numpy.array(list(self.model.embed([texts[text] for text in order], batch_size=BATCH)), numpy.float32)
        answer = numpy.empty_like(vectors)
        answer[order] = vectors
        return answer

    def tokens(self, texts):
        return sum(sum(encoding.attention_mask) for encoding in self.model.model.tokenizer.encode_batch(texts))
