"""Drafts whose checkpoint is served as a GGUF file, of the classes that llama.cpp's converter has."""

import dataclasses
import random

import bases
import drafts
import gguf_rules

ATTEMPTS = 50


class Source(drafts.Source):
    def __init__(self, only, classes):
        super().__init__(None)
        self.classes = classes
        found = {name: self.registered(base) for name, base in self.bases.items()}
        self.bases = {name: base for name, base in found.items() if base and (not only or only in (name, base.family))}

    def registered(self, base):
        """The base with a class that the converter has, and without what it leaves out; a decoder's class may be the language model's."""
        if base.family in gguf_rules.UNSUPPORTED or base.name in gguf_rules.MISTAKEN:
            return None
        config = gguf_rules.granted(base.family, base.config)
        given = base.config["architectures"][0]
        for name in (given, given.removesuffix("Model") + "ForCausalLM"):
            if name in self.classes:
                return dataclasses.replace(base, config={**config, "architectures": [name]})
        return None

    def draft(self, seed):
        for attempt in range(ATTEMPTS):
            draft = super().draft(seed if attempt == 0 else f"{seed}.{attempt}")
            base = self.bases[draft["base"]]
            if bases.architecture(base, draft["task"]) in self.classes:
                return gguf_rules.adapted({**draft, "seed": seed}, base.family, random.Random(f"gguf {seed}"))
        raise ValueError(f"{ATTEMPTS} drafts of seed {seed} have no class that the converter has")
