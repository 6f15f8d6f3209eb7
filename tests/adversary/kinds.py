"""Kinds of servers: the model, its flags, and the good client's requests. Each has its own routes, and multiplies other quantities."""

import json
import shutil
from dataclasses import dataclass, replace

from harness import FIXTURES
from tensor_folders import give_rows

# Labels of the classifier with many labels.
LABELS = 20_000


def fixture(name):
    return lambda directory: ("--model-id", FIXTURES / name)


def classifier_of_many_labels(directory):
    """A token classifier whose answer for one token has thousands of scores."""
    path = shutil.copytree(FIXTURES / "bert-ner-tiny", directory / "labels", ignore=shutil.ignore_patterns("expected*"))
    give_rows(path / "model.safetensors", LABELS, "classifier.weight", "classifier.bias")
    config = json.loads((path / "config.json").read_text())
    labels = {str(number): f"label {number}" for number in range(LABELS)}
    config |= {"id2label": labels, "label2id": {name: int(number) for number, name in labels.items()}}
    (path / "config.json").write_text(json.dumps(config))
    return "--model-id", path


@dataclass(frozen=True)
class Kind:
    """`questions` names the good client's requests (`witness.QUESTIONS`); `changes` override limits."""

    arguments: object
    questions: str
    is_json: bool = True
    changes: tuple = ()

    def limits(self, limits):
        return replace(limits, **dict(self.changes))


KINDS = {
    "embedding": Kind(lambda directory: (), "embedding"),
    "classifier": Kind(fixture("qwen3-seqcls-tiny"), "classifier", is_json=False),
    "encoder": Kind(fixture("bert-mean-tiny"), "embedding"),
    "reranker": Kind(fixture("bert-reranker-tiny"), "reranker"),
    "prompted": Kind(fixture("qwen3-reranker-tiny"), "reranker"),
    "tokens": Kind(fixture("bert-ner-tiny"), "tokens"),
    "labels": Kind(classifier_of_many_labels, "labels", changes=(("vector", 4 * LABELS / 1792),)),
    "pieces": Kind(fixture("xlm-roberta-tiny"), "embedding"),
    "static": Kind(fixture("model2vec-tiny"), "embedding", changes=(("batch_tokens", 16_384), ("queued_tokens", 65_536))),
}
