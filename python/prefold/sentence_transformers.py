"""The interface of sentence-transformers over `prefold.Model`: change the import, keep `encode` and `similarity`.

    from prefold.sentence_transformers import SentenceTransformer

It needs neither sentence-transformers nor PyTorch.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from .errors import InputError
from .model import Model, loaded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Sentences = Union[str, Sequence[str]]
"""A text or texts."""

SentencesOfTask = Union[Sentences, Mapping[str, str], Sequence[Mapping[str, str]]]
"""The same, or their task with each: `{task: text}`."""

NAMES = {
    "query": ("query", "search_query", "retrieval.query"),
    "document": ("document", "passage", "doc", "search_document", "retrieval.passage"),
}
"""Names that models give the prompt and the task of queries and of documents, as `input_type` finds them."""


class SentenceTransformer:
    """Model with the methods of `sentence_transformers.SentenceTransformer`.

    `model_name_or_path` is a hub id, a directory, or a `prefold.Model`. `device`, `revision`, `token`, `cache_folder` and
    `local_files_only` have the same meaning as there; further settings are settings of `prefold.Model`.
    """

    def __init__(
        self,
        model_name_or_path: str | os.PathLike[str] | Model | None = None,
        *,
        device: str | None = None,
        truncate_dim: int | None = None,
        default_prompt_name: str | None = None,
        revision: str | None = None,
        token: str | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
        local_files_only: bool = False,
        **settings: Any,
    ) -> None:
        settings.update(
            device=device,
            default_prompt_name=default_prompt_name,
            revision=revision,
            hf_token=token,
            huggingface_hub_cache=cache_folder,
            offline=local_files_only or None,
        )
        self.model = loaded(model_name_or_path, settings)
        self.truncate_dim = truncate_dim

    def encode(
        self,
        sentences: SentencesOfTask,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        output_value: str = "sentence_embedding",
        precision: str = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        device: str | None = None,
        task: str | None = None,
    ) -> Any:
        """Vectors: float32 `[n, d]`, or `[d]` for a single string; a list of arrays if `convert_to_numpy` is False, a
        tensor if `convert_to_tensor`, which needs PyTorch. `show_progress_bar=None` shows progress if the logger's level is
        INFO or lower.

        Vectors have the length that the model's modules give them (unit length with a Normalize module), and `truncate_dim` truncates
        them; `normalize_embeddings=True` scales all to unit length. `task` is one of `model.info["tasks"]` and selects no prompt; models
        without tasks ignore it. `{task: text}`, or a list of these with the same task, passes both.
        """
        if task is None:
            sentences, task = self._with_task(sentences)
        return self._encode(
            sentences, prompt_name=prompt_name, prompt=prompt, input_type=None, task=task, batch_size=batch_size,
            show_progress_bar=show_progress_bar, output_value=output_value, precision=precision,
            convert_to_numpy=convert_to_numpy, convert_to_tensor=convert_to_tensor,
            normalize_embeddings=normalize_embeddings, truncate_dim=truncate_dim, device=device)

    def encode_query(self, sentences: Sentences, **options: Any) -> Any:
        """`encode` with the model's task and prompt for queries; `options` may name another prompt."""
        return self._encode_as("query", sentences, options)

    def encode_document(self, sentences: Sentences, **options: Any) -> Any:
        """`encode` with the model's task and prompt for documents; `options` may name another prompt."""
        return self._encode_as("document", sentences, options)

    def similarity(self, a: ArrayLike, b: ArrayLike) -> NDArray[np.float32]:
        """Cosines of each vector of `a`, `[n, d]` or `[d]`, with each of `b`, `[m, d]` or `[d]`: `[n, m]`."""
        return unit(a) @ unit(b).T

    def similarity_pairwise(self, a: ArrayLike, b: ArrayLike) -> NDArray[np.float32]:
        """Cosine of each vector of `a`, `[n, d]`, with the vector of `b` at the same index: `[n]`."""
        cosines: NDArray[np.float32] = (unit(a) * unit(b)).sum(axis=1)
        return cosines

    def get_embedding_dimension(self) -> int:
        """Dimension of a vector."""
        return self.truncate_dim or self.model.dimensions

    # The name before sentence-transformers 6.
    get_sentence_embedding_dimension = get_embedding_dimension

    @property
    def max_seq_length(self) -> int:
        """Maximum tokens of a text; longer texts are truncated."""
        return int(self.model.info["max_input_length"])

    @property
    def prompts(self) -> list[str]:
        """Names of the model's prompts."""
        return list(self.model.info["prompts"])

    def _with_task(self, sentences: Any) -> tuple[Any, str | None]:
        """The texts and the task of `{task: text}`, or of a list of these; other texts unchanged."""
        is_list = isinstance(sentences, (list, tuple)) and len(sentences) > 0
        items = sentences if is_list else [sentences]
        if not isinstance(items[0], Mapping):
            return sentences, None
        if not all(isinstance(item, Mapping) and len(item) == 1 and item.keys() == items[0].keys() for item in items):
            problem = "`sentences` has mappings; each must be {task: text}, all with the same task"
            raise InputError(problem, "sentences")
        (task,), known = items[0], self.model.info["tasks"]
        texts = [item[task] for item in items]
        if task not in known or not all(isinstance(text, str) for text in texts):
            problem = f"`sentences` has mappings of {task!r}; each must be {{task: text}}, and the model has these tasks: "
            raise InputError(problem + (", ".join(known) or "none"), "sentences")
        return texts if is_list else texts[0], task

    def _encode_as(self, input_type: str, sentences: Sentences, options: dict[str, Any]) -> Any:
        names, info = NAMES[input_type], self.model.info
        if options.get("prompt_name") is None and options.get("prompt") is None:
            if not {name.lower() for name in info["tasks"] + info["prompts"]}.isdisjoint(names):
                return self._encode(sentences, input_type=input_type, task=None, **options)
            # Do not apply the default prompt.
            options = {**options, "prompt": ""}
        task = next((name for name in names if name in info["tasks"]), None)
        return self._encode(sentences, input_type=None, task=task, **options)

    def _encode(
        self,
        sentences: Any,
        *,
        input_type: str | None,
        task: str | None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        output_value: str = "sentence_embedding",
        precision: str = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        device: str | None = None,
    ) -> Any:
        if output_value != "sentence_embedding":
            raise ValueError(f"output_value={output_value!r} is not supported, only 'sentence_embedding'")
        if precision != "float32":
            raise ValueError(f"precision={precision!r} is not supported, only 'float32'")
        if device not in (None, self.model.info["device"]):
            raise ValueError(f"device={device!r}: the model is on {self.model.info['device']!r}")
        if show_progress_bar is None:
            show_progress_bar = logging.getLogger("prefold").getEffectiveLevel() <= logging.INFO
        if prompt is None and prompt_name in NAMES and prompt_name not in self.prompts:
            # Every model has these two prompts.
            prompt_name, prompt = None, ""
        if not self.model.info["tasks"]:
            task = None
        if task is not None and prompt_name is None and prompt is None:
            # Otherwise the task would select the prompt.
            prompt = self.model.info["default_prompt"] or ""
        vectors = self.model.embed(
            sentences, prompt_name=prompt_name, prompt=prompt, input_type=input_type, task=task, batch=batch_size,
            dimensions=truncate_dim or self.truncate_dim, normalize=normalize_embeddings or None, progress=show_progress_bar)
        shaped = vectors[0] if isinstance(sentences, str) else vectors
        if convert_to_tensor:
            try:
                import torch
            except ImportError as error:
                raise ImportError("`convert_to_tensor` needs PyTorch: pip install torch") from error

            return torch.from_numpy(shaped)
        return shaped if convert_to_numpy or isinstance(sentences, str) else list(shaped)


def unit(vectors: ArrayLike) -> NDArray[np.float32]:
    """The vectors, `[n, d]` or `[d]`, scaled to unit length: `[n, d]`. Zero vectors stay unchanged."""
    import numpy as np

    rows = np.atleast_2d(np.asarray(vectors, np.float32))
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    norms[norms == 0] = 1
    units: NDArray[np.float32] = rows / norms
    return units
