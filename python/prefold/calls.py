"""Calls over blocks of texts: two blocks are in flight at once, so that the next one is tokenized while one is computed."""

from __future__ import annotations

import asyncio
import re
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
    """Started calls in the order of their blocks, `in_flight` at once."""

    def __init__(self, start: Callable[[Block], Job], in_flight: int) -> None:
        self.start, self.in_flight = start, in_flight
        self.jobs: deque[tuple[Job, int]] = deque()
        self.begin = 0  # Texts before the first job.

    def push(self, block: Block) -> None:
        begin = self.begin + sum(texts for _, texts in self.jobs)
        self.jobs.append((placed(lambda: self.start(block), begin, length(block)), length(block)))

    def is_full(self) -> bool:
        return len(self.jobs) >= self.in_flight

    def first(self) -> Any:
        """Removes the first job; returns its answer."""
        job, texts = self.jobs[0]
        answer = placed(job.result, self.begin, texts)
        self.jobs.popleft()
        self.begin += texts
        return answer

    def cancel(self) -> None:
        for job, _ in self.jobs:
            job.cancel()


def placed(call: Callable[[], Any], begin: int, texts: int) -> Any:
    """Result of a call over a block. Errors number items across blocks; `begin` is the number of the block's first text."""
    try:
        return call()
    except InputError as error:
        if begin == 0 or error.field != "texts":
            raise
        raise type(error)(counted(str(error), begin, texts), error.field) from None


def counted(message: str, begin: int, texts: int) -> str:
    """The message about a block of `texts` texts, with its item numbered from `begin`. The only text of a block has no number."""
    found = re.match(r"(`texts`(?: could not be tokenized:)?)(?: item (\d+))? ", message)
    if found is None or (found[2] is None and texts > 1):
        return f"{message} (counted from item {begin} on)"
    return f"{found[1]} item {begin + int(found[2] or 0)} {message[found.end():]}"


def answers(blocks: Iterator[Block], start: Callable[[Block], Job], in_flight: int) -> Iterator[Any]:
    """The answer of each block."""
    pending = Pending(start, in_flight)
    try:
        for block in blocks:
            pending.push(block)
            if pending.is_full():
                yield pending.first()
        while pending.jobs:
            yield pending.first()
    finally:
        pending.cancel()


async def async_answers(
    blocks: AsyncIterator[Block], start: Callable[[Block], Job], in_flight: int
) -> AsyncIterator[Any]:
    """`answers` without blocking the event loop."""
    pending = Pending(start, in_flight)
    try:
        async for block in blocks:
            pending.push(block)
            if pending.is_full():
                await done(pending.jobs[0][0])
                yield pending.first()
        while pending.jobs:
            await done(pending.jobs[0][0])
            yield pending.first()
    finally:
        pending.cancel()


async def done(job: Job) -> None:
    """Waits for the job's answer. Cancelling the wait cancels the job."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def set_result() -> None:
        if not future.done():
            future.set_result(None)

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(set_result)
        except RuntimeError:
            pass  # The loop is closed; no task waits.

    job.on_done(wake)
    try:
        await future
    except asyncio.CancelledError:
        job.cancel()
        raise


async def async_result(job: Job) -> Any:
    """The answer of a job, without blocking the event loop."""
    await done(job)
    return job.result()
