"""LangChain's `Embeddings` and a document compressor over `prefold.Model`. Needs `langchain-core`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

try:
    from langchain_core.callbacks import Callbacks
    from langchain_core.documents import Document
    from langchain_core.documents.compressor import BaseDocumentCompressor
    from langchain_core.embeddings import Embeddings
    from pydantic import ConfigDict
except ImportError as error:
    raise ImportError('prefold.langchain needs langchain-core: pip install "prefold[langchain]"') from error

from .arguments import check
from .model import Model, loaded
from .results import Ranked


class PrefoldEmbeddings(Embeddings):
    """Embeddings of queries and documents, each with the model's prompt for them if it has one.

    `model` is a `prefold.Model`, or a model to load with `settings`. `options` are passed to `embed`, for example `{"dimensions":
    256}`.
    """

    def __init__(
        self, model: Model | str | os.PathLike[str] | None = None, *, options: dict[str, Any] | None = None, **settings: Any
    ) -> None:
        self.model = loaded(model, settings)
        self.options = options or {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text."""
        return lists(self.model.embed(texts, **self._options("document")))

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        return lists(self.model.embed(text, **self._options("query")))[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """`embed_documents` without blocking the event loop."""
        return lists(await self.model.aembed(texts, **self._options("document")))

    async def aembed_query(self, text: str) -> list[float]:
        """`embed_query` without blocking the event loop."""
        return lists(await self.model.aembed(text, **self._options("query")))[0]

    def _options(self, input_type: str) -> dict[str, Any]:
        has_prompt = self.options.keys() & {"prompt_name", "prompt", "input_type", "task"}
        return self.options if has_prompt else {"input_type": input_type, **self.options}


class PrefoldRerank(BaseDocumentCompressor):
    """Compressor that keeps the `top_n` most relevant documents, best first, with their `relevance_score` in the metadata.

    `model` is a `prefold.Model`, or a model to load with `settings`. `top_n=None` keeps all.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=(), extra="forbid")

    model: Model
    top_n: int | None = 3
    instruction: str | None = None

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | None = None,
        *,
        top_n: int | None = 3,
        instruction: str | None = None,
        **settings: Any,
    ) -> None:
        check(top_n=top_n, instruction=instruction)
        super().__init__(model=loaded(model, settings), top_n=top_n, instruction=instruction)  # type: ignore[call-arg]  # Fields of this class.

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """The most relevant documents."""
        if not documents:
            return []
        return scored(documents, self.model.rerank(query, contents(documents), **self._options()))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """`compress_documents` without blocking the event loop."""
        if not documents:
            return []
        return scored(documents, await self.model.arerank(query, contents(documents), **self._options()))

    def _options(self) -> dict[str, Any]:
        return {"top_n": self.top_n, "instruction": self.instruction}


def lists(vectors: Any) -> list[list[float]]:
    values: list[list[float]] = vectors.tolist()
    return values


def contents(documents: Sequence[Document]) -> list[str]:
    return [document.page_content for document in documents]


def scored(documents: Sequence[Document], ranked: list[Ranked]) -> list[Document]:
    """Copies of the documents, with their scores in the metadata."""
    return [
        documents[index].model_copy(update={"metadata": {**documents[index].metadata, "relevance_score": score}})
        for index, score in ranked
    ]
