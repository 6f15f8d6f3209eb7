"""Quantizes an exported BERT to int8 for the peers: quantize.py EXPORTED OUT, with calibration texts as a JSON list on standard input (in the
environment `torch`).

`model.onnx` is made by ONNX Runtime's dynamic quantization: signed weights with a scale per column, unsigned activations with a scale per
tensor. Fusing BERT's layers first with its tool, or unsigned weights, would be slower. `model.xml` is made by NNCF's post-training
quantization for transformers, with its defaults otherwise: weights with a scale per row, activations with scales from the
calibration texts.
"""

import json
import shutil
import sys
from pathlib import Path

import nncf
import numpy
import openvino
import tokenizers
from onnxruntime.quantization import QuantType, quantize_dynamic

from export import FILES, INPUTS


def calibrated_openvino(source, out, texts, limit):
    tokenizer = tokenizers.Tokenizer.from_file(str(source.parent / "tokenizer.json"))
    tokenizer.enable_truncation(limit)
    tokenizer.no_padding()

    def inputs(text):
        ids = numpy.array([tokenizer.encode(text).ids], numpy.int64)
        return dict(zip(INPUTS, (ids, numpy.ones_like(ids), numpy.zeros_like(ids))))

    quantized = nncf.quantize(openvino.Core().read_model(source), nncf.Dataset(texts, inputs), subset_size=len(texts),
                              model_type=nncf.ModelType.TRANSFORMER)
    openvino.save_model(quantized, out / "model.xml", compress_to_fp16=False)


def main(exported, out):
    texts = json.load(sys.stdin)
    limit = json.loads((exported / "sentence_bert_config.json").read_text())["max_seq_length"]
    for name in FILES:
        shutil.copy(exported / name, out)
    quantize_dynamic(exported / "model.onnx", out / "model.onnx", weight_type=QuantType.QInt8, per_channel=True)
    calibrated_openvino(exported / "model.xml", out, texts, limit)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
