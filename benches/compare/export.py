"""Exports a BERT checkpoint for the peers that do not read checkpoints: export.py MODEL OUT (in the environment `torch`).

`model.onnx` is made by torch.onnx.export, `model.xml` by OpenVINO from PyTorch; both return the states of all tokens in float32. The
export uses the attention that gives the fewest operations: eager attention for ONNX Runtime, PyTorch's own (SDPA) for OpenVINO.
"""

import shutil
import sys
from pathlib import Path

import openvino
import torch
from transformers import AutoModel

FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "sentence_bert_config.json"]
INPUTS = ["input_ids", "attention_mask", "token_type_ids"]


class States(torch.nn.Module):
    def __init__(self, directory, attention):
        super().__init__()
        self.model = AutoModel.from_pretrained(directory, attn_implementation=attention, dtype=torch.float32)

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state


def main(directory, out):
    # Two texts of different lengths, so that neither sizes nor the mask are exported as constants.
    ids = torch.full((2, 7), 1000)
    mask = torch.tensor([[1] * 7, [1] * 5 + [0] * 2])
    example = (ids, mask, torch.zeros_like(ids))
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
    torch.onnx.export(States(directory, "eager").eval(), example, out / "model.onnx", input_names=INPUTS, output_names=["last_hidden_state"],
                      dynamo=True, dynamic_shapes=(sizes,) * 3, external_data=False)
    converted = openvino.convert_model(States(directory, "sdpa").eval(), example_input=dict(zip(INPUTS, example)))
    openvino.save_model(converted, out / "model.xml", compress_to_fp16=False)
    for name in FILES:
        shutil.copy(directory / name, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
