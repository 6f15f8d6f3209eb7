"""Adapters, each used by the real library."""

import asyncio
import importlib
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import prefold
from conftest import FIXTURES


def test_sentence_transformers(models, texts):
    from prefold.sentence_transformers import SentenceTransformer

    model = SentenceTransformer(models("qwen3-tiny"))
    vectors = models("qwen3-tiny").embed(texts)
    np.testing.assert_array_equal(model.encode(texts, batch_size=7), vectors)
    np.testing.assert_array_equal(model.encode(texts[1]), vectors[1])
    assert isinstance(model.encode(texts, convert_to_numpy=False), list)
    queries = models("qwen3-tiny").embed(texts, prompt_name="query")
    np.testing.assert_array_equal(model.encode_query(texts), queries)
    np.testing.assert_array_equal(model.encode(texts, prompt_name="query"), queries)
    np.testing.assert_array_equal(model.encode_document(texts), models("qwen3-tiny").embed(texts, prompt_name="document"))
    assert model.get_sentence_embedding_dimension() == vectors.shape[1] and model.prompts == ["document", "query"]
    np.testing.assert_array_equal(model.encode(texts, truncate_dim=8), vectors[:, :8])
    np.testing.assert_array_equal(model.encode(texts, truncate_dim=8, normalize_embeddings=True), models("qwen3-tiny").embed(texts, dimensions=8))
    cosines = model.similarity(vectors[:3], vectors * 2)
    assert cosines.shape == (3, len(texts)) and cosines.dtype == np.float32
    np.testing.assert_allclose(cosines, vectors[:3] @ vectors.T, atol=1e-6)
    np.testing.assert_allclose(model.similarity_pairwise(vectors, vectors), np.ones(len(texts)), atol=1e-6)
    assert model.similarity(np.zeros(4), np.ones(4)) == [[0]]
    for wrong in [{"precision": "int8"}, {"output_value": "token_embeddings"}, {"device": "cuda"}]:
        with pytest.raises(ValueError, match=next(iter(wrong))):
            model.encode(texts, **wrong)


@pytest.mark.parametrize(("name", "normalizes"), [("router-encoders-tiny", True), ("router-static-tiny", False), ("asym-tiny", False)])
def test_vectors_are_as_long_as_the_models_modules_make_them(name, normalizes, models, texts):
    from prefold.sentence_transformers import SentenceTransformer

    model, here = SentenceTransformer(models(name)), models(name)
    for task in [None, *here.info["tasks"]]:
        unit, raw = (here.embed(texts, task=task, prompt="", normalize=normalize) for normalize in (True, False))
        assert np.abs(np.linalg.norm(raw, axis=1) - 1).max() > 0.05
        np.testing.assert_array_equal(model.encode(texts, task=task, prompt=""), unit if normalizes else raw)
        np.testing.assert_array_equal(model.encode(texts, task=task, prompt="", normalize_embeddings=True), unit)
        np.testing.assert_array_equal(model.encode(texts, task=task, truncate_dim=5), (unit if normalizes else raw)[:, :5])


def test_a_normalize_may_be_of_one_route(tmp_path, texts):
    from prefold.sentence_transformers import SentenceTransformer

    folder = shutil.copytree(FIXTURES / "router-static-tiny", tmp_path / "model")
    router = json.loads((folder / "router_config.json").read_text())
    router["types"]["document_2_Normalize"] = "sentence_transformers.models.Normalize"
    router["structure"]["document"].append("document_2_Normalize")
    (folder / "router_config.json").write_text(json.dumps(router))
    with prefold.Model(folder) as here:
        model = SentenceTransformer(here)
        for call, input_type, normalize in [(model.encode, None, False), (model.encode_query, "query", False), (model.encode_document, "document", True)]:
            np.testing.assert_array_equal(call(texts), here.embed(texts, input_type=input_type, normalize=normalize))


def test_a_task_selects_a_route_and_no_prompt(models, texts):
    from prefold.sentence_transformers import SentenceTransformer

    here = models("router-encoders-tiny")
    model = SentenceTransformer(here)
    queries = here.embed(texts, task="query", prompt="")
    assert np.abs(queries - here.embed(texts, task="query")).max() > 0.01
    np.testing.assert_array_equal(model.encode(texts, task="query"), queries)
    np.testing.assert_array_equal(model.encode([{"query": text} for text in texts]), queries)
    np.testing.assert_array_equal(model.encode({"query": texts[3]}), queries[3])
    np.testing.assert_array_equal(model.encode_query(texts, prompt=""), queries)
    np.testing.assert_array_equal(model.encode_query(texts), here.embed(texts, task="query"))
    np.testing.assert_array_equal(model.encode(texts, prompt_name="query"), here.embed(texts, prompt_name="query"))
    np.testing.assert_array_equal(model.encode(texts, task="query", prompt_name="document"), queries)
    with pytest.raises(TypeError, match="task"):
        model.encode_query(texts, task="query")
    plain = SentenceTransformer(models("bert-mean-tiny"))
    assert plain.prompts == []
    for options in [{"task": "query"}, {"prompt_name": "query"}, {"prompt_name": "document", "task": "x"}]:
        np.testing.assert_array_equal(plain.encode(texts, **options), plain.encode(texts))
    with pytest.raises(prefold.InputError, match="`passage` is not a prompt"):
        plain.encode(texts, prompt_name="passage")


