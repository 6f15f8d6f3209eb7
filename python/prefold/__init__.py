"""prefold: embedding and reranking that computes every shared prefix once.

The command `prefold` is the server. `prefold.Model` is its engine in this process:

    import prefold

    model = prefold.Model("sentence-transformers/all-MiniLM-L6-v2")
    vectors = model.embed(["How do I lock a file?", "Use flock."])  # numpy float32 [2, 384]

Adapters are in `prefold.sentence_transformers`, `prefold.langchain` and `prefold.llama_index`.
"""

from ._prefold import version as _version
from .errors import (
    ClosedError,
    ForkError,
    InferenceError,
    InputError,
    LoadError,
    NotCapableError,
    OverloadedError,
    PrefoldError,
    SettingError,
    TokenizationError,
    TooLongError,
)
from .model import Model
from .results import Label, Ranked, Token

__version__ = _version()

__all__ = [
    "ClosedError",
    "ForkError",
    "InferenceError",
    "InputError",
    "Label",
    "LoadError",
    "Model",
    "NotCapableError",
    "OverloadedError",
    "PrefoldError",
    "Ranked",
    "SettingError",
    "Token",
    "TokenizationError",
    "TooLongError",
    "__version__",
]
