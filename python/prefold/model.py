"""A model in this process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _prefold
from .calls import answers, async_answers, async_result
from .errors import InputError, NotCapableError
from .progress import bar
from .results import Label, Ranked, Token
from .texts import Block, Options, Texts, sized_blocks, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TextOrPair = Union[str, Sequence[str]]
"""A text, or a pair of texts as a tuple or list of two."""

BATCH = 2048
"""Texts that a call gives to the engine at once."""

BATCH_OF_PROGRESS = 256
"""The same where progress is shown."""


class Model:
    """A model in this process: the engine of the server without HTTP, with the same answers bit for bit.

    `model` is a hub id (`"Qwen/Qwen3-Embedding-0.6B"`), a directory or a `.gguf` file; without it, the small built-in model.
    `dtype` is `"float32"`, `"bfloat16"`, `"int8"` or `"float16"` (on GPUs), `device` is `"cpu"`, `"cuda"` or `"cuda:N"`. Further keyword
    arguments are the flags of `prefold --help` under Model and Batching, for example `pooling="mean"`, `radix_mlp_threshold=0`,
    `max_batch_tokens=8192` or `revision="main"`; environment variables give what is not given here. The limits on requests
    (`max_concurrent_requests`, `max_queued_tokens`, `max_queued_inputs`) hold only where they are given.

    Calls may come from any thread and release the GIL; those that run at once share batches. Ctrl-C ends a call. After a fork
    calls raise `ForkError`; a pickled model is loaded again where it is unpickled.

    Raises `SettingError` and `LoadError`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        dtype: str | None = None,
        device: str | None = None,
        **settings: Any,
    ) -> None:
        name = None if model is None else os.fspath(model)
        self._settings = {"dtype": dtype, "device": device, **settings}
        self._name = name
        self._native = _prefold.Model(name, self._settings)
        self._info: dict[str, Any] = json.loads(self._native.info())
        for warning in self._info["warnings"]:
            logging.getLogger("prefold").warning(warning)

    @classmethod
    async def aload(cls, model: str | os.PathLike[str] | None = None, **settings: Any) -> Model:
        """`Model(model, **settings)`, while other tasks of the event loop run."""
        return await asyncio.to_thread(cls, model, **settings)

    @property
    def info(self) -> dict[str, Any]:
        """What `/info` answers: name, type, dimensions, prompts, limits, kernels and warnings of the model."""
        return dict(self._info)

    @property
    def dimensions(self) -> int:
        """Values of a vector. Raises `NotCapableError` if the model makes no embeddings."""
        dimensions = self._info["dimensions"]
        if dimensions is None:
            raise NotCapableError(f"{self!r} makes no embeddings")
        return int(dimensions)

    def embed(
        self,
        texts: Texts,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        input_type: str | None = None,
        dimensions: int | None = None,
        normalize: bool = True,
        truncate: bool | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> NDArray[np.float32]:
        """Vectors of texts: float32 `[n, d]`, where d is `dimensions` or all values of the model.

        `texts` is one text, texts in a list or iterator, or an Arrow array of strings, which is read where it lies. `prompt_name`
        is one of the model's prompts, `prompt` a text to put before each, `input_type` one of `"query"`, `"document"`,
        `"classification"` and `"clustering"`: the model's prompt of that name, if it has one. `dimensions` keeps the first
        values, scaled to unit length again; `normalize=False` does not scale. `truncate=False` raises `TooLongError` for what is too
        long. `batch` texts are given to the engine at once, which neither changes a bit nor the batches that it forms.

        Raises `InputError`, `NotCapableError` and `InferenceError`.
        """
        import numpy as np

        total, blocks = self._blocks(texts, batch, progress)
        call = self._embedding((prompt_name, prompt, input_type, truncate), normalize, dimensions)
        shown = bar(total, progress)
        arrays = []
        try:
            for array, count in answers(blocks, call):
                arrays.append(array)
                shown.update(count)
        finally:
            shown.close()
        if not arrays:
            return np.empty((0, dimensions or self.dimensions), np.float32)
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    async def aembed(
        self,
        texts: Texts,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        input_type: str | None = None,
        dimensions: int | None = None,
        normalize: bool = True,
        truncate: bool | None = None,
        batch: int | None = None,
    ) -> NDArray[np.float32]:
        """`embed`, while other tasks of the event loop run. A cancelled task leaves the engine's queue."""
        import numpy as np

        _, blocks = self._blocks(texts, batch)
        call = self._embedding((prompt_name, prompt, input_type, truncate), normalize, dimensions)
        arrays = [array async for array, _ in async_answers(blocks, call)]
        if not arrays:
            return np.empty((0, dimensions or self.dimensions), np.float32)
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def embed_batches(
        self,
        texts: Texts,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        input_type: str | None = None,
        dimensions: int | None = None,
        normalize: bool = True,
        truncate: bool | None = None,
        batch: int | None = None,
    ) -> Iterator[NDArray[np.float32]]:
        """Vectors of an endless stream of texts: an array `[batch, d]` for each `batch` texts. Two batches are in memory at once."""
        _, blocks = self._blocks(texts, batch)
        call = self._embedding((prompt_name, prompt, input_type, truncate), normalize, dimensions)
        return (array for array, _ in answers(blocks, call))

    async def aembed_batches(
        self,
        texts: Texts,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        input_type: str | None = None,
        dimensions: int | None = None,
        normalize: bool = True,
        truncate: bool | None = None,
        batch: int | None = None,
    ) -> AsyncIterator[NDArray[np.float32]]:
        """`embed_batches`, while other tasks of the event loop run."""
        _, blocks = self._blocks(texts, batch)
        call = self._embedding((prompt_name, prompt, input_type, truncate), normalize, dimensions)
        async for array, _ in async_answers(blocks, call):
            yield array

    def embed_arrow(self, texts: Texts, **options: Any) -> Any:
        """`embed` as an Arrow array, `FixedSizeList<float32>[d]`, which shares the vectors' memory. Needs pyarrow."""
        import pyarrow

        vectors = self.embed(texts, **options)
        return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), vectors.shape[1])

    def rerank(
        self,
        query: str,
        texts: Texts,
        *,
        top_n: int | None = None,
        instruction: str | None = None,
        raw_scores: bool = False,
        truncate: bool | None = None,
    ) -> list[Ranked]:
        """Indices and scores of texts, the best first, `top_n` at most.

        A score is the probability of a reranker, its logit with `raw_scores`, or the cosine of an embedding model. `instruction` tells an
        instruction-following reranker what is relevant.

        Raises `InputError`, `NotCapableError` and `InferenceError`.
        """
        job = self._reranking(query, texts, top_n, instruction, raw_scores, truncate)
        return [Ranked(*ranked) for ranked in job.result()]

    async def arerank(
        self,
        query: str,
        texts: Texts,
        *,
        top_n: int | None = None,
        instruction: str | None = None,
        raw_scores: bool = False,
        truncate: bool | None = None,
    ) -> list[Ranked]:
        """`rerank`, while other tasks of the event loop run."""
        job = self._reranking(query, texts, top_n, instruction, raw_scores, truncate)
        return [Ranked(*ranked) for ranked in await async_result(job)]

    def classify(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        *,
        prompt_name: str | None = None,
        raw_scores: bool = False,
        truncate: bool | None = None,
    ) -> list[list[Label]]:
        """Labels with their scores of each text or pair of texts, the best first; `raw_scores` gives logits.

        A tuple of two texts is a pair; a list of two texts is two texts. Raises `InputError`, `NotCapableError` and `InferenceError`.
        """
        job = self._classification(texts, prompt_name, raw_scores, truncate)
        return [[Label(*label) for label in labels] for labels in job.result()]

    async def aclassify(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        *,
        prompt_name: str | None = None,
        raw_scores: bool = False,
        truncate: bool | None = None,
    ) -> list[list[Label]]:
        """`classify`, while other tasks of the event loop run."""
        job = self._classification(texts, prompt_name, raw_scores, truncate)
        return [[Label(*label) for label in labels] for labels in await async_result(job)]

    def tokenize(
        self, texts: Texts, *, add_special_tokens: bool = True, prompt_name: str | None = None
    ) -> list[list[Token]]:
        """Tokens of each text; never truncated. Raises `InputError`."""
        job = self._native.tokenize(whole(texts), (prompt_name, None, None, None), add_special_tokens)
        return [[Token(*token) for token in tokens] for tokens in job.result()]

    async def atokenize(
        self, texts: Texts, *, add_special_tokens: bool = True, prompt_name: str | None = None
    ) -> list[list[Token]]:
        """`tokenize`, while other tasks of the event loop run."""
        job = self._native.tokenize(whole(texts), (prompt_name, None, None, None), add_special_tokens)
        return [[Token(*token) for token in tokens] for tokens in await async_result(job)]

    def close(self) -> None:
        """Frees the model as soon as its running calls are done. Later calls raise `ClosedError`."""
        self._native.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name, dtype, device = (self._info[key] for key in ("model_id", "dtype", "device"))
        return f"prefold.Model({name!r}, dtype={dtype!r}, device={device!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (self._name, self._settings)

    def _blocks(self, texts: Texts, batch: int | None, progress: bool = False) -> tuple[int | None, Iterator[Block]]:
        size = batch if batch is not None else min(BATCH_OF_PROGRESS if progress else BATCH, self._native.max_inputs)
        if not 1 <= size <= self._native.max_inputs:
            raise InputError(f"`batch` is {size}; it must be from 1 to {self._native.max_inputs}", "batch")
        return sized_blocks(texts, size)

    def _embedding(self, options: Options, normalize: bool, dimensions: int | None) -> Any:
        return lambda block: self._native.embed(block, options, normalize, dimensions)

    def _reranking(
        self,
        query: str,
        texts: Texts,
        top_n: int | None,
        instruction: str | None,
        raw_scores: bool,
        truncate: bool | None,
    ) -> _prefold.Job:
        return self._native.rerank(query, whole(texts), (None, None, None, truncate), instruction, raw_scores, top_n)

    def _classification(
        self, texts: Any, prompt_name: str | None, raw_scores: bool, truncate: bool | None
    ) -> _prefold.Job:
        one = isinstance(texts, (str, tuple))
        return self._native.classify([texts] if one else list(texts), (prompt_name, None, None, truncate), raw_scores)


def _load(name: str | None, settings: dict[str, Any]) -> Model:
    """A pickled model, loaded again."""
    return Model(name, **settings)
