"""sentence-transformers on PyTorch: an embedder, or a cross-encoder where the checkpoint has a classifier."""

import json
from pathlib import Path

import sentence_transformers
import torch
import transformers

BATCH = 32


class Engine:
    def __init__(self, model, dtype, threads, streams):
        torch.set_num_threads(threads // streams)
        arguments = {"device": "cpu", "model_kwargs": {"dtype": getattr(torch, dtype)}}
        architecture = json.loads((Path(model) / "config.json").read_text())["architectures"][0]
        if architecture.endswith("ForSequenceClassification"):
            self.model = sentence_transformers.CrossEncoder(model, **arguments)
        else:
            self.model = sentence_transformers.SentenceTransformer(model, **arguments)
        self.dtype = dtype
        self.versions = {module.__name__: module.__version__ for module in (sentence_transformers, torch, transformers)}

    def embed(self, texts):
        return self.model.encode(texts, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)

    def score(self, pairs):
        logits = self.model.predict(pairs, batch_size=BATCH, activation_fn=torch.nn.Identity(), show_progress_bar=False)
        return logits.reshape(-1)

    def tokens(self, texts):
        limit = getattr(self.model, "max_seq_length", None)
        encoded = self.model.tokenizer(texts, truncation=limit is not None, max_length=limit, padding=False)
        return sum(map(len, encoded["input_ids"]))
