"""What a GGUF file can carry of a draft, and outcomes that are no fault of the server. Needs none of the libraries."""

import re

import verdicts
from verdicts import Outcome

TYPES = ["f32"] * 4 + ["f16", "bf16", "q8_0"]
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
POOLINGS = ["mean", "cls", "lasttoken"]
MODULES = ("Pooling", "Dense", "LayerNorm", "Dropout", "Normalize")
# Folder structures, and modules, that need other files in the GGUF file's folder.
IN_FOLDER, IN_FILE = ("folder", "wrapped", "adapter"), ("Normalize", "Dropout")
PLAIN_DENSE = [["Dense/config.json", "bias", False], ["Dense/config.json", "activation_function", "torch.nn.modules.linear.Identity"]]

# Settings that neither the file nor what lies beside it can have, by families ("" for all): the converter leaves them out in silence.
LOST = {
    "": {"config.json": {"problem_type", "hidden_act", "classifier_activation", "is_decoder", "model_type"}},
    "mistral": {"config.json": {"sliding_window"}, "tokenizer_config.json": {"tokenizer_class"}},
    # Mistral's files are of `llama` too, so a server takes the tokenizer of the folder as it is.
    "llama": {"tokenizer_config.json": {"tokenizer_class"}},
    # DistilBERT's class has a constant epsilon, whatever the config says; the converter writes the config's.
    "distilbert": {"config.json": {"activation", "layer_norm_eps"}},
    "modernbert": {"config.json": {"layer_types", "norm_eps", "layer_norm_eps"}},
    **{family: {"config.json": {"sliding_window", "use_sliding_window", "max_window_layers", "layer_types"}} for family in ("qwen2", "qwen3")},
    "roberta": {"config.json": {"pad_token_id"}},
    "xlm-roberta": {"config.json": {"pad_token_id"}},
    "nomic_bert": {"config.json": {"max_position_embeddings", "head_dim"}},
    "gemma3_text": {"config.json": {"layer_types", "_sliding_window_pattern", "sliding_window_pattern", "query_pre_attn_scalar", "head_dim",
                                    "hidden_activation", "use_bidirectional_attention"}},
}
# Types of RoPE that a file has, or that its reader refuses by name.
ROPE_TYPES = {"": ("default", "linear", "yarn", "longrope"), "llama": ("default", "linear", "yarn", "longrope", "llama3"),
              "mistral": ("default", "linear", "yarn", "longrope", "llama3"),
              "modernbert": ("default",), "eurobert": ("default",), "nomic_bert": ("default",)}
