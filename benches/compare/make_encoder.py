"""Writes an encoder of a published shape with random weights in bfloat16: make_encoder.py SHAPE TOKENIZER OUT (in the environment `torch`).

Sizes, windows and RoPE bases are taken from the published config.json. The vocabulary size, which hardly affects the speed, is the
default of transformers or MiniLM's.
"""

import sys

import torch
from sentence_transformers import SentenceTransformer, models
from transformers import AutoModel, AutoTokenizer, Gemma3TextConfig, ModernBertConfig, NomicBertConfig

LONGEST = 8192
VOCABULARY = 30_528

SHAPES = {
    "modernbert-base": lambda: ModernBertConfig(max_position_embeddings=LONGEST),
    "nomic-embed-text-v1.5": lambda: NomicBertConfig(vocab_size=VOCABULARY, max_position_embeddings=LONGEST, layer_norm_eps=1e-12,
                                                     rope_parameters={"rope_type": "default", "rope_theta": 1000.0}),
    "embeddinggemma-300m": lambda: Gemma3TextConfig(
        vocab_size=VOCABULARY, hidden_size=768, num_hidden_layers=24, num_attention_heads=3, num_key_value_heads=1, head_dim=256,
        intermediate_size=1152, sliding_window=512, query_pre_attn_scalar=256, max_position_embeddings=2048,
        use_bidirectional_attention=True),
}
# Widths of the Dense modules after the pooling.
DENSE = {"embeddinggemma-300m": [(768, 3072), (3072, 768)]}


def main(shape, tokenizer, out):
    torch.manual_seed(1)
    config = SHAPES[shape]()
    transformer = AutoModel.from_config(config, dtype=torch.bfloat16)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(f"{out}.transformer")
    transformer.save_pretrained(f"{out}.transformer")
    embedder = models.Transformer(f"{out}.transformer", max_seq_length=config.max_position_embeddings)
    modules = [embedder, models.Pooling(config.hidden_size, "mean")]
    modules += [models.Dense(i, o, bias=False, activation_function=torch.nn.Identity()) for i, o in DENSE.get(shape, [])]
    SentenceTransformer(modules=[*modules, models.Normalize()]).save(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
