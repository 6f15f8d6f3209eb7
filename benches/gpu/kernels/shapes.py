"""The sizes of published models from their config.json, as in benches/src/shapes.rs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int

    @property
    def qkv_width(self):
        return (self.heads + 2 * self.kv_heads) * self.head_dim


DECODERS = {
    "Qwen3-0.6B": Shape(1024, 16, 8, 128, 3072, 151_936),
    "Qwen3-8B": Shape(4096, 32, 8, 128, 12_288, 151_936),
}
ENCODERS = {
    "bge-base": Shape(768, 12, 12, 64, 3072, 30_522),
    "MiniLM": Shape(384, 12, 12, 32, 1536, 30_522),
}
