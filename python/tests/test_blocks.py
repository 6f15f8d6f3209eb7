"""Calls of several blocks: slow iterators under asyncio, limits of the settings, closing the model during a call, item numbers in
errors."""

import asyncio
import sqlite3
import threading
import time

import numpy as np
import pytest

import prefold
from conftest import FIXTURES


@pytest.fixture(scope="module")
def model(models):
    return models("bert-mean-tiny")


@pytest.fixture
def own():
    """`own(**settings)`: a small model of one test."""
    return lambda **settings: prefold.Model(FIXTURES / "bert-mean-tiny", **settings)


def on_another_thread(texts, here):
    """Iterator over texts that records whether it was read on the thread `here`."""
    asked = set()

    def items():
        for text in texts:
            asked.add(threading.get_ident() == here)
            yield text

    return items(), asked


def test_iterators_are_not_asked_on_the_event_loop(model, models, texts):
    reranker, classifier, vectors = models("bert-reranker-tiny"), models("bert-nli-tiny"), model.embed(texts)

    async def batches(given):
        return np.concatenate([part async for part in model.aembed_batches(given, batch=7)])

    async def calls():
        here = threading.get_ident()
        for call, expected in [
            (lambda given: model.aembed(given, batch=7), vectors),
            (batches, vectors),
            (lambda given: reranker.arerank("a", given), reranker.rerank("a", texts)),
            (lambda given: classifier.aclassify(given), classifier.classify(texts)),
            (lambda given: model.atokenize(given), model.tokenize(texts)),
        ]:
            given, asked = on_another_thread(texts, here)
            np.testing.assert_equal(await call(given), expected)
            assert asked == {False}
            np.testing.assert_equal(await call(texts), expected)

    asyncio.run(calls())


def test_the_event_loop_runs_while_a_database_is_slow(model, texts):
    rows = sqlite3.connect(":memory:", check_same_thread=False).execute("values " + ",".join(["(?)"] * len(texts)), texts)

    def slow():
        for (text,) in rows:
            time.sleep(0.01)
            yield text

    async def turns_meanwhile():
        embedding, turns = asyncio.create_task(model.aembed(slow(), batch=10)), 0
        while not embedding.done():
            await asyncio.sleep(0.01)
            turns += 1
        return await embedding, turns

    vectors, turns = asyncio.run(turns_meanwhile())
    np.testing.assert_array_equal(vectors, model.embed(texts))
    assert turns >= 10


async def in_turn(texts):
    for text in texts:
        await asyncio.sleep(0)
        yield text


def test_async_iterators(model, models, texts):
    reranker, classifier = models("bert-reranker-tiny"), models("bert-nli-tiny")
    pairs = list(zip(texts[:5], texts[5:10]))

    async def calls():
        parts = [part async for part in model.aembed_batches(in_turn(texts), batch=11)]
        return (parts, await model.aembed(in_turn(texts), batch=len(texts)), await model.aembed(in_turn([])),
                await reranker.arerank("a", in_turn(texts)), await classifier.aclassify(in_turn(pairs)), await model.atokenize(in_turn(texts)))

    parts, vectors, none, ranked, labels, tokens = asyncio.run(calls())
    assert [len(part) for part in parts] == [11, 11, 11, 7] and none.shape == (0, model.dimensions)
    for found in [np.concatenate(parts), vectors]:
        np.testing.assert_array_equal(found, model.embed(texts))
    assert ranked == reranker.rerank("a", texts) and labels == classifier.classify(pairs) and tokens == model.tokenize(texts)
    for call in [model.embed, model.embed_batches, lambda given: reranker.rerank("a", given), classifier.classify, model.tokenize]:
        with pytest.raises(prefold.InputError, match="`texts` is async_generator, an async iterator: only the methods of asyncio"):
            call(in_turn(texts))


@pytest.mark.parametrize("limit", ["max_concurrent_requests", "max_queued_inputs", "max_queued_tokens"])
def test_a_call_is_not_refused_by_its_own_blocks(limit, own, texts):
    with own(**{limit: 1}) as model:
        many = texts * 25
        vectors = model.embed(many, batch=50)
        np.testing.assert_array_equal(vectors, own().embed(many))
        np.testing.assert_array_equal(asyncio.run(model.aembed(many, batch=50)), vectors)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_call_that_has_begun_ends_after_close(asynchronous, own, texts):
    model, expected = own(), own().embed(texts)

    def closing():
        for number, text in enumerate(texts):
            if number == 15:
                model.close()
            yield text

    found = asyncio.run(model.aembed(closing(), batch=4)) if asynchronous else model.embed(closing(), batch=4)
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(prefold.ClosedError):
        model.embed(texts)


def test_batches_that_have_begun_end_after_close(own, texts):
    model = own()
    batches = model.embed_batches(texts, batch=4)
    first = next(batches)
    model.close()
    np.testing.assert_array_equal(np.concatenate([first, *batches]), own().embed(texts))


@pytest.mark.parametrize(("wrong", "message"), [
    (7, "`texts` item 3000 is int; it must be str"),
    ("\ud800", "`texts` item 3000 is not valid Unicode: "),
    ("", "`texts` item 3000 is an empty text"),
    ("word " * 9999, "`texts` item 3000 has "),
])
def test_errors_count_items_from_the_first(wrong, message, model):
    for texts, batch in [(["a"] * 3000 + [wrong], None), (["a"] * 3000 + [wrong, "b"], None), (["a"] * 3000 + [wrong], 3000)]:
        with pytest.raises(prefold.InputError) as raised:
            model.embed(texts, batch=batch, truncate=False)
        assert str(raised.value).startswith(message) and raised.value.field == "texts"
        with pytest.raises(type(raised.value)) as again:
            asyncio.run(model.aembed(texts, batch=batch, truncate=False))
        assert str(again.value) == str(raised.value)
