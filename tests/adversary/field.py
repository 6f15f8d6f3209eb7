"""The field: a server under attack, with its witness and its oracle."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from drafts import BAD
from limits import MB
from oracle import Oracle
from raw import settled
from steps import Heard, play

# Requests in flight, waiting inputs and descriptors that do not belong to attacks: the witness's, and the ones of the check itself.
OWN_REQUESTS, OWN_INPUTS, OWN_DESCRIPTORS = 4, 3, 8
# Maximum seconds after an attack until the server has released its resources. Work that has begun is finished.
RELEASE = 45
# Seconds to wait before a flood until memory is as before: work that has begun continues after its client leaves.
CALM = 20
# Memory that may stay resident after all attacks, beyond the memory before the first: buffers of batches and pages kept by the allocator.
KEPT = 96 * MB


def warm_up(target, questions):
    """Requests that bring a server's memory to its level in use: full batches, long answers, large bodies."""
    path, field, wrap, many, words = WARM.get(questions, ("/v1/embeddings", "input", lambda text: text, 2000, 60))
    inputs = [wrap(f"{number} {'zebra quince ' * words}") for number in range(16)]
    for body in ({field: inputs}, {field: [wrap("a")] * many}, {field: inputs, "ignored": "x" * MB}) * 3:
        response = target.post(path, {"query": "a", **body}, {"authorization": f"Bearer {BAD}"})
        assert response.status == 200, response


# Route, field and form of an input, and numbers of inputs and words, where they differ from an embedding model's.
WARM = {
    "classifier": ("/predict", "inputs", lambda text: [text], 2000, 60),
    "tokens": ("/predict_tokens", "inputs", lambda text: text, 2000, 60),
    "labels": ("/predict_tokens", "inputs", lambda text: text, 100, 1),
    "reranker": ("/rerank", "texts", lambda text: text, 2000, 60),
}


class Field:
    """One server and its attackers."""

    def __init__(self, target, limits, questions):
        self.target, self.limits = target, limits
        warm_up(target, questions)
        self.oracle = Oracle(target, limits)
        self.descriptors = settled(self.oracle.vitals.descriptors)
        self.threads = self.oracle.vitals.threads()
        self.resident = self.oracle.vitals.resident()
        self.beside, self.held_beside = [], 0

    async def run(self, attack):
        """Plays an attack and judges it."""
        heard = [Heard() for _ in attack.plays]
        with_steps = attack.steps()
        window = self.oracle.begin(attack.name, attack.load, with_steps)
        tasks = [asyncio.create_task(play(self.target.port, one, was)) for one, was in zip(attack.plays, heard)]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=attack.seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            for task in tasks:
                if not task.cancelled():
                    task.result()
        await self.settle(window)
        self.oracle.check_answers(window, attack.plays, heard)

    async def calm(self):
        """Waits until the memory of the last attack is freed, since the next one is judged by the growth."""
        deadline = asyncio.get_running_loop().time() + CALM
        while self.oracle.vitals.resident() > self.resident + KEPT // 2 and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.05)

    def start(self, attack):
        """Starts an attack that runs concurrently with others."""
        self.held_beside += len(attack.plays)
        self.beside.append((asyncio.create_task(self.run(attack)), len(attack.plays)))

    async def join(self):
        """Waits for the attacks begun by `start`."""
        for task, count in self.beside:
            await task
            self.held_beside -= count
        self.beside = []

    async def settle(self, window):
        """Waits until the server has released the resources of an attack, and closes its window."""
        deadline = asyncio.get_running_loop().time() + RELEASE
        while left := await asyncio.to_thread(self.left):
            if self.target.process.poll() is not None:
                break
            if asyncio.get_running_loop().time() > deadline:
                self.oracle.find("not released", f"after {RELEASE} s: {left}", [window])
                break
            await asyncio.sleep(0.05)
        self.oracle.end(window)

    def left(self):
        """Resources that the server still holds; empty if only the witness's."""
        try:
            return self._held()
        except OSError as error:
            return {"no answer": repr(error)}

    def _held(self):
        found = {}
        descriptors = self.oracle.vitals.descriptors() - self.descriptors - self.held_beside
        if descriptors > OWN_DESCRIPTORS:
            found["descriptors"] = descriptors
        for name, own in (("prefold_http_requests_in_flight", OWN_REQUESTS), ("te_queue_size", OWN_INPUTS * 2)):
            if not found and (value := self.target.metric(name)) > own + self.held_beside:
                found[name] = value
        return found

    @asynccontextmanager
    async def witnessed(self, questions):
        """Runs the witness, and samples the server several times a second."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(Path(__file__).with_name("witness.py")), str(self.target.port), questions,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
        while json.loads(await process.stdout.readline() or b'{"what": "ready"}')["what"] != "ready":
            pass
        watching = [asyncio.create_task(self._hear(process)), asyncio.create_task(self._sample())]
        try:
            yield
        finally:
            process.stdin.close()
            watching[1].cancel()
            await asyncio.wait(watching, timeout=70)
            await asyncio.wait_for(process.wait(), 10)
        watching[0].result()

    async def _hear(self, process):
        while line := await process.stdout.readline():
            seen = json.loads(line)
            if seen["what"] != "ready":
                self.oracle.judge(seen)

    async def _sample(self):
        while self.target.process.poll() is None:
            try:
                self.oracle.sample()
            except (OSError, StopIteration):
                return  # The process has ended.
            await asyncio.sleep(0.1)
