"""The checkpoints that drafts start from: every fixture whose class transformers has, so a family with a fixture is tested."""

import copy
import re
import sys
from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
sys.path += [str(FIXTURES), str(FIXTURES / "encoders")]

import encoder_files  # noqa: E402
import reference_files  # noqa: E402
import transformers  # noqa: E402
from make_encoders import init_tensor  # noqa: E402, F401
from published import TENSORS, to_native  # noqa: E402

# Families that differ from the fixture of another one only in their names.
COUSINS = {"roberta-tiny": ("camembert", "Camembert")}
HEADS = {"embed": "Model", "pair": "ForSequenceClassification", "classify": "ForSequenceClassification",
         "tokens": "ForTokenClassification"}
KINDS = {"embedding": "embed", "tokencls": "tokens", "reranker": "prompted"}


@dataclass(frozen=True)
class Base:
    name: str
    task: str
    config: dict
    tokenizer: dict
    is_decoder: bool
    pooling: str

    @property
    def family(self):
        return self.config["model_type"]

    def tokenizer_files(self, changes):
        """(Tokenizer, content of tokenizer_config.json) of the base, whose tokenizer's spec has these `changes`."""
        spec = {**copy.deepcopy(self.tokenizer), **changes}
        if changes:
            spec.pop("single_tokens", None)
        files = reference_files if self.is_decoder else encoder_files
        tokenizer = files.build_tokenizer(spec)
        return tokenizer, files.tokenizer_config(tokenizer, spec)


def resolved(config):
    """The config in the terms of transformers' own class, without its class in other words; None if transformers has no such class."""
    native = to_native(config)
    kind = native["model_type"]
    if kind not in transformers.CONFIG_MAPPING or not hasattr(transformers, native["architectures"][0]):
        return None
    own = transformers.CONFIG_MAPPING[kind].__name__
    code = native.pop("auto_map", {})
    if code and code.get("AutoConfig", own).split(".")[-1] != own:
        return None
    if native == config and TENSORS.get(native["architectures"][0]):
        return None
    if kind == "gte":  # the published code's scaling, which transformers has not
        native["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}
    # Weights are stored as a setting says.
    for name in ("torch_dtype", "dtype"):
        native.pop(name, None)
    return native


def pooling_of(spec):
    return spec.get("st", spec.get("default", {})).get("pooling", "mean")


def read():
    """All bases, by name."""
    found = {}
    for path, is_decoder in ((FIXTURES / "encoders" / "spec.json", False), (FIXTURES / "spec.json", True)):
        file = reference_files.read_json(path)
        for spec in file["models"]:
            config = resolved(spec["config"])
            if config is None:
                continue
            tokenizer = spec["tokenizer"]
            tokenizer = file["tokenizers"][tokenizer] if isinstance(tokenizer, str) else tokenizer
            labels = len(config.get("id2label", "x"))
            task = KINDS.get(spec["kind"]) or ("pair" if labels == 1 else "classify")
            base = Base(spec["name"], task, config, tokenizer, is_decoder, pooling_of(spec))
            found[base.name] = base
            if base.name in COUSINS:
                kind, prefix = COUSINS[base.name]
                name = base.name.replace(base.family, kind)
                architectures = [prefix + re.sub("^Roberta", "", name) for name in config["architectures"]]
                cousin = {**config, "model_type": kind, "architectures": architectures}
                found[name] = Base(name, task, cousin, tokenizer, is_decoder, base.pooling)
    return found


def architecture(base, task):
    """Class for a task, in the base's family; None if transformers has none."""
    given = base.config["architectures"][0]
    if task == base.task:
        return given
    prefix = re.sub(r"(Model|For[A-Z]\w+)$", "", given)
    name = prefix + HEADS[task]
    return name if hasattr(transformers, name) else None
