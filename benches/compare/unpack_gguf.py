"""Writes a GGUF file as a checkpoint with mean pooling, its weights dequantized to float32: unpack_gguf.py GGUF OUT (in the environment
`torch`). sentence-transformers reads no GGUF."""

import shutil
import sys
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer
from transformers import AutoModel, AutoTokenizer


def main(gguf, out):
    source = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    plain = out / "plain"
    dequantized = AutoModel.from_pretrained(**source, dtype=torch.float32)
    # transformers cannot save a model that was read from a GGUF file, but can save a new model with the same weights.
    config = dequantized.config
    del config.quantization_config
    model = AutoModel.from_config(config, dtype=torch.float32)
    model.load_state_dict(dequantized.state_dict())
    model.save_pretrained(plain)
    tokenizer = AutoTokenizer.from_pretrained(**source)
    # sentence-transformers would apply the chat template to every text.
    tokenizer.chat_template = None
    tokenizer.save_pretrained(plain)
    transformer = Transformer(str(plain))
    SentenceTransformer(modules=[transformer, Pooling(transformer.get_embedding_dimension(), "mean")], device="cpu").save(str(out))
    shutil.rmtree(plain)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
