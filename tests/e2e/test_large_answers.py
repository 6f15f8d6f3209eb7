"""Answers whose size is a product of two lengths take only the memory counted for them, and writing them blocks no other request."""

import json
import shutil
import struct

import pytest

from harness import FIXTURES, Server
from raw import Vitals

MB = 1_000_000
LABELS = 60_000
HIDDEN = 32

# Counted values of an answer: four bytes each, once in the batch and once in the answer.
COUNTED = 8

# Allowance independent of the answer: pages kept by the allocator, the model's buffers for a batch.
CONSTANT = 60 * MB


def with_labels(fixture, directory, count):
    """A copy of a classifier with `labels` labels, which repeat its first row."""
    model = shutil.copytree(FIXTURES / fixture, directory / fixture)
    config = json.loads((model / "config.json").read_text())
    names = {str(index): f"label number {index}" for index in range(count)}
    config |= {"id2label": names, "label2id": {name: int(index) for index, name in names.items()}}
    (model / "config.json").write_text(json.dumps(config))
    data = (model / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, values, parts, at = json.loads(data[8:8 + length]), data[8 + length:], [], 0
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        part, rows = values[begin:end], tensor["shape"][0]
        if name.startswith("classifier."):
            tensor["shape"][0] = count
            part = (part * (count // rows + 1))[:len(part) // rows * count]
        tensor["data_offsets"] = [at, at + len(part)]
        parts.append(part)
        at += len(part)
    text = json.dumps(header).encode()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    return model


def growth(server, path, **request):
    """Status of a request, and growth of the server's peak memory in bytes."""
    vitals = Vitals(server.process.pid)
    vitals.reset_peak()
    before = vitals.peak()
    response = server.post(path, request)
    grown = vitals.peak() - before
    print(f"{path}: {response.status}, {len(response.body) / MB:.0f} MB of text, memory +{grown / MB:.0f} MB")
    return response, grown


@pytest.mark.parametrize("path, request_of", [
    ("/predict", lambda texts: {"inputs": [[text] for text in texts]}),
    ("/predict", lambda texts: {"inputs": [[text] for text in texts], "parameters": {"top_k": 2}}),
    ("/predict", lambda texts: {"inputs": [[text] for text in texts], "raw_scores": True}),
    ("/v1/classify", lambda texts: {"input": texts}),
], ids=["predict", "top_k", "raw", "classify"])
def test_a_classifier_of_many_labels(tmp_path, path, request_of):
    count = 200
    with Server("--model-id", with_labels("bert-nli-tiny", tmp_path, LABELS)) as server:
        response, grown = growth(server, path, **request_of(["a"] * count))
        assert response.status == 200
        assert grown < count * LABELS * COUNTED + CONSTANT, f"+{grown / MB:.0f} MB"


@pytest.mark.parametrize("options", [{}, {"raw_scores": True}, {"aggregation_strategy": "average"}],
                         ids=["labels", "raw", "average"])
def test_a_classifier_of_tokens_of_many_labels(tmp_path, options):
    count = 200
    with Server("--model-id", with_labels("bert-ner-tiny", tmp_path, LABELS)) as server:
        response, grown = growth(server, "/predict_tokens", inputs="a " * count, **options)
        assert response.status == 200
        assert grown < (count + 2) * LABELS * COUNTED + CONSTANT, f"+{grown / MB:.0f} MB"
