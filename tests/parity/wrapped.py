"""Checkpoints that sentence-transformers makes of a written one: Routers, and a StaticEmbedding of its tokenizer."""

import shutil
import tempfile
import zlib

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules.static_embedding import StaticEmbedding
from tokenizers import Tokenizer

from bases import init_tensor

try:
    from sentence_transformers.base.modules import Dense, Normalize, Router
except ImportError:
    from sentence_transformers.models import Dense, Normalize, Router

WIDTH = 16


def wrap(kind, folder, seed):
    """Replaces the checkpoint in a folder by one of this kind around it."""
    seed = zlib.crc32(f"{kind} {seed}".encode()) % 1000
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    wrapped = SentenceTransformer(modules=MADE[kind](list(model), folder, seed), device="cpu", prompts=model.prompts,
                                  default_prompt_name=model.default_prompt_name)
    with tempfile.TemporaryDirectory(prefix="parity-wrapped-") as again:
        wrapped.save_pretrained(again)
        shutil.rmtree(folder)
        shutil.copytree(again, folder)


def width(modules):
    """Values of the vectors after these modules."""
    return SentenceTransformer(modules=modules, device="cpu").get_embedding_dimension()


def dense(of, seed, name):
    """A Dense module with random weights."""
    return filled(Dense(of, WIDTH), seed, name)


def table(folder, columns, seed):
    """A StaticEmbedding with random rows."""
    return filled(StaticEmbedding(Tokenizer.from_file(str(folder / "tokenizer.json")), embedding_dim=columns), seed, "table")


def filled(module, seed, name):
    with torch.no_grad():
        for parameter_name, parameter in module.named_parameters():
            spec = {"seed": seed, "config": {"model_type": ""}}
            parameter.copy_(init_tensor(spec, f"{name}.{parameter_name}", tuple(parameter.shape)))
    return module


def router_of_dense(modules, folder, seed):
    routes = [[dense(width(modules), seed, name)] for name in ("query", "document")]
    return [*modules, Router.for_query_document(query_modules=routes[0], document_modules=routes[1])]


def router_of_models(modules, folder, seed):
    return [Router.for_query_document(query_modules=[table(folder, width(modules), seed)], document_modules=modules)]


MADE = {
    "router of Dense": router_of_dense,
    "router of models": router_of_models,
    "StaticEmbedding": lambda modules, folder, seed: [table(folder, WIDTH, seed)],
    "StaticEmbedding, Normalize": lambda modules, folder, seed: [table(folder, WIDTH, seed), Normalize()],
}
