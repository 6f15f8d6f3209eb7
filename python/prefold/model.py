"""A model in this process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Union

from . import _prefold
from .arguments import check
from .calls import IN_FLIGHT, answers, async_answers, async_result
from .errors import InputError, NotCapableError, SettingError
from .progress import bar
from .results import Label, Ranked, Token
from .texts import AsyncTexts, Block, Texts, async_blocks, at_hand, sized_blocks, texts_and_pairs, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Unpack

TextOrPair = Union[str, Sequence[str]]
"""A text, or a pair of texts as a tuple or list of two."""

BATCH = 2048
"""Texts that a call gives to the engine at once."""

BATCH_OF_PROGRESS = 256
"""Texts at once where progress is shown."""

LIMITS = {"max_concurrent_requests", "max_queued_tokens", "max_queued_inputs"}
"""Settings that let a call be refused."""


class EmbedOptions(TypedDict, total=False):
    """Options of `embed` except `progress`."""

    prompt_name: str | None
    prompt: str | None
    input_type: str | None
    task: str | None
    dimensions: int | None
    normalize: bool | None
    truncate: bool | None
    batch: int | None


class Model:
    """A model in this process: the server's engine without HTTP, with bit-identical answers.

    `model` is a hub id (`"Qwen/Qwen3-Embedding-0.6B"`), a directory or a `.gguf` file, with `~` for the home directory. Default: the
    small built-in model. `dtype` is `"float32"`, `"bfloat16"`, `"int8"` or `"float16"` (on GPUs), `device` is `"cpu"`, `"cuda"` or
    `"cuda:N"`. Further keyword arguments are the flags of `prefold --help` under Model and Batching, for example `pooling="mean"`,
    `radix_mlp_threshold=0`, `max_batch_tokens=8192` or `revision="main"`; environment variables provide settings that are not given
    here. The limits on requests (`max_concurrent_requests`, `max_queued_tokens`, `max_queued_inputs`) apply only if given.

    Calls may come from any thread and release the GIL; concurrent calls share batches. Ctrl-C ends a call. After a fork,
    calls raise `ForkError`; a pickled model is loaded again when it is unpickled.

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
        if not isinstance(model, (str, os.PathLike, type(None))):
            raise SettingError(f"`model` is {type(model).__name__}; it must be a hub id, a path, or None for the built-in model")
        name = None if model is None else os.path.expanduser(os.fsdecode(model))
        self._settings = {"dtype": dtype, "device": device, **settings}
        self._name = name
        # One if a limit is set, so that a call does not use up its own limit or another call's.
        is_limited = any(value is not None and name.replace("-", "_") in LIMITS for name, value in settings.items())
        self._in_flight = 1 if is_limited else IN_FLIGHT
        self._native = _prefold.Model(name, self._settings)
        self._info: dict[str, Any] = json.loads(self._native.info())
        for warning in self._info["warnings"]:
            logging.getLogger("prefold").warning(warning)

    @classmethod
    async def aload(cls, model: str | os.PathLike[str] | None = None, **settings: Any) -> Model:
        """`Model(model, **settings)` without blocking the event loop."""
        return await asyncio.to_thread(cls, model, **settings)

    @property
    def info(self) -> dict[str, Any]:
        """The content of `/info`: name, type, dimensions, prompts, limits, kernels and warnings of the model."""
        return dict(self._info)

    @property
    def dimensions(self) -> int:
        """Dimension of a vector. Raises `NotCapableError` if the model has no embeddings."""
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
        task: str | None = None,
        dimensions: int | None = None,
        normalize: bool | None = True,
        truncate: bool | None = None,
        batch: int | None = None,
        progress: bool = False,
    ) -> NDArray[np.float32]:
        """Vectors of texts: float32 `[n, d]`, where d is `dimensions` or the model's dimension.

        `texts` is one text, a list or iterator of texts, or an Arrow array of strings, which is read without a copy. `prompt_name` is one
        of the model's prompts, `prompt` a text to put before each text. `input_type` is one of `"query"`, `"document"`, `"classification"`
        and `"clustering"`, and selects the model's prompt or task of that name, if it has one. `task` is one of `info["tasks"]`.
        `dimensions` keeps the first values, scaled to unit length again; `normalize=False` does not scale. `normalize=None` keeps the
        length that the model's own modules give the vectors, as in sentence-transformers, and `dimensions` then only truncates.
        `truncate=False` raises `TooLongError` for texts that are too long. `batch` texts are passed to the engine at once, which changes
        neither the values nor the engine's batches.

        Raises `InputError`, `NotCapableError` and `InferenceError`.
        """
        start, size = self._embedding(
            progress, prompt_name, prompt, input_type, task, dimensions, normalize, truncate, batch)
        total, blocks = sized_blocks(texts, size)
        shown = bar(total, progress)
        arrays = []
        try:
            for array in answers(blocks, start, self._in_flight):
                arrays.append(array)
                shown.update(len(array))
        finally:
            shown.close()
        return self._joined(arrays, dimensions)

    async def aembed(self, texts: AsyncTexts, **options: Unpack[EmbedOptions]) -> NDArray[np.float32]:
        """`embed` without blocking the event loop, with the same options except `progress`. `texts` may also be an async iterator; any
        other iterator is read in another thread. Cancelling the task removes its texts from the engine's queue.
        """
        arrays = [array async for array in self.aembed_batches(texts, **options)]
        return self._joined(arrays, options.get("dimensions"))

    def embed_batches(self, texts: Texts, **options: Unpack[EmbedOptions]) -> Iterator[NDArray[np.float32]]:
        """Vectors of a stream of texts, which may be endless: an array `[batch, d]` for each `batch` texts. Two batches are in
        memory at once. The options are the same as of `embed`, except `progress`."""
        start, size = self._embedding(False, **options)
        return answers(sized_blocks(texts, size)[1], start, self._in_flight)

    def aembed_batches(self, texts: AsyncTexts, **options: Unpack[EmbedOptions]) -> AsyncIterator[NDArray[np.float32]]:
        """`embed_batches` without blocking the event loop."""
        start, size = self._embedding(False, **options)
        return async_answers(async_blocks(texts, size), start, self._in_flight)

    def embed_arrow(self, texts: Texts, **options: Any) -> Any:
        """`embed` as an Arrow array, `FixedSizeList<float32>[d]`, which shares the vectors' memory. Needs pyarrow."""
        try:
            import pyarrow
        except ImportError as error:
            raise ImportError('`embed_arrow` needs pyarrow: pip install "prefold[arrow]"') from error

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
        """Indices and scores of texts, best first, at most `top_n`.

        A score is the probability of a reranker, its logit with `raw_scores`, or the cosine of an embedding model. `instruction`
        describes relevance for instruction-following rerankers.

        Raises `InputError`, `NotCapableError` and `InferenceError`.
        """
        start = self._reranking(query, top_n, instruction, raw_scores, truncate)
        return [Ranked(*ranked) for ranked in start(texts).result()]

    async def arerank(
        self,
        query: str,
        texts: AsyncTexts,
        *,
        top_n: int | None = None,
        instruction: str | None = None,
        raw_scores: bool = False,
        truncate: bool | None = None,
    ) -> list[Ranked]:
        """`rerank` without blocking the event loop."""
        start = self._reranking(query, top_n, instruction, raw_scores, truncate)
        return [Ranked(*ranked) for ranked in await async_result(start(await at_hand(texts)))]

    def classify(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        *,
        prompt_name: str | None = None,
        raw_scores: bool = False,
        truncate: bool | None = None,
    ) -> list[list[Label]]:
        """Labels with their scores of each text or pair of texts, best first; `raw_scores` gives logits.

        A tuple of two texts is a pair; a list of two texts is two texts. Raises `InputError`, `NotCapableError` and `InferenceError`.
        """
        start = self._classification(prompt_name, raw_scores, truncate)
        return [[Label(*label) for label in labels] for labels in start(texts).result()]

    async def aclassify(
        self,
        texts: TextOrPair | Iterable[TextOrPair] | AsyncIterable[TextOrPair],
        *,
        prompt_name: str | None = None,
        raw_scores: bool = False,
        truncate: bool | None = None,
    ) -> list[list[Label]]:
        """`classify` without blocking the event loop."""
        start = self._classification(prompt_name, raw_scores, truncate)
        return [[Label(*label) for label in labels] for labels in await async_result(start(await at_hand(texts)))]

    def tokenize(
        self, texts: Texts, *, add_special_tokens: bool = True, prompt_name: str | None = None
    ) -> list[list[Token]]:
        """Tokens of each text; never truncated. Raises `InputError`."""
        start = self._tokenization(add_special_tokens, prompt_name)
        return [[Token(*token) for token in tokens] for tokens in start(texts).result()]

    async def atokenize(
        self, texts: AsyncTexts, *, add_special_tokens: bool = True, prompt_name: str | None = None
    ) -> list[list[Token]]:
        """`tokenize` without blocking the event loop."""
        start = self._tokenization(add_special_tokens, prompt_name)
        return [[Token(*token) for token in tokens] for tokens in await async_result(start(await at_hand(texts)))]

    def close(self) -> None:
        """Frees the model's memory as soon as its running calls and iterators are done. Later calls raise `ClosedError`."""
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

    def _joined(self, arrays: list[NDArray[np.float32]], dimensions: int | None) -> NDArray[np.float32]:
        import numpy as np

        if not arrays:
            return np.empty((0, dimensions or self.dimensions), np.float32)
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    # Each keeps the model alive until its call is done, even after `close`.

    def _embedding(
        self,
        progress: bool,
        /,
        prompt_name: str | None = None,
        prompt: str | None = None,
        input_type: str | None = None,
        task: str | None = None,
        dimensions: int | None = None,
        normalize: bool | None = True,
        truncate: bool | None = None,
        batch: int | None = None,
    ) -> tuple[Callable[[Block], _prefold.Job], int]:
        """The start of a block's call, and the maximum texts of a block."""
        check(prompt_name=prompt_name, prompt=prompt, input_type=input_type, task=task, truncate=truncate)
        check(normalize=normalize, dimensions=dimensions)
        held, options = self._native.held(), (prompt_name, prompt, input_type, task, truncate)
        check(progress=progress, batch=batch)
        size = batch if batch is not None else min(BATCH_OF_PROGRESS if progress else BATCH, held.max_inputs)
        if not 1 <= size <= held.max_inputs:
            raise InputError(f"`batch` is {size}; it must be from 1 to {held.max_inputs}", "batch")
        return lambda block: held.embed(block, options, normalize, dimensions), size

    def _reranking(
        self, query: str, top_n: int | None, instruction: str | None, raw_scores: bool, truncate: bool | None
    ) -> Callable[[Texts], _prefold.Job]:
        check(query=query, top_n=top_n, instruction=instruction, raw_scores=raw_scores, truncate=truncate)
        held, options = self._native.held(), (None, None, None, None, truncate)
        return lambda texts: held.rerank(query, whole(texts), options, instruction, raw_scores, top_n)

    def _classification(
        self, prompt_name: str | None, raw_scores: bool, truncate: bool | None
    ) -> Callable[[Any], _prefold.Job]:
        check(prompt_name=prompt_name, raw_scores=raw_scores, truncate=truncate)
        held, options = self._native.held(), (prompt_name, None, None, None, truncate)
        return lambda texts: held.classify(texts_and_pairs(texts), options, raw_scores)

    def _tokenization(self, add_special_tokens: bool, prompt_name: str | None) -> Callable[[Texts], _prefold.Job]:
        check(add_special_tokens=add_special_tokens, prompt_name=prompt_name)
        held, options = self._native.held(), (prompt_name, None, None, None, None)
        return lambda texts: held.tokenize(whole(texts), options, add_special_tokens)


def loaded(model: Model | str | os.PathLike[str] | None, settings: dict[str, Any]) -> Model:
    """The model passed to an adapter, loaded if necessary. Raises `SettingError` for settings together with a loaded model."""
    if not isinstance(model, Model):
        return Model(model, **settings)
    given = [f"`{name}`" for name, value in settings.items() if value is not None]
    if given:
        raise SettingError(f"{', '.join(given)}: the model is loaded already; give settings to `prefold.Model`")
    return model


def _load(name: str | None, settings: dict[str, Any]) -> Model:
    """A pickled model, loaded again."""
    return Model(name, **settings)
