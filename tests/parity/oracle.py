"""Answers of sentence-transformers and transformers, in float32, one text at a time: padding must not matter."""

import warnings

import numpy as np
import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers import AutoTokenizer

import asks

warnings.simplefilter("ignore")


EXACT = torch.float64


class Failed(Exception):
    """The libraries refuse the checkpoint."""


class Oracle:
    def __init__(self, draft, folder, dtype=torch.float32):
        self.folder, self.task, options = folder, draft["task"], {"dtype": dtype}
        try:
            if self.task == "embed":
                self.model = SentenceTransformer(str(folder), device="cpu", local_files_only=True, model_kwargs=options)
                self.tokenizer = self.model.tokenizer
            elif self.task in ("pair", "prompted"):
                self.model = CrossEncoder(str(folder), device="cpu", local_files_only=True, model_kwargs=options)
                self.tokenizer = self.model.tokenizer
            else:
                head = "SequenceClassification" if self.task == "classify" else "TokenClassification"
                self.tokenizer = AutoTokenizer.from_pretrained(folder)
                self.model = getattr(transformers, f"AutoModelFor{head}").from_pretrained(folder, **options).eval()
                # As sentence-transformers does; a pipeline alone may take texts beyond the model's positions.
                longest = getattr(self.model.config, "max_position_embeddings", 512)
                self.tokenizer.model_max_length = min(self.tokenizer.model_max_length, longest)
            if self.tokenizer is None:
                raise ValueError("no tokenizer")
            self.unit = asks.ends_in_unit_vectors(folder)
        except Exception as error:
            raise Failed(f"{type(error).__name__}: {error}") from error

    def answer(self, ask, texts):
        """One answer for each text (or pair), None where the libraries fail."""
        items = asks.pairs(texts) if ask["ask"] == "pair" else texts
        return [self.attempt(ask, item) for item in items]

    def attempt(self, ask, item):
        try:
            with torch.inference_mode():
                return getattr(self, ask["ask"])(ask, item)
        except Exception:
            return None

    def tokenize(self, ask, text):
        given = getattr(self.model[0], "processing_kwargs", {}) if self.task == "embed" else {}
        adds = {**given.get("common", {}), **given.get("text", {})}.get("add_special_tokens", True)
        return self.tokenizer(text, truncation=False, add_special_tokens=adds)["input_ids"]

    def embed(self, ask, text):
        options = {"batch_size": 1, "show_progress_bar": False}
        if "dimensions" in ask:
            options.update(truncate_dim=ask["dimensions"], normalize_embeddings=True)
        encode = {"query": self.model.encode_query, "document": self.model.encode_document}.get(ask.get("input_type"), self.model.encode)
        if "prompt_name" in ask:
            options["prompt_name"] = ask["prompt_name"]
        vector = np.asarray(encode([text], **options)[0], dtype=np.float64)
        return unit(vector) if self.unit else vector.tolist()

    def pair(self, ask, pair):
        # A server's scores are probabilities; the default of LogitScore models is their logits.
        chosen = torch.nn.Identity() if ask.get("raw") else torch.nn.Sigmoid() if ask.get("prompted") else None
        activation = {"activation_fn": chosen} if chosen else {}
        return np.atleast_1d(self.model.predict([tuple(pair)], batch_size=1, show_progress_bar=False, **activation)[0]).tolist()

    def classify(self, ask, text):
        chosen = {"function_to_apply": "none"} if ask.get("raw") else {}
        pipeline = transformers.TextClassificationPipeline(model=self.model, tokenizer=self.tokenizer)
        found = pipeline(text, top_k=None, truncation=True, **chosen)
        return sorted([entry["label"], entry["score"]] for entry in found)

    def tokens(self, ask, text):
        pipeline = transformers.TokenClassificationPipeline(
            model=self.model, tokenizer=self.tokenizer, aggregation_strategy=ask["strategy"], ignore_labels=[])
        return [[entry.get("entity", entry.get("entity_group")), entry["start"], entry["end"], float(entry["score"])]
                for entry in pipeline(text)]


def unit(vector):
    length = np.linalg.norm(vector)
    return (vector / length if length > 1e-12 else vector).tolist()
