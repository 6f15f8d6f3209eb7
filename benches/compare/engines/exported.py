"""Base of the engines of exported models: tokenization, batches of similar lengths, mean pooling."""

import json
from pathlib import Path

import numpy
import tokenizers

BATCH = 32


class Exported:
    """An engine whose `run(ids, mask, types)`, each [texts, length], gives the states [texts, length, width]."""

    def __init__(self, model):
        directory = Path(model)
        self.tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.tokenizer.enable_truncation(json.loads((directory / "sentence_bert_config.json").read_text())["max_seq_length"])
        self.tokenizer.no_padding()

    def embed(self, texts):
        encoded = [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]
        # Longest first, as sentence-transformers does: little padding.
        order = sorted(range(len(texts)), key=lambda text: -len(encoded[text]))
        vectors = None
        for first in range(0, len(order), BATCH):
            part = order[first : first + BATCH]
            pooled = self.pooled([encoded[text] for text in part])
            if vectors is None:
                vectors = numpy.empty((len(texts), pooled.shape[1]), numpy.float32)
            vectors[part] = pooled
        return vectors

    def pooled(self, batch):
        ids = numpy.zeros((len(batch), len(batch[0])), numpy.int64)
        mask = numpy.zeros_like(ids)
        for row, text in enumerate(batch):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        states = self.run(ids, mask, numpy.zeros_like(ids))
        # The mean's divisor is lost in the normalization.
        sums = numpy.matmul(mask[:, None, :].astype(numpy.float32), states)[:, 0]
        return sums / numpy.linalg.norm(sums, axis=1, keepdims=True)

    def tokens(self, texts):
        return sum(len(encoding.ids) for encoding in self.tokenizer.encode_batch(texts))
