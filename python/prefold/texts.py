"""Texts in blocks, from one text, a sequence, an iterator or an Arrow array."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any, Optional, Protocol, Union

from .errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ArrowArray(Protocol):
    """Array with Arrow's C data interface, from pyarrow, polars, pandas, duckdb and others."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """Arrays with Arrow's C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


Texts = Union[str, Iterable[str], ArrowArray, ArrowStream]
"""One text, texts, or an Arrow array of strings."""

AsyncTexts = Union[Texts, AsyncIterable[str]]
"""The same, or an async iterator of texts."""

Options = tuple[Optional[str], Optional[str], Optional[str], Optional[str], Optional[bool]]
"""`prompt_name`, `prompt`, `input_type`, `task` and `truncate` of a call."""

Block = Union["list[str]", "tuple[NDArray[np.signedinteger[Any]], NDArray[np.uint8]]"]
"""Texts, or the offsets and bytes of an Arrow array."""


def sized_blocks(texts: Texts, size: int) -> tuple[int | None, Iterator[Block]]:
    """The number of texts, None if unknown in advance, and the texts in blocks of `size`."""
    if isinstance(texts, str):
        return 1, iter([[texts]])
    arrays = arrow_arrays(texts)
    if arrays is not None:
        blocks = (of_arrow(array.slice(begin, size)) for array in arrays for begin in range(0, len(array), size))
        return sum(map(len, arrays)), blocks
    items = iterable(texts)
    if isinstance(items, (list, tuple)):
        if len(items) <= size:
            return len(items), iter([list(items)] if items else [])
        return len(items), (list(items[begin:begin + size]) for begin in range(0, len(items), size))
    return (len(items) if isinstance(items, Sized) else None), iterated(iter(items), size)


def iterated(texts: Iterator[str], size: int) -> Iterator[Block]:
    while block := list(islice(texts, size)):
        yield block


async def async_blocks(texts: AsyncTexts, size: int) -> AsyncIterator[Block]:
    """The texts in blocks of `size`. An iterator may wait for a file or a database, so it is read in another thread."""
    if isinstance(texts, AsyncIterable):
        gathered: list[str] = []
        async for text in texts:
            gathered.append(text)
            if len(gathered) == size:
                yield gathered
                gathered = []
        if gathered:
            yield gathered
        return
    _, blocks = sized_blocks(texts, size)
    if is_at_hand(texts):
        for block in blocks:
            yield block
    else:
        while (pulled := await asyncio.to_thread(next, blocks, None)) is not None:
            yield pulled


async def at_hand(texts: Any) -> Any:
    """The texts if they are in memory, else a list of them. An iterator is read in another thread."""
    if isinstance(texts, AsyncIterable):
        return [text async for text in texts]
    if is_at_hand(texts):
        return texts
    return await asyncio.to_thread(list, iterable(texts))


def is_at_hand(texts: Any) -> bool:
    """True for texts in memory: one text, a list, an Arrow array."""
    return isinstance(texts, (str, list, tuple)) or has_arrow(texts)


def iterable(texts: Any) -> Iterable[Any]:
    """Returns an iterable of texts unchanged. Raises `InputError` for other values."""
    kind = type(texts).__name__
    if isinstance(texts, AsyncIterable):
        raise InputError(f"`texts` is {kind}, an async iterator: only the methods of asyncio take it, such as `aembed`", "texts")
    # A numpy array without dimensions has `__iter__` but cannot be iterated; iterating a mapping would give its keys.
    if isinstance(texts, (bytes, bytearray, Mapping)) or not isinstance(texts, Iterable) or getattr(texts, "shape", None) == ():
        raise InputError(f"`texts` is {kind}; it must be texts, an iterator of them or an Arrow array", "texts")
    return texts


def whole(texts: Texts) -> Block:
    """All texts as one block."""
    arrays = arrow_arrays(texts)
    if arrays is None:
        _, blocks = sized_blocks(texts, 1 << 62)
        return next(blocks, [])
    import pyarrow

    return of_arrow(arrays[0] if len(arrays) == 1 else pyarrow.concat_arrays(arrays))


def texts_and_pairs(texts: Any) -> list[Any]:
    """Texts and pairs of texts in a list. A tuple is one pair."""
    if isinstance(texts, (str, tuple)):
        return [texts]
    return list(iterable(texts))


def has_arrow(texts: Any) -> bool:
    return hasattr(texts, "__arrow_c_array__") or hasattr(texts, "__arrow_c_stream__")


def arrow_arrays(texts: Any) -> list[Any] | None:
    """The chunks of an Arrow array, each with offsets and bytes; None for other values, or without pyarrow."""
    if not has_arrow(texts):
        return None
    try:
        import pyarrow
    except ImportError:
        return None
    array = texts
    if not isinstance(array, (pyarrow.Array, pyarrow.ChunkedArray)):
        is_array = hasattr(texts, "__arrow_c_array__")
        array = pyarrow.array(texts) if is_array else pyarrow.chunked_array(texts)
    kind = array.type.value_type if pyarrow.types.is_dictionary(array.type) else array.type
    if str(kind) not in ("string", "large_string", "string_view"):
        raise InputError(f"`texts` is an Arrow array of {array.type}; it must be one of strings", "texts")
    if str(array.type) not in ("string", "large_string"):
        try:
            array = array.cast(pyarrow.large_string())
        except pyarrow.ArrowNotImplementedError:
            raise InputError(f"`texts` is an Arrow array of {array.type}, which pyarrow does not turn into strings: cast it first", "texts") from None
    if array.null_count:
        index = array.is_null().index(True).as_py()
        raise InputError(f"`texts` item {index} is null; it must be a text", "texts")
    return array.chunks if isinstance(array, pyarrow.ChunkedArray) else [array]


def of_arrow(array: Any) -> Block:
    """The `len(array) + 1` offsets and the bytes of an Arrow array, without a copy."""
    import numpy as np
    import pyarrow

    _, offsets, data = array.buffers()
    width: Any = np.int64 if pyarrow.types.is_large_string(array.type) else np.int32
    ends = np.frombuffer(offsets, width)[array.offset:array.offset + len(array) + 1] if len(array) else np.zeros(1, width)
    return ends, np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
