"""Answers of a server, over HTTP."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))

import asks  # noqa: E402
from harness import Server  # noqa: E402

FLAGS = ("--dtype", "float32", "--allow-empty-inputs", "--tokenization-workers", "1", "--offline")


class Refused(Exception):
    """The server refuses the checkpoint at its start."""


class Served:
    def __init__(self, draft, folder, flags=(), unit=False):
        task = {"tokens": ("--task", "classify-tokens")}.get(draft["task"], ())
        try:
            self.server = Server("--model-id", folder, *FLAGS, *task, *flags)
        except AssertionError as error:
            Server.running.clear()
            raise Refused(str(error)) from error
        self.info = self.server.get("/info").json()
        self.unit = unit

    @property
    def warnings(self):
        return self.info.get("warnings", [])

    def close(self):
        self.server.kill()

    def answer(self, ask, texts):
        """One answer for each text (or pair); {"status", "error"} where the server refuses it."""
        items = asks.pairs(texts) if ask["ask"] == "pair" else texts
        together = self.post(ask, items)
        if isinstance(together, list):
            return together
        alone = [self.post(ask, [item]) for item in items]
        return [found[0] if isinstance(found, list) else found for found in alone]

    def post(self, ask, items):
        path, body, read = getattr(self, ask["ask"])(ask, items)
        response = self.server.post(path, body)
        if response.status != 200:
            error = response.json().get("error")
            return {"status": response.status, "error": error if isinstance(error, str) else str((error or {}).get("message"))}
        return read(response.json())

    def tokenize(self, ask, texts):
        return "/tokenize", {"inputs": texts}, lambda found: [[token["id"] for token in text] for text in found]

    def embed(self, ask, texts):
        chosen = {name: ask[name] for name in ("prompt_name", "input_type") if name in ask}
        if "dimensions" in ask:
            body = {"input": texts, "model": "m", "dimensions": ask["dimensions"], **chosen}
            return "/v1/embeddings", body, lambda found: [entry["embedding"] for entry in found["data"]]
        return "/embed", {"inputs": texts, "normalize": self.unit, **chosen}, list

    def pair(self, ask, pairs):
        labels = self.info.get("model_type", {}).get("classifier", self.info.get("model_type", {}).get("reranker", {}))
        if len(labels.get("id2label", {"0": ""})) == 1 and not ask.get("raw"):
            body = {"queries": [first for first, _ in pairs], "documents": [second for _, second in pairs]}
            return "/v1/score", body, lambda found: [[entry["score"]] for entry in found["data"]]
        # sentence-transformers gives several labels without an activation.
        ids = {name: int(id) for id, name in labels.get("id2label", {}).items()}
        return "/predict", {"inputs": pairs, "raw_scores": True}, lambda found: [
            [entry["score"] for entry in sorted(one, key=lambda entry: ids.get(entry["label"], 0))] for one in found]

    def classify(self, ask, texts):
        body = {"inputs": [[text] for text in texts], "raw_scores": ask.get("raw", False)}
        return "/predict", body, lambda found: [sorted([entry["label"], entry["score"]] for entry in one) for one in found]

    def tokens(self, ask, texts):
        body = {"inputs": texts, "aggregation_strategy": ask["strategy"], "ignore_labels": []}
        return "/predict_tokens", body, lambda found: [[
            [label, entry["start"], entry["end"], score] for entry in one for label, score in entry["results"].items()] for one in found]
