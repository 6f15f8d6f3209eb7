"""Threads, signals, forks, processes and asyncio."""

import asyncio
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import prefold
from conftest import FIXTURES

OPTIONS = (None, None, None, None, None)


@pytest.fixture(scope="module")
def model(models):
    return models("qwen3-tiny")


@pytest.fixture(scope="module", params=[20_000, 1])
def long_call(request):
    """`long_call()`: a call of the built-in model that takes longer than any test, with many texts, or with one text that waits behind
    many."""
    model = prefold.Model(scheduling="fifo", max_client_batch_size=2_000)
    texts = [f"{number} " + "a river crosses the plain before it reaches the sea " * 40 for number in range(20_000)]

    def embed(given):
        return model._native.embed(given, OPTIONS, True, None)

    before = embed(texts[:2_000])
    if request.param == 1:
        wait_until_queued(embed)
    else:
        before.cancel()
    yield lambda: embed(texts[:request.param])
    before.cancel()


def wait_until_queued(embed):
    """Waits until a call of many texts is in the queue of a first-in-first-out model, ahead of all others."""
    while is_answered(embed(["a"])):
        pass


def is_answered(job):
    answered = threading.Event()
    job.on_done(answered.set)
    try:
        return answered.wait(0.3)
    finally:
        job.cancel()


def test_threads_get_the_same_bits(model, texts):
    vectors = model.embed(texts)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda turn: model.embed(texts[turn % 5:], batch=1 + turn), range(32)):
            np.testing.assert_array_equal(found, vectors[len(vectors) - len(found):])


def test_other_threads_run_during_a_call(long_call):
    job, waiting, ran = long_call(), threading.Event(), threading.Event()

    def other():
        waiting.wait()
        ran.set()
        job.cancel()

    thread = threading.Thread(target=other)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # The thread that holds the GIL keeps it.
    try:
        waiting.set()
        with pytest.raises(RuntimeError, match="cancelled"):
            job.result()
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert ran.is_set()


def test_ctrl_c_ends_a_call(long_call):
    job = long_call()
    # A shell lets its background jobs ignore the signal.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    alarm = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    alarm.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            job.result()
    finally:
        signal.signal(signal.SIGINT, handler)
    with pytest.raises(RuntimeError, match="the call was cancelled"):
        job.result()


def test_a_long_text_is_in_the_queue_before_anybody_waits():
    """Other threads tokenize it, and it is queued before later calls."""
    model = prefold.Model(scheduling="fifo", max_client_batch_size=2_000)
    sentence = "a river crosses the plain before it reaches the sea "

    def embed(given):
        return model._native.embed(given, OPTIONS, True, None)

    job = embed([sentence * 12])
    time.sleep(0.5)
    many = embed([f"{number} " + sentence * 40 for number in range(2_000)])
    wait_until_queued(embed)
    patience = threading.Timer(10, job.cancel)
    patience.start()
    try:
        job.result()
    finally:
        patience.cancel()
    assert not is_answered(many)


def test_a_callback_may_call_the_model(model, texts):
    """It runs on a thread of the calls."""
    answers, answered = [], threading.Event()

    def call():
        answers.append(model.embed("a"))
        answered.set()

    job = model._native.embed(texts, OPTIONS, True, None)
    job.on_done(call)
    assert answered.wait(10)
    np.testing.assert_array_equal(answers[0], model.embed("a"))


def run(script):
    """Output of a script in a separate process."""
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(script), str(FIXTURES)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fork_is_refused_and_ends():
    """In the child no call waits for threads that do not exist, neither with the parent's model, nor with a new one, nor at exit."""
    output = run("""
        import gc, os, sys, prefold
        model = prefold.Model(sys.argv[1] + "/bert-mean-tiny")
        model.embed("a")
        job, one = (model._native.embed(["a"] * texts, (None, None, None, None, None), True, None) for texts in (50, 1))
        child = os.fork()
        if child == 0:
            calls = [lambda: model.embed("a"), prefold.Model, lambda: model.tokenize("a"), lambda: model.rerank("a", ["b"]), job.result,
                     lambda: job.on_done(print), lambda: one.on_done(print)]
            for call in calls:
                try:
                    call()
                except prefold.ForkError as error:
                    print(error, flush=True)
            model.close()
            del model, job, one, calls, call
            gc.collect()
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print(len(model.embed("a")), len(job.result()), len(one.result()))
    """)
    *refusals, parent = output.splitlines()
    assert len(refusals) == 7 and all("was forked from process" in line and "`spawn`" in line for line in refusals)
    assert parent == "1 50 1"


def test_models_may_be_loaded_after_a_fork():
    output = run("""
        import os, sys, prefold
        child = os.fork()
        # One write a process: `print` writes the line and its end separately where Python is unbuffered.
        os.write(1, b"%d\\n" % prefold.Model(sys.argv[1] + "/bert-mean-tiny").embed("a").shape[0])
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """)
    assert output == "1\n1\n"


def test_a_pickled_model_is_loaded_again(model, texts):
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.embed(texts), model.embed(texts))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(model.embed, (texts,)), model.embed(texts))


def test_asyncio(model, models, texts):
    vectors = model.embed(texts)

    async def all_at_once():
        return await asyncio.gather(*(model.aembed(texts[turn % 7:], batch=1 + turn) for turn in range(50)))

    for found in asyncio.run(all_at_once()):
        np.testing.assert_array_equal(found, vectors[len(vectors) - len(found):])

    async def others():
        parts = [part async for part in model.aembed_batches(iter(texts), batch=11)]
        loaded = await prefold.Model.aload(FIXTURES / "bert-nli-tiny")
        return (np.concatenate(parts), await model.arerank(texts[0], texts), await loaded.aclassify(texts),
                await model.atokenize(texts), await model.aembed([]))

    found, ranked, labels, tokens, none = asyncio.run(others())
    np.testing.assert_array_equal(found, vectors)
    assert ranked == model.rerank(texts[0], texts) and labels == models("bert-nli-tiny").classify(texts)
    assert tokens == model.tokenize(texts) and none.shape == (0, model.dimensions)


def test_asyncio_errors_and_cancellation(model, texts, long_call):
    with pytest.raises(prefold.InputError, match="item 1 is int"):
        asyncio.run(model.aembed(["a", 1]))

    async def cancelled():
        from prefold.calls import async_result

        job = long_call()
        task = asyncio.create_task(async_result(job))
        await asyncio.sleep(0.05)
        assert not task.done()  # The event loop keeps running.
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return job

    with pytest.raises(RuntimeError, match="cancelled"):
        asyncio.run(cancelled()).result()
    assert len(model.embed(texts)) == len(texts)
