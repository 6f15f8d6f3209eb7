"""Calls over blocks of texts: two blocks are on their way at once, so that the next is tokenized while one is computed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from ._prefold import Job
from .errors import InputError
from .texts import Block

IN_FLIGHT = 2


def length(block: Block) -> int:
    """Texts of a block."""
    return len(block[0]) - 1 if isinstance(block, tuple) else len(block)


class Pending:
    """Started calls in the order of their blocks."""

    def __init__(self, start: Callable[[Block], Job]) -> None:
        self.start = start
        self.jobs: deque[tuple[Job, int]] = deque()
        self.begin = 0  # Texts before the first job.

    def push(self, block: Block) -> None:
        self.jobs.append((self.placed(self.start, block, sum(texts for _, texts in self.jobs)), length(block)))

    def placed(self, call: Callable[..., Any], argument: Any, before: int = 0) -> Any:
        """Result of the call. An error in a later block says where the block begins."""
        try:
            return call(argument)
        except InputError as error:
            begin = self.begin + before
            if begin:
                raise type(error)(f"{error} (counted from item {begin} on)", error.field) from None
            raise

    def cancel(self) -> None:
        for job, _ in self.jobs:
            job.cancel()


def answers(blocks: Iterator[Block], start: Callable[[Block], Job]) -> Iterator[tuple[Any, int]]:
    """The answer of each block with its number of texts."""
    pending = Pending(start)

    def first() -> tuple[Any, int]:
        job, texts = pending.jobs[0]
        answer = pending.placed(lambda job: job.result(), job)
        pending.jobs.popleft()
        pending.begin += texts
        return answer, texts

    try:
        for block in blocks:
            pending.push(block)
            if len(pending.jobs) == IN_FLIGHT:
                yield first()
        while pending.jobs:
            yield first()
    finally:
        pending.cancel()


async def async_answers(blocks: Iterator[Block], start: Callable[[Block], Job]) -> AsyncIterator[tuple[Any, int]]:
    """`answers`, while other tasks of the event loop run."""
    pending = Pending(start)

    async def first() -> tuple[Any, int]:
        job, texts = pending.jobs[0]
        await done(job)
        answer = pending.placed(lambda job: job.result(), job)
        pending.jobs.popleft()
        pending.begin += texts
        return answer, texts

    try:
        for block in blocks:
            pending.push(block)
            if len(pending.jobs) == IN_FLIGHT:
                yield await first()
        while pending.jobs:
            yield await first()
    finally:
        pending.cancel()


async def done(job: Job) -> None:
    """Waits until the job has its answer. A cancelled wait cancels the job."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def set_result() -> None:
        if not future.done():
            future.set_result(None)

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(set_result)
        except RuntimeError:
            pass  # The loop is closed; nobody waits.

    job.on_done(wake)
    try:
        await future
    except asyncio.CancelledError:
        job.cancel()
        raise


async def async_result(job: Job) -> Any:
    """The answer of a job, while other tasks of the event loop run."""
    await done(job)
    return job.result()
