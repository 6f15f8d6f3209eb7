"""Writes a cross-encoder of XLM-RoBERTa-base's sizes with random weights in bfloat16: make_reranker.py OUT (in the environment `torch`).

Its tokenizer is taken from tests/fixtures/xlm-roberta-reranker-tiny. It gives more tokens per text than the real one, which does not
matter, since texts are truncated by tokens.
"""

import shutil
import sys
from pathlib import Path

import torch
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

TOKENIZER = Path(__file__).resolve().parent.parent.parent / "tests" / "fixtures" / "xlm-roberta-reranker-tiny"


def main(out):
    torch.manual_seed(1)
    config = XLMRobertaConfig(vocab_size=250002, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
                              max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5, num_labels=1)
    model = XLMRobertaForSequenceClassification(config)
    # With the usual 0.02 all logits would be near zero.
    for parameter in model.classifier.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.to(torch.bfloat16).save_pretrained(out)
    for file in TOKENIZER.glob("*token*.json"):
        shutil.copy(file, out)


if __name__ == "__main__":
    main(sys.argv[1])
