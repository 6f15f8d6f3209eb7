"""Random drafts of checkpoints. A draft is JSON: a base, a task, settings that differ from the base, and texts.

A setting is [file, field, value], the file as docs/models.md names it; `structure` and `vocabulary` stand for what no field describes.
"""

import dataclasses
import json
import random

import bases
import config_values
import fields
import module_values
import texts
import tokenizer_values

CONFIG, TOKENIZER_CONFIG = "config.json", "tokenizer_config.json"
TOKENIZER_FILES = (TOKENIZER_CONFIG, "tokenizer.json", "special_tokens_map.json", "added_tokens.json")
EMBEDDING_FILES = ("config_sentence_transformers.json", "sentence_bert_config.json", "Pooling/config.json", "Dense/config.json",
                   "LayerNorm/config.json", "Dropout/config.json", "Normalize/config.json")
# Fields that nothing in a tiny checkpoint can vary: whole files, and what the structure decides.
UNVARIED = ("other files", "modules.json", "model.safetensors.index.json", "router_config.json", "LogitScore/config.json", "GGUF metadata")
WEIGHTS = {"followed": 12, "refused": 2, "named": 2, "named in some": 2, "no effect": 3}


class Source:
    """Drafts by seed."""

    def __init__(self, only=None):
        self.bases = {name: base for name, base in bases.read().items() if not only or only in (name, base.family)}
        self.fields = [field for field in fields.listed() if field.file not in UNVARIED]

    def draft(self, seed):
        rng = random.Random(f"parity {seed}")
        family = rng.choice(sorted({base.family for base in self.bases.values()}))
        base = self.bases[rng.choice(sorted(name for name, base in self.bases.items() if base.family == family))]
        others = [task for task in bases.HEADS if bases.architecture(base, task)]
        task = rng.choice([base.task] * 3 + others) if rng.random() < 0.5 else base.task
        base = dataclasses.replace(base, config={**base.config, "architectures": [bases.architecture(base, task)]})
        tokenizer, config = base.tokenizer_files({})
        made = json.loads(tokenizer.to_str()), config
        chosen = self.structure(rng, task)
        for field in self.some_fields(rng, base, task, chosen):
            chosen.append(self.setting(rng, base, made, field))
        specials = [entry["content"] for entry in made[0]["added_tokens"]]
        return {"seed": seed, "base": base.name, "task": task, "settings": without_repetition(chosen),
                "texts": texts.some(rng, specials, rng.choice([2, 4, 6]))}

    def structure(self, rng, task):
        found = []
        if task == "prompted":
            return [["structure", name, rng.choice(module_values.STRUCTURE[name])] for name in ("resaved", "format", "dtype") if rng.random() < 0.1]
        for file, choices in (("structure", module_values.STRUCTURE), ("vocabulary", module_values.VOCABULARY)):
            for name, values in choices.items():
                often = {"modules": 0.4, "pooling": 0.4, "style": 0.4, "adapter": 0.15}.get(name, 0.08)
                if rng.random() < often and (
                        task == "embed" or name in ("resaved", "format", "dtype", "vocab_txt") or file == "vocabulary" or (task, name) == ("pair", "style")):
                    found.append([file, name, rng.choice(values)])
        return found

    def some_fields(self, rng, base, task, chosen):
        """Fields that the base, the task and the structure make readable; some others of config.json."""
        own = set(config_values.own_fields(base)) | set(base.config)
        modules = next((value for _, name, value in chosen if name == "modules"), [])
        has_adapter = any(name == "adapter" for _, name, _ in chosen)

        def weight(field):
            folder = field.file.removesuffix("/config.json")
            if field.file == "adapter_config.json":
                return 6 if has_adapter else 0
            if field.file == CONFIG:
                return 4 if field.name in own or field.name.startswith("rope_") else 0.2
            if field.file in EMBEDDING_FILES and task != "embed":
                has_list = any(name == "style" for _, name, _ in chosen)
                return 4 if field.file == EMBEDDING_FILES[0] and task == "pair" and has_list else 0
            if "/" in field.file and folder != "Pooling" and folder not in modules:
                return 0
            return 6 if field.file == "tokenizer.json" else 4

        weights = [weight(field) * WEIGHTS[field.mark] for field in self.fields]
        return rng.choices(self.fields, weights, k=rng.choice([0, 1, 1, 2, 2, 3, 4, 6]))

    def setting(self, rng, base, made, field):
        if field.file == CONFIG:
            return [CONFIG, field.name, config_values.value(rng, base, field)]
        if field.file in TOKENIZER_FILES:
            return [field.file, tokenizer_values.names(field, rng), tokenizer_values.value(rng, made, field)]
        return [field.file, field.name, module_values.value(rng, field)]


def without_repetition(settings):
    """The last setting of each field."""
    return list({(file, name): [file, name, value] for file, name, value in settings}.values())