@pytest.mark.parametrize(("name", "call", "task"), [("router-encoders-tiny", "encode_document", "document"), ("bert-mean-tiny", "encode_query", None)])
def test_the_default_prompt_is_that_of_encode_alone(name, call, task, texts):
    from prefold.sentence_transformers import SentenceTransformer

    with prefold.Model(FIXTURES / name, default_prompt="say: ") as here:
        model = SentenceTransformer(here)
        assert here.info["default_prompt"] == "say: "
        np.testing.assert_array_equal(model.encode(texts, task="document"), here.embed(texts, task=task, prompt="say: "))
        np.testing.assert_array_equal(getattr(model, call)(texts), here.embed(texts, task=task, prompt=""))


@pytest.mark.parametrize(("sentences", "words"), [
    ({"title": "bees"}, "mappings of 'title'.* these tasks: query, document"),
    ({}, "{task: text}"),
    ({"query": "bees", "document": "bees"}, "{task: text}"),
    ([{"query": "bees"}, {"document": "bees"}], "all with the same task"),
    ([{"query": "bees"}, "bees"], "{task: text}"),
    ([{"query": ["bees"]}], "{task: text}"),
    (["bees", {"query": "bees"}], "item 1 is dict"),
])
def test_other_dictionaries_are_refused(sentences, words, models):
    from prefold.sentence_transformers import SentenceTransformer

    model = SentenceTransformer(models("router-encoders-tiny"))
    with pytest.raises(prefold.InputError, match=words):
        model.encode(sentences)
    for call in [model.encode_query, lambda sentences: model.encode(sentences, task="query")]:
        with pytest.raises(prefold.InputError, match="dict"):
            call(sentences)
    with pytest.raises(prefold.InputError, match="tasks: none"):
        SentenceTransformer(models("qwen3-tiny")).encode({"query": "bees"})


@pytest.mark.parametrize("name", ["qwen3-tiny", "llama-tiny", "asym-tiny", "router-encoders-tiny", "router-static-tiny"])
def test_encode_is_that_of_sentence_transformers(name, texts):
    """Comparison with the library itself, if it is installed. It needs PyTorch; benches/compare/requirements/torch.txt has both."""
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer as Original

    from prefold.sentence_transformers import SentenceTransformer

    texts = texts[:8]
    ours, theirs = (kind(str(FIXTURES / name), device="cpu") for kind in (SentenceTransformer, Original))
    tasks = ours.model.info["tasks"]
    calls = [("encode", {}), *(("encode", {"task": task}) for task in tasks), ("encode_query", {}), ("encode_query", {"prompt": ""})]
    calls += [("encode_document", {})] if not tasks or "document" in tasks else []
    for call, options in calls:
        for further in [{}, {"normalize_embeddings": True}, {"truncate_dim": 5}, {"truncate_dim": 5, "normalize_embeddings": True}]:
            a, b = (getattr(model, call)(texts, **options, **further) for model in (ours, theirs))
            np.testing.assert_allclose(a, b, atol=2e-5, err_msg=f"{call} {options} {further}")
    np.testing.assert_allclose(ours.similarity(a, b), theirs.similarity(a, b), atol=2e-5)
    assert ours.get_embedding_dimension() == theirs.get_embedding_dimension()


