"""Arguments: forms of texts, progress, settings, and refusals."""

import asyncio
import pickle
import re
import sys

import numpy as np
import pytest

import prefold
from conftest import FIXTURES


@pytest.fixture(scope="module")
def model(models):
    return models("bert-mean-tiny")


def test_one_text_none_and_iterators(model, texts):
    vectors = model.embed(texts)
    np.testing.assert_array_equal(model.embed(texts[3]), vectors[3:4])
    assert model.embed([]).shape == (0, model.dimensions) and model.embed(iter(()), dimensions=8).shape == (0, 8)
    for form in [tuple, iter, lambda texts: (text for text in texts), lambda texts: dict.fromkeys(texts).keys(), lambda texts: np.array(texts, object)]:
        np.testing.assert_array_equal(model.embed(form(texts), batch=7), vectors)


def test_arrow_arrays_are_read_where_they_lie(model, texts):
    pyarrow = pytest.importorskip("pyarrow")
    texts = [f"{text} ü" for text in texts]
    vectors = model.embed(texts)
    forms = {
        "string": pyarrow.array(texts),
        "large": pyarrow.array(texts, pyarrow.large_string()),
        "view": pyarrow.array(texts, pyarrow.string_view()),
        "dictionary": pyarrow.array(texts).dictionary_encode(),
        "slice": pyarrow.array(["before", *texts, "after"]).slice(1, len(texts)),
        "chunks": pyarrow.chunked_array([texts[:5], [], texts[5:]]),
    }
    for name, array in forms.items():
        for batch in [None, 7]:
            np.testing.assert_array_equal(model.embed(array, batch=batch), vectors, err_msg=name)
    assert model.rerank(texts[0], forms["chunks"]) == model.rerank(texts[0], texts)
    assert model.tokenize(forms["slice"]) == model.tokenize(texts)
    assert model.embed(pyarrow.array([], pyarrow.string())).shape == (0, model.dimensions)
    with pytest.raises(prefold.InputError, match="item 1 is null"):
        model.embed(pyarrow.array(["a", None]))
    with pytest.raises(prefold.InputError, match="Arrow array of int64; it must be one of strings"):
        model.embed(pyarrow.array([1, 2]))


def test_arrays_of_other_libraries(model, texts):
    """Values with Arrow's interface other than pyarrow's arrays: polars, pandas, duckdb."""
    pyarrow = pytest.importorskip("pyarrow")

    class Foreign:
        def __arrow_c_stream__(self, requested_schema=None):
            return pyarrow.chunked_array([texts]).__arrow_c_stream__(requested_schema)

    np.testing.assert_array_equal(model.embed(Foreign(), batch=7), model.embed(texts))


def test_vectors_as_an_arrow_array_share_memory(model, texts):
    pyarrow = pytest.importorskip("pyarrow")
    array = model.embed_arrow(texts, dimensions=8)
    assert array.type == pyarrow.list_(pyarrow.float32(), 8) and len(array) == len(texts)
    shared = array.values.to_numpy(zero_copy_only=True).reshape(-1, 8)
    np.testing.assert_array_equal(shared, model.embed(texts, dimensions=8))


def test_vectors_are_the_arrays_own(model, texts):
    vectors = model.embed(texts)
    kept = vectors.copy()
    vectors += 1  # Writable, and not shared.
    np.testing.assert_array_equal(model.embed(texts), kept)


def test_progress(model, texts, capsys, monkeypatch):
    tqdm = pytest.importorskip("tqdm")
    model.embed(texts, batch=9, progress=True)
    assert re.search(rf"100%.* {len(texts)}/{len(texts)} ", capsys.readouterr().err)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    model.embed(iter(texts), batch=9, progress=True)
    assert capsys.readouterr().err.endswith(f"{len(texts)} texts\n")
    model.embed(texts)
    assert capsys.readouterr().err == ""
    assert tqdm


