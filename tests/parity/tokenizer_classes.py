"""The tokenizer classes of transformers that build themselves and that prefold does not know: `python tests/parity/tokenizer_classes.py`, offline.

A `tokenizer_class` that prefold does not know keeps `tokenizer.json`. That is right only if the class keeps it too: `TokenizersBackend` does, and its
subclasses without an `__init__`, their own or inherited.
"""

import pathlib
import re
import sys

import transformers
from transformers.models.auto import tokenization_auto as auto
from transformers.tokenization_utils_base import PreTrainedTokenizerBase
from transformers.tokenization_utils_tokenizers import TokenizersBackend

TOKENIZERS = pathlib.Path(__file__).parents[2] / "backends/src/checkpoint/tokenizer"
# They have an inherited `__init__` and give the tokens of `tokenizer.json` all the same. AutoTokenizer replaces the last by TokenizersBackend.
KEEPING = {"FNetTokenizer", "PreTrainedTokenizer", "PythonBackend", "PreTrainedTokenizerBase"}
# Names of the library that no `tokenizer_class` has.
NO_CLASS = re.compile("Config$|Model$|Output$|Strategy$|Extractor$|^AutoTokenizer$|^(Basic|Character|Mecab|Wordpiece)Tokenizer$")


def names():
    """All names that a `tokenizer_class` may have."""
    found = {name for name in auto.TOKENIZER_MAPPING_NAMES.values() if name}
    found |= {name for name in dir(transformers) if "Tokenizer" in name}
    for path in pathlib.Path(transformers.__file__).parent.glob("models/*/tokenization_*.py"):
        found |= {name for name in re.findall(r"^class (\w+)\(", path.read_text(), re.MULTILINE) if "Tokenizer" in name}
    return sorted(name for name in found if not NO_CLASS.search(name))


def builds_itself(name):
    found = auto.tokenizer_class_from_name(name)
    if found is None or found is TokenizersBackend:
        return False
    if not isinstance(found, type) or not issubclass(found, TokenizersBackend):
        return True
    inherited = [base for base in found.__mro__ if issubclass(base, PreTrainedTokenizerBase) and base.__name__ != "TokenizersBackend"]
    return any("__init__" in base.__dict__ for base in inherited if base is not PreTrainedTokenizerBase)


def known():
    found = set()
    for file in ("class.rs", "other_classes.rs"):
        found |= set(re.findall(r'"(\w+Tokenizer(?:Fast|Legacy)?)"', (TOKENIZERS / file).read_text()))
    return found


def main():
    followed = known()
    missing = [name for name in names()
               if not {name, name.removesuffix("Fast")} & (followed | KEEPING) and builds_itself(name)]
    print(f"{len(names())} names, {len(followed)} known, missing: {missing or 'none'}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
