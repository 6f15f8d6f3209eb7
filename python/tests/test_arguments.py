"""Arguments of the wrong type: the error names the argument and its type."""

import asyncio
import inspect
import re

import numpy as np
import pytest

import prefold
from conftest import FIXTURES
from prefold.model import EmbedOptions


def embed(**arguments):
    return lambda model: model.embed("a", **arguments)


def rerank(query="a", texts=("b",), **arguments):
    return lambda model: model.rerank(query, texts, **arguments)


@pytest.mark.parametrize(("call", "field", "problem"), [
    (embed(prompt=3), "prompt", "is int; it must be str"),
    (embed(prompt="\ud800"), "prompt", "is not valid Unicode"),
    (embed(prompt_name=b"query"), "prompt_name", "is bytes; it must be str"),
    (embed(input_type=1), "input_type", "is int; it must be str"),
    (embed(task=["retrieval.query"]), "task", "is list; it must be str"),
    (embed(truncate="no"), "truncate", "is 'no'; it must be True or False"),
    (embed(normalize="x"), "normalize", "is 'x'; it must be True or False"),
    (embed(progress="bar"), "progress", "is 'bar'; it must be True or False"),
    (embed(dimensions=2.0), "dimensions", "is 2.0; it must be an int"),
    (embed(dimensions="3"), "dimensions", "is '3'; it must be an int"),
    (embed(dimensions=True), "dimensions", "is True; it must be an int"),
    (embed(dimensions=1 << 80), "dimensions", "must be from 1 to"),
    (embed(batch=1.5), "batch", "is 1.5; it must be an int"),
    (embed(batch="a"), "batch", "is 'a'; it must be an int"),
    (lambda model: model.embed_batches("a", dimensions="3"), "dimensions", "is '3'; it must be an int"),
    (lambda model: asyncio.run(model.aembed("a", truncate="no")), "truncate", "is 'no'; it must be True or False"),
    (rerank(query=None), "query", "is NoneType; it must be str"),
    (rerank(query=["q"]), "query", "is list; it must be str"),
    (rerank(top_n="1"), "top_n", "is '1'; it must be an int"),
    (rerank(top_n=False), "top_n", "is False; it must be an int"),
    (rerank(top_n=-1), "top_n", "is -1; it must be at least 1"),
    (rerank(instruction=1), "instruction", "is int; it must be str"),
    (rerank(raw_scores=1), "raw_scores", "is 1; it must be True or False"),
    (lambda model: asyncio.run(model.arerank(1, ["b"])), "query", "is int; it must be str"),
    (lambda model: model.classify("a", raw_scores="x"), "raw_scores", "is 'x'; it must be True or False"),
    (lambda model: model.classify(5), "texts", "is int; it must be texts"),
    (lambda model: model.classify(b"ab"), "texts", "is bytes; it must be texts"),
    (lambda model: asyncio.run(model.aclassify(None)), "texts", "is NoneType; it must be texts"),
    (lambda model: model.tokenize("a", add_special_tokens=0), "add_special_tokens", "is 0; it must be True or False"),
])
def test_arguments_have_types(call, field, problem, models):
    with pytest.raises(prefold.InputError, match=re.escape(problem)) as raised:
        call(models("bert-mean-tiny"))
    assert raised.value.field == field and str(raised.value).startswith(f"`{field}` ")


@pytest.mark.parametrize("name", ["dimension", "progress", "top_n"])
def test_options_that_a_variant_of_embed_does_not_have(name, models):
    model = models("bert-mean-tiny")
    for call in [lambda texts, **options: asyncio.run(model.aembed(texts, **options)), model.embed_batches, model.aembed_batches]:
        with pytest.raises(TypeError, match=f"'{name}'"):
            call("a", **{name: 1})


def test_variants_of_embed_have_its_options():
    embed, shared = (inspect.signature(method).parameters for method in (prefold.Model.embed, prefold.Model._embedding))
    assert EmbedOptions.__optional_keys__ == embed.keys() - {"self", "texts", "progress"} == shared.keys() - {"self", "progress"}
    assert all(shared[name].default == embed[name].default for name in EmbedOptions.__optional_keys__)


def test_numbers_of_numpy_are_numbers(models, texts):
    model = models("bert-mean-tiny")
    found = model.embed(texts, dimensions=np.int64(8), batch=np.int32(7), normalize=np.True_)
    np.testing.assert_array_equal(found, model.embed(texts, dimensions=8))
    assert model.rerank("a", texts, top_n=np.uint8(2)) == model.rerank("a", texts, top_n=2)


@pytest.mark.parametrize("model", [5, b"x", ["x"]])
def test_a_model_is_a_name_or_a_path(model):
    with pytest.raises(prefold.SettingError, match=f"`model` is {type(model).__name__}; it must be a hub id, a path, or None"):
        prefold.Model(model)


def test_a_path_may_begin_with_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", str(FIXTURES))
    with prefold.Model("~/bert-mean-tiny") as model:
        assert model.info["model_id"] == str(FIXTURES / "bert-mean-tiny")
