"""A model in process answers as the server does, bit for bit."""

import numpy as np
import pytest

import prefold

EMBEDDERS = ["qwen3-tiny", "bert-mean-tiny", "mistral-tiny"]
RERANKERS = ["qwen3-reranker-tiny", "bert-reranker-tiny", "bert-mean-tiny"]
CLASSIFIERS = ["bert-nli-tiny"]


def over_http(server, texts, **options):
    return np.array(server.ask("/embed", inputs=texts, **options), np.float32)


@pytest.mark.parametrize("name", EMBEDDERS)
def test_vectors(name, served, models, texts):
    model, server = models(name), served(name)
    vectors = model.embed(texts)
    assert vectors.dtype == np.float32 and vectors.shape == (len(texts), model.dimensions) and vectors.flags["C_CONTIGUOUS"]
    np.testing.assert_array_equal(vectors, over_http(server, texts))
    half = model.dimensions // 2
    for options in [{"dimensions": half}, {"normalize": False}, {"prompt": "query: "}, {"dimensions": half, "normalize": False}]:
        found = model.embed(texts, **options)
        np.testing.assert_array_equal(found, over_http(server, texts, **options))
        assert found.shape[1] == options.get("dimensions", model.dimensions) and not np.array_equal(found, vectors)


def test_prompts(served, models, texts):
    model, server = models("qwen3-tiny"), served("qwen3-tiny")
    asked = model.embed(texts, prompt_name="query")
    np.testing.assert_array_equal(asked, over_http(server, texts, prompt_name="query"))
    np.testing.assert_array_equal(asked, model.embed(texts, input_type="query"))
    assert not np.array_equal(asked, model.embed(texts))
    with pytest.raises(prefold.InputError, match="only one of `prompt`"):
        model.embed(texts, prompt_name="query", prompt="query: ")


def test_tasks(served, models, texts):
    model, server = models("jina-v3-tiny"), served("jina-v3-tiny")
    asked = model.embed(texts, task="retrieval.query")
    np.testing.assert_array_equal(asked, over_http(server, texts, task="retrieval.query"))
    np.testing.assert_array_equal(asked, model.embed(texts, input_type="query"))
    np.testing.assert_array_equal(asked, np.concatenate(list(model.embed_batches(texts, task="retrieval.query", batch=7))))
    assert not np.array_equal(asked, model.embed(texts)) and not np.array_equal(asked, model.embed(texts, task="classification"))
    with pytest.raises(prefold.InputError, match="`no` is not a task of the served model; it has: ") as raised:
        model.embed(texts, task="no")
    assert raised.value.field == "task"
    # A model without adapters treats the task as a prompt.
    np.testing.assert_array_equal(models("qwen3-tiny").embed(texts, task="query"), models("qwen3-tiny").embed(texts, prompt_name="query"))


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_batches_change_nothing(batch, models, texts):
    model = models("qwen3-tiny")
    np.testing.assert_array_equal(model.embed(texts, batch=batch), model.embed(texts))
    parts = list(model.embed_batches(iter(texts), batch=batch))
    assert [len(part) for part in parts[:-1]] == [batch] * (len(parts) - 1)
    np.testing.assert_array_equal(np.concatenate(parts), model.embed(texts))


@pytest.mark.parametrize("name", RERANKERS)
def test_ranks(name, served, models, texts):
    model, server = models(name), served(name)
    for options in [{}, {"raw_scores": True}]:
        found = model.rerank(texts[0], texts[1:], **options)
        expected = server.ask("/rerank", query=texts[0], texts=texts[1:], **options)
        assert [tuple(ranked) for ranked in found] == [(line["index"], np.float32(line["score"])) for line in expected]
    assert model.rerank(texts[0], texts[1:], top_n=2) == model.rerank(texts[0], texts[1:])[:2]
    assert model.rerank(texts[0], iter(texts[1:])) == model.rerank(texts[0], texts[1:])


def test_ranks_by_an_instruction(served, models, texts):
    name, instruction = "qwen3-reranker-tiny", "Find texts about rivers"
    found = models(name).rerank(texts[0], texts[1:], instruction=instruction)
    expected = served(name).ask("/rerank", query=texts[0], documents=texts[1:], instruction=instruction)["results"]
    assert [tuple(ranked) for ranked in found] == [(x["index"], np.float32(x["relevance_score"])) for x in expected]
    assert found != models(name).rerank(texts[0], texts[1:])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_labels(name, served, models, texts):
    model, server = models(name), served(name)
    pairs = [(texts[0], texts[1]), (texts[2], texts[3])]
    for given, sent in [(texts[:5], [[text] for text in texts[:5]]), (pairs, [list(pair) for pair in pairs])]:
        for options in [{}, {"raw_scores": True}]:
            found = model.classify(given, **options)
            expected = server.ask("/predict", inputs=sent, **options)
            assert [[tuple(label) for label in labels] for labels in found] == [
                [(x["label"], np.float32(x["score"])) for x in labels] for labels in expected]
    assert model.classify(texts[0]) == model.classify(texts[:1]) and model.classify(pairs[0]) == model.classify(pairs[:1])


def test_tokens(served, models, texts):
    model, server = models("bert-mean-tiny"), served("bert-mean-tiny")
    for options in [{}, {"add_special_tokens": False}]:
        found = model.tokenize(texts, **options)
        expected = server.ask("/tokenize", inputs=texts, **options)
        assert [[token._asdict() for token in tokens] for tokens in found] == expected
    assert model.tokenize(texts[0]) == found[:0] + model.tokenize(texts[:1])


def test_info(served, models):
    info, expected = models("qwen3-tiny").info, served("qwen3-tiny").get("/info").json()
    # A server has limits on its clients; the model id is the command line's.
    assert info.keys() == expected.keys()
    assert {key for key in info if info[key] != expected[key]} == {"max_concurrent_requests"} and info["max_concurrent_requests"] is None
    assert info["version"].replace("-dev", ".dev0") == prefold.__version__