@pytest.mark.parametrize(("call", "error", "field", "words"), [
    (lambda m: m.embed(["a", 3]), prefold.InputError, "texts", "item 1 is int; it must be str"),
    (lambda m: m.embed(["a", "b", "c", None], batch=2), prefold.InputError, "texts", "item 3 is NoneType"),
    (lambda m: m.embed(["a", "b", "c", "d", ""], batch=2), prefold.InputError, "texts", "`texts` item 4 is an empty text"),
    (lambda m: m.embed(["a", "\ud800"]), prefold.InputError, "texts", "item 1 is not valid Unicode"),
    (lambda m: m.embed(b"abc"), prefold.InputError, "texts", "is bytes"),
    (lambda m: m.embed(np.array("a")), prefold.InputError, "texts", "is ndarray"),
    (lambda m: m.embed(None), prefold.InputError, "texts", "is NoneType"),
    (lambda m: m.embed({"query": "a"}), prefold.InputError, "texts", "is dict; it must be texts"),
    (lambda m: m.embed([{"query": "a"}]), prefold.InputError, "texts", "item 0 is dict; it must be str"),
    (lambda m: asyncio.run(m.aembed({"query": "a"})), prefold.InputError, "texts", "is dict"),
    (lambda m: m.rerank("a", {"b": "c"}), prefold.InputError, "texts", "is dict"),
    (lambda m: asyncio.run(m.arerank("a", {"b": "c"})), prefold.InputError, "texts", "is dict"),
    (lambda m: m.classify({"a": "b"}), prefold.InputError, "texts", "is dict"),
    (lambda m: m.tokenize({"a": "b"}), prefold.InputError, "texts", "is dict"),
    (lambda m: m.embed("a", dimensions=-1), prefold.InputError, "dimensions", "is -1"),
    (lambda m: m.embed("a", dimensions=0), prefold.InputError, "dimensions", "is 0; it must be from 1 to"),
    (lambda m: m.embed("a", prompt_name="no"), prefold.InputError, "prompt_name", "`no` is not a prompt"),
    (lambda m: m.embed("a", input_type="no"), prefold.InputError, "input_type", "unknown value `no`"),
    (lambda m: m.embed("a", batch=0), prefold.InputError, "batch", "is 0; it must be from 1 to"),
    (lambda m: m.embed("word " * 9999, truncate=False), prefold.TooLongError, "texts", "maximum context length is"),
    (lambda m: m.rerank("a", ["b"], top_n=0), prefold.InputError, "top_n", "is 0; it must be at least 1"),
    (lambda m: m.rerank("a", []), prefold.InputError, "texts", "has no items"),
    (lambda m: m.classify(["a"]), prefold.NotCapableError, None, "classification is not possible"),
    (lambda m: m.tokenize(["a", 1.5]), prefold.InputError, "texts", "item 1 is float"),
])
def test_what_is_wrong_is_named(call, error, field, words, model):
    with pytest.raises(error, match=words) as raised:
        call(model)
    assert getattr(raised.value, "field", None) == field and isinstance(raised.value, prefold.PrefoldError)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (type(copy), str(copy), getattr(copy, "field", None)) == (error, str(raised.value), field)


def test_pairs(models):
    with pytest.raises(prefold.InputError, match="item 1 has 3 texts; it must be a text or a pair"):
        models("bert-nli-tiny").classify(["a", ("b", "c", "d")])


@pytest.mark.parametrize(("model", "settings", "error", "words"), [
    ("/no/such/model", {}, prefold.SettingError, "`--model-id /no/such/model`: there is no such file"),
    (None, {"dtype": "float31"}, prefold.SettingError, "unknown dtype `float31`"),
    (None, {"device": "gpu"}, prefold.SettingError, "device `gpu` is not known"),
    (None, {"port": 3000}, prefold.SettingError, "`port` is not a flag of a model"),
    (None, {"max_batch_token": 1}, prefold.SettingError, "is `max-batch-tokens` meant"),
    (None, {"pooling": {}}, prefold.SettingError, "`pooling` is dict; it must be a text"),
    (None, {"max_input_length": 1 << 30}, prefold.SettingError, "`--max-input-length` is 1073741824"),
    (FIXTURES, {}, prefold.LoadError, "could not be loaded"),
])
def test_models_that_cannot_be_loaded(model, settings, error, words):
    with pytest.raises(error, match=re.escape(words)):
        prefold.Model(model, **settings)


def test_settings_are_the_flags(texts):
    with prefold.Model(FIXTURES / "bert-mean-tiny", dtype="bfloat16", pooling="cls", max_batch_tokens=64, auto_truncate=False) as model:
        info = model.info
        assert (info["dtype"], info["model_type"], info["max_batch_tokens"], info["auto_truncate"]) == (
            "bfloat16", {"embedding": {"pooling": "cls"}}, 64, False)
        assert repr(model) == f"prefold.Model({str(FIXTURES / 'bert-mean-tiny')!r}, dtype='bfloat16', device='cpu')"
        model.embed("a river")
    with pytest.raises(prefold.ClosedError, match="is closed"):
        model.embed("a river")