# What the converter takes for granted in a family, from a base's config.
GRANTED = {
    "modernbert": lambda config: {name: config[name] for name in ("norm_eps", "layer_norm_eps") if name in config},
    "gemma3_text": lambda config: {"head_dim": config["head_dim"], "query_pre_attn_scalar": config["head_dim"], "use_bidirectional_attention": True},
}
# Families whose files the server does not support, or that the converter reads only from files that fixtures lack.
UNSUPPORTED = ("gemma2", "lfm2", "ministral3", "t5", "umt5")
# Bases whose mask (gemma3-causal) or tokenizer and positions (camembert) the converter takes for those of another family.
MISTAKEN = ("gemma3-causal-tiny", "camembert-tiny")
# Mask tokens of bases that do not take the space before them, as those of published models do.
MASKS = {"modernbert": "[MASK]", "eurobert": "<|finetune_right_pad_id|>", "jina-v5-nano": "<|finetune_right_pad_id|>"}
# Settings with another name in a GGUF file, or in what the libraries save, by which a refusal names them.
KEYS = {"head_dim": ("attention.key_length", "attention.value_length"), "num_experts": ("expert_count",), "num_local_experts": ("expert_count",),
        "word_embedding_dimension": ("embedding_dimension",),
        **{name: ("added_tokens",) for name in ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens")}}
# Refusals of a setting that name only its effect: the pooling of sentence-transformers' files, a length without room for a reranker's prompt.
EFFECTS = {("structure", "without", "modules.json"): r"`\S+pooling_type` is missing",
           ("config.json", "max_position_embeddings"): r"`template` leaves no room for a document"}
# Refusals that docs/models.md lists, also for other formats.
REFUSED = [
    r"`tokenizer\.ggml\.pre`", r"as converters write BERT's classifiers", r"`\S+rope\.scaling\.type` \"(yarn|longrope)",
    r"`\S+rope\.scaling\.attn_factor`", r"Dense after Normalize", r"`in_features` is \d+, but",
    r"but its input is \d+ wide \(`\S+pooling_type` of the GGUF file says",
    r"`token_types\.weight` has no values",
]


class NotConverted(Exception):
    """The converter refuses the checkpoint, or its tokenizer has no name in llama.cpp."""


def granted(family, config):
    """The config of a base as a file of the family can have it."""
    kept = {name: value for name, value in config.items() if name == "model_type" or not is_lost(family, "config.json", name)}
    return {**kept, **GRANTED.get(family, lambda config: {})(config)}


def is_lost(family, file, name, value=None):
    lost = name in LOST.get("", {}).get(file, ()) or name in LOST.get(family, {}).get(file, ())
    is_rope = name in ("rope_parameters", "rope_scaling")
    return lost or is_rope and (scales_windows(value) or not all(has_rope(family, one) for one in ropes(value)))


def ropes(value):
    """The sets of RoPE parameters in a value, one for each kind of layer."""
    value = value if isinstance(value, dict) else {}
    return [one for one in value.values() if isinstance(one, dict)] or [value]


def kind_of_rope(parameters):
    return parameters.get("rope_type", parameters.get("type", "default"))


def scales_windows(value):
    """True for a scaling in layers with a window, of whose RoPE the converter reads only the base."""
    own = value.get("sliding_attention") if isinstance(value, dict) else None
    return isinstance(own, dict) and kind_of_rope(own) != "default"


def has_rope(family, parameters):
    return kind_of_rope(parameters) in ROPE_TYPES.get(family, ROPE_TYPES[""]) and "partial_rotary_factor" not in parameters


def adapted(draft, family, rng):
    """The draft with the settings of its GGUF file, and without those that nothing in its folder could have."""
    own = rng.random() < 0.6
    settings = [[file, name, rng.choice(POOLINGS) if [file, name] == ["structure", "pooling"] and value not in POOLINGS else value]
                for file, name, value in draft["settings"] if not is_lost(family, file, name, value)
                and not (file == "structure" and (name in IN_FOLDER or value == "tokenizer_config.json")) and not (own and file in TOKENIZER_FILES)]
    files = {file for file, _, _ in settings}
    structure = {name: value for file, name, value in settings if file == "structure"}
    beside = rng.choice([None, None, "files", "tokenizer"])
    kind = rng.choice(TYPES) if structure.get("format") in (None, "shards") else "f32"
    dense = draft["task"] == "embed" and family == "gemma3_text" and rng.random() < 0.5
    texts = of_text(files)
    modules = set(structure.get("modules", [])) - set(IN_FILE)
    if dense:
        settings = [setting for setting in settings if setting[0] not in texts and setting[1] != "modules"]
        settings += [["structure", "modules", ["Dense", "Dense", "Normalize"]], *PLAIN_DENSE]
    elif beside is None and (texts or modules or {"sentence_config", "without"} & set(structure) or draft["task"] == "pair" and "style" in structure):
        beside = "files"
    if files & set(TOKENIZER_FILES):
        beside = "tokenizer"
    settings += [["gguf", "beside", beside]] * bool(beside) + [["gguf", "type", kind]] * (kind != "f32")
    settings += [["gguf", "dense", True]] * (dense and rng.random() < 0.7)
    return {**draft, "gguf": True, "settings": settings}


def is_carried(draft):
    """False for settings of files that are not in the GGUF file's folder, which a smaller draft may have."""
    options = {name: value for file, name, value in draft["settings"] if file == "gguf"}
    names = {file for file, _, _ in draft["settings"]}
    if options.get("dense"):
        return all(setting in draft["settings"] for setting in PLAIN_DENSE)
    modules = next((value for file, name, value in draft["settings"] if [file, name] == ["structure", "modules"]), [])
    return bool(options.get("beside")) or not (of_text(names) or set(modules) - set(IN_FILE)) and not names & set(TOKENIZER_FILES)


def of_text(files):
    """The files of sentence-transformers."""
    return {file for file in files if file.split("/")[0] in MODULES or file.startswith(("config_sentence", "sentence_bert"))}


def explanation(draft, where):
    """The name of the rule that explains a difference, None without one."""
    texts, number = draft["texts"], where["text"]
    own = texts[number:number + 1] + texts[(number + 1) % len(texts):][:1] * (where["ask"]["ask"] == "pair")
    if draft["base"].startswith(("roberta", "xlm-roberta")) and (pads(draft) or any("<pad>" in text for text in own)):
        return "a padding token in a text of RoBERTa: the converter cuts off its position"
    if any(draft["base"].startswith(base) and re.search(rf"\s{re.escape(mask)}", text) for base, mask in MASKS.items() for text in own):
        return "a mask token in a text: the file does not say whether it takes the space before it"
    return None


def pads(draft):
    """True for a post-processor that puts a padding token around texts."""
    found = [value for file, name, value in draft["settings"] if [file, name] == ["tokenizer.json", "post_processor"]]
    return any('"<pad>"' in verdicts.as_text([one.get("single"), one.get("pair")]) for one in found if isinstance(one, dict))


def refusal(draft, message):
    """A refusal counts as a difference unless it names a setting or the documentation has it."""
    where = {"ask": {"ask": "start"}, "text": 0, "want": "answers", "got": message[-2000:]}
    named = draft["settings"] + [["", key, None] for _, name, _ in draft["settings"] for key in KEYS.get(name, ())]
    effects = [pattern for setting in draft["settings"] for of, pattern in EFFECTS.items() if of == tuple(setting[:len(of)])]
    known = any(re.search(pattern, message) for pattern in (*REFUSED, *effects)) or verdicts.is_named([message], named)
    known = known and "panicked" not in message
    return Outcome("refused" if known else "different", "start: " + verdicts.shortened(message), where)


def is_named(draft, warnings):
    """True if a warning says that the converter leaves out the draft's Dense modules, or that the file has another pooling than the modules."""
    has_dense = any(file == "structure" and name == "modules" and "Dense" in value for file, name, value in draft["settings"])
    has_pooling = any(file == "Pooling/config.json" for file, _, _ in draft["settings"])
    said = " ".join(warnings)
    return has_dense and "converter leaves out the Dense modules" in said or has_pooling and "the modules in its folder say" in said