def test_langchain(models, texts):
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.vectorstores import InMemoryVectorStore

    from prefold.langchain import PrefoldEmbeddings, PrefoldRerank

    model = models("qwen3-tiny")
    embeddings = PrefoldEmbeddings(model)
    store = InMemoryVectorStore.from_texts(texts, embeddings)
    cosines = model.embed(texts, prompt_name="document") @ model.embed(texts[3], prompt_name="query")[0]
    best = [document.page_content for document in store.similarity_search(texts[3], k=4)]
    assert best == [texts[index] for index in np.argsort(-cosines, kind="stable")[:4]]
    vectors = asyncio.run(embeddings.aembed_documents(texts))
    assert vectors == embeddings.embed_documents(texts) and isinstance(vectors[0][0], float)
    assert asyncio.run(embeddings.aembed_query(texts[3])) == embeddings.embed_query(texts[3])
    assert len(PrefoldEmbeddings(model, options={"dimensions": 8}).embed_query("a")) == 8

    reranker = models("qwen3-reranker-tiny")
    compressor = PrefoldRerank(model=reranker, top_n=2)
    documents = [Document(page_content=text, metadata={"line": line}) for line, text in enumerate(texts)]
    found = compressor.compress_documents(documents, texts[0])
    expected = reranker.rerank(texts[0], texts, top_n=2)
    assert [(d.metadata["line"], d.metadata["relevance_score"]) for d in found] == [tuple(ranked) for ranked in expected]
    assert asyncio.run(compressor.acompress_documents(documents, texts[0])) == found
    loaded = PrefoldRerank(FIXTURES / "qwen3-reranker-tiny", top_n=2, dtype="float32")
    assert loaded.compress_documents(documents, texts[0]) == found and loaded.top_n == 2
    for wrong, error in [({"topn": 1}, prefold.SettingError), ({"top_n": "2"}, prefold.InputError), ({"top_n": 0}, prefold.InputError)]:
        for given in [reranker, str(FIXTURES / "qwen3-reranker-tiny")]:
            with pytest.raises(error, match=next(iter(wrong))):
                PrefoldRerank(given, **wrong)
    assert compressor.compress_documents([], "a") == [] and "relevance_score" not in documents[0].metadata


def test_llama_index(models, texts):
    pytest.importorskip("llama_index.core")
    from llama_index.core import VectorStoreIndex
    from llama_index.core.schema import QueryBundle, TextNode

    from prefold.llama_index import PrefoldEmbedding, PrefoldRerank

    model, reranker = models("qwen3-tiny"), models("qwen3-reranker-tiny")
    embedding = PrefoldEmbedding(model)
    nodes = [TextNode(text=text, id_=str(line)) for line, text in enumerate(texts)]
    index = VectorStoreIndex(nodes, embed_model=embedding)
    found = index.as_retriever(similarity_top_k=5).retrieve(texts[3])
    cosines = model.embed(texts, prompt_name="document") @ model.embed(texts[3], prompt_name="query")[0]
    assert [int(node.node.node_id) for node in found] == list(np.argsort(-cosines, kind="stable")[:5])
    assert asyncio.run(embedding.aget_text_embedding_batch(texts)) == embedding.get_text_embedding_batch(texts)
    assert asyncio.run(embedding.aget_query_embedding("a")) == embedding.get_query_embedding("a")
    assert embedding.get_text_embedding("a") == PrefoldEmbedding(model).get_text_embedding("a")

    postprocessor = PrefoldRerank(reranker, top_n=2)
    ranked = postprocessor.postprocess_nodes(found, query_str=texts[0])
    expected = reranker.rerank(texts[0], [node.text for node in found], top_n=2)
    assert [(found.index(next(n for n in found if n.node is r.node)), r.score) for r in ranked] == [tuple(e) for e in expected]
    again = asyncio.run(postprocessor.apostprocess_nodes(found, query_bundle=QueryBundle(texts[0])))
    assert [(node.node.node_id, node.score) for node in again] == [(node.node.node_id, node.score) for node in ranked]
    assert postprocessor.postprocess_nodes([], query_str="a") == []
    for wrong, error in [({"topn": 1}, prefold.SettingError), ({"top_n": "2"}, prefold.InputError), ({"top_n": 0}, prefold.InputError)]:
        with pytest.raises(error, match=next(iter(wrong))):
            PrefoldRerank(reranker, **wrong)


@pytest.mark.parametrize(("module", "names"), [
    ("sentence_transformers", ["SentenceTransformer"]),
    ("langchain", ["PrefoldEmbeddings", "PrefoldRerank"]),
    ("llama_index", ["PrefoldEmbedding", "PrefoldRerank"]),
])
def test_settings_beside_a_loaded_model_are_refused(module, names, models):
    if module != "sentence_transformers":
        pytest.importorskip({"langchain": "langchain_core", "llama_index": "llama_index.core"}[module])
    for name in names:
        adapter = getattr(importlib.import_module(f"prefold.{module}"), name)
        with pytest.raises(prefold.SettingError, match="`dtype`: the model is loaded already"):
            adapter(models("qwen3-tiny"), dtype="int8")
        adapter(models("qwen3-tiny"), revision=None)


@pytest.mark.parametrize(("module", "missing", "extra"), [
    ("langchain", "langchain_core", "langchain"), ("llama_index", "llama_index", "llama-index")])
def test_a_missing_library_is_named_with_its_extra(module, missing, extra):
    script = f"import sys; sys.modules[{missing!r}] = None; import prefold.{module}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1 and f'pip install "prefold[{extra}]"' in done.stderr.splitlines()[-1]
