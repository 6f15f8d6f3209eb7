"""LlamaIndex's embedding and node postprocessor over `prefold.Model`. Needs `llama-index-core`."""

from __future__ import annotations

import os
from typing import Any

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
except ImportError as error:
    raise ImportError('prefold.llama_index needs llama-index-core: pip install "prefold[llama-index]"') from error

from .arguments import check
from .model import Model, loaded
from .results import Ranked


class PrefoldEmbedding(BaseEmbedding):
    """Embedding of queries and texts, each with the model's prompt for them if it has one.

    `model` is a `prefold.Model`, or a model to load with `settings`. `options` are passed to `embed`, for example `{"dimensions":
    256}`.
    """

    _model: Model = PrivateAttr()
    _options: dict[str, Any] = PrivateAttr()

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | None = None,
        *,
        options: dict[str, Any] | None = None,
        embed_batch_size: int = 256,
        callback_manager: Any = None,
        **settings: Any,
    ) -> None:
        engine = loaded(model, settings)
        given = {} if callback_manager is None else {"callback_manager": callback_manager}
        super().__init__(model_name=engine.info["model_id"], embed_batch_size=embed_batch_size, **given)
        self._model, self._options = engine, options or {}

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in LlamaIndex's files."""
        return "PrefoldEmbedding"

    def _embed(self, texts: list[str], input_type: str) -> list[list[float]]:
        vectors: list[list[float]] = self._model.embed(texts, **self._typed(input_type)).tolist()
        return vectors

    async def _aembed(self, texts: list[str], input_type: str) -> list[list[float]]:
        vectors: list[list[float]] = (await self._model.aembed(texts, **self._typed(input_type))).tolist()
        return vectors

    def _typed(self, input_type: str) -> dict[str, Any]:
        has_prompt = self._options.keys() & {"prompt_name", "prompt", "input_type", "task"}
        return self._options if has_prompt else {"input_type": input_type, **self._options}

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._embed([query], "query")[0]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._embed([text], "document")[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._embed(texts, "document")

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return (await self._aembed([query], "query"))[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aembed([text], "document"))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await self._aembed(texts, "document")


class PrefoldRerank(BaseNodePostprocessor):
    """Postprocessor that keeps the `top_n` most relevant nodes, best first, with their new scores."""

    top_n: int | None = Field(default=3, description="Nodes to keep; None for all.")
    instruction: str | None = Field(default=None, description="Description of relevance, for instruction-following rerankers.")

    _model: Model = PrivateAttr()

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | None = None,
        *,
        top_n: int | None = 3,
        instruction: str | None = None,
        **settings: Any,
    ) -> None:
        check(top_n=top_n, instruction=instruction)
        super().__init__(top_n=top_n, instruction=instruction)  # type: ignore[call-arg]  # Fields of this class.
        self._model = loaded(model, settings)

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in LlamaIndex's files."""
        return "PrefoldRerank"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not nodes:
            return []
        ranked = self._model.rerank(asked(query_bundle), contents(nodes), top_n=self.top_n, instruction=self.instruction)
        return scored(nodes, ranked)

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not nodes:
            return []
        ranked = await self._model.arerank(
            asked(query_bundle), contents(nodes), top_n=self.top_n, instruction=self.instruction)
        return scored(nodes, ranked)


def asked(query_bundle: QueryBundle | None) -> str:
    if query_bundle is None:
        raise ValueError("a query is needed to rank nodes")
    return query_bundle.query_str


def contents(nodes: list[NodeWithScore]) -> list[str]:
    return [node.node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]


def scored(nodes: list[NodeWithScore], ranked: list[Ranked]) -> list[NodeWithScore]:
    return [NodeWithScore(node=nodes[index].node, score=score) for index, score in ranked]
