"""Differences that are no fault of the server, each with its reason. A rule sees the minimised draft's settings, and where it differs."""

from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Rule:
    name: str
    reason: str
    applies: Callable


CLASSES = {"embed": "SentenceTransformer", "pair": "CrossEncoder"}
PROMPTS = "config_sentence_transformers.json"


def lacks_document_prompt(draft, values, where):
    """True for the prompts of other names that a server takes for `document`."""
    prompts = values.get((PROMPTS, "prompts")) or {}
    return where["ask"].get("input_type") == "document" and "document" not in prompts and bool({"passage", "corpus"} & set(prompts))


def is_of_other_class(draft, values, where):
    return (PROMPTS, "model_type") in values and values[PROMPTS, "model_type"] != CLASSES.get(draft["task"])


def is_set(*wanted):
    return lambda draft, values, where: any(values.get(field) for field in wanted)


RULES = [
    Rule("1_Pooling without modules.json", "a server takes 1_Pooling, as text-embeddings-inference does; sentence-transformers takes the mean",
         lambda draft, values, where: values.get(("structure", "without")) == "modules.json" and where["ask"]["ask"] == "embed"),
    Rule("prompts passage and corpus", "a server takes them for documents, as sentence-transformers documents; its code looks only for `document`",
         lacks_document_prompt),
    Rule("the files of a cross-encoder without modules.json", "sentence-transformers reads them only beside a list of modules",
         lambda draft, values, where: draft["task"] == "pair" and ("structure", "style") not in values
         and any(file == PROMPTS for file, _ in values)),
    Rule("add_bos_token of Llama's class", "a server follows it as transformers 4 does, with which such checkpoints were trained (docs/models.md)",
         lambda draft, values, where: str(values.get(("tokenizer_config.json", "tokenizer_class"))).startswith("Llama")
         or any(name in ("add_bos_token", "add_eos_token") for _, name in values)),
    Rule("an unknown token that is not the model's", "grouping by words asks for the tokenizer's `unk_token`; a server asks the model in tokenizer.json, "
         "which may have none or another",
         lambda draft, values, where: where["ask"].get("strategy") in ("first", "average", "max") and (
             any("unk" in text.lower() for text in draft["texts"]) or ("tokenizer_config.json", "unk_token") in values
             or "unk_id" in (values.get(("tokenizer.json", "model")) or {}))),
    Rule("model_type of another class", "sentence-transformers replaces the modules of a file saved by another class", is_of_other_class),
    Rule("a special token that is null", "BERT's class then puts ids 2 and 3 around texts, whatever they are",
         lambda draft, values, where: any(name in ("cls_token", "sep_token") and not value for (_, name), value in values.items())),
    Rule("use_bidirectional_attention of a decoder", "a server leaves the mask out in every decoder whose file says so, as the code of published "
         "checkpoints does, and warns; transformers' own classes other than Gemma's ignore the field",
         is_set(("config.json", "use_bidirectional_attention"))),
]


def explanation(draft, where):
    """The name of the rule that explains a difference, None without one."""
    values = {(file, name): value for file, name, value in draft["settings"]}
    return next((rule.name for rule in RULES if rule.applies(draft, values, where)), None)
