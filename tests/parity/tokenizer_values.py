"""Random values of fields of a tokenizer's files. `made` is what the base's own files have: (tokenizer.json, tokenizer_config.json)."""

import copy

# The classes whose vocabulary is of a kind, most of which a file of that kind names.
OF_MODEL = {"WordPiece": ["BertTokenizer", "BertTokenizerFast", "DistilBertTokenizerFast", "ElectraTokenizer", "MPNetTokenizer"],
            "Unigram": ["XLMRobertaTokenizer", "XLMRobertaTokenizerFast", "CamembertTokenizer", "DebertaV2TokenizerFast"],
            "BPE": ["RobertaTokenizer", "BartTokenizer", "Qwen2Tokenizer", "Qwen2TokenizerFast", "Qwen3_5Tokenizer", "LlamaTokenizerFast",
                    "GemmaTokenizer", "GPT2Tokenizer"]}
CLASSES = ["BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizerFast", "MPNetTokenizer", "RobertaTokenizer",
           "RobertaTokenizerFast", "XLMRobertaTokenizer", "XLMRobertaTokenizerFast", "CamembertTokenizer", "DebertaV2TokenizerFast",
           "Qwen2Tokenizer", "Qwen2TokenizerFast", "LlamaTokenizer", "LlamaTokenizerFast", "GemmaTokenizer", "GPT2Tokenizer",
           "PreTrainedTokenizerFast", "TokenizersBackend", "NoSuchTokenizer", None]
NAMES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
NEW = ["<new>", "[NEW]", "the", "é", " spaced ", "<|x|>", "Query:", "▁", "##ing", "日本"]
INPUTS = ["input_ids", "token_type_ids", "attention_mask"]

CHOICES = {
    "model_max_length": [1, 8, 16, 40, 64, 512, 100000, 1000000000000000019884624838656, None],
    "max_len": [8, 16, 64, 512, None], "truncation_side": ["left", "right"],
    "model_input_names": [INPUTS, INPUTS[::2], INPUTS[:1], INPUTS[::-1], []],
    "padding_side": ["left", "right"], "truncation_strategy": ["longest_first", "only_first"], "stride": [0, 1, 4],
    "strip_accents": [True, False, None], "max_length": [4, 16, 64, None], "pad_token_type_id": [0, 1], "pad_to_multiple_of": [None, 8],
    "sp_model_kwargs": [{}, {"enable_sampling": True}], "cls_token_id": [0, 5], "never_split": [None, [], ["the"]],
}


def flags(rng):
    return {name: rng.random() < 0.4 for name in ("lstrip", "normalized", "rstrip", "single_word", "special")}


def added_tokens_decoder(rng, made):
    """The base's entries with other flags, or with further tokens."""
    own = copy.deepcopy(made[1].get("added_tokens_decoder", {}))
    last = max([token for token in made[0]["model"]["vocab"].values()] if isinstance(made[0]["model"]["vocab"], dict)
               else [len(made[0]["model"]["vocab"]) - 1])
    last = max([last, *map(int, own)])
    for key in list(own):
        if rng.random() < 0.3:
            own[key] = {**own[key], **flags(rng)}
    for step in range(rng.choice([0, 1, 1, 2])):
        own[str(last + 1 + step)] = {"content": rng.choice(NEW) + str(step or ""), **flags(rng)}
    if rng.random() < 0.15:
        own.popitem()
    return own


def token(rng, made):
    known = [entry["content"] for entry in made[0]["added_tokens"]]
    text = rng.choice([*known, *NEW[:3]]) if known else rng.choice(NEW[:3])
    return rng.choice([text, text, {"content": text, "__type": "AddedToken", **flags(rng)}, None])


def extra(rng, made):
    names = [rng.choice(NEW) for _ in range(rng.choice([0, 1, 2]))]
    return rng.choice([names, names, [{"content": name, "__type": "AddedToken", **flags(rng)} for name in names],
                       {f"{i}_extra_token": name for i, name in enumerate(names)}])


NORMALIZERS = [
    {"type": "Lowercase"}, {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "StripAccents"},
    {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}, {"type": "Prepend", "prepend": "▁"}, {"type": "Nmt"},
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": False, "strip_accents": True, "lowercase": False}]
PRE_TOKENIZERS = [
    {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}, {"type": "Punctuation", "behavior": "Isolated"},
    {"type": "Punctuation", "behavior": "MergedWithPrevious"}, {"type": "Digits", "individual_digits": True}, {"type": "UnicodeScripts"},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": False},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithNext", "invert": False},
    {"type": "Split", "pattern": {"Regex": "\\d"}, "behavior": "Contiguous", "invert": True}]


def steps(rng, choices, inner):
    chosen = [copy.deepcopy(rng.choice(choices)) for _ in range(rng.choice([1, 1, 2, 3]))]
    return chosen[0] if len(chosen) == 1 else {"type": "Sequence", inner: chosen}


def truncation(rng, made):
    return rng.choice([None, {"direction": rng.choice(["Left", "Right"]), "max_length": rng.choice([4, 16, 64]),
                              "strategy": rng.choice(["LongestFirst", "OnlyFirst"]), "stride": 0}])


def padding(rng, made):
    return rng.choice([None, {"strategy": rng.choice(["BatchLongest", {"Fixed": 32}]), "direction": rng.choice(["Right", "Left"]),
                              "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}])


def post_processor(rng, made):
    tokens = [(entry["content"], entry["id"]) for entry in made[0]["added_tokens"]][:4]
    if not tokens:
        return None
    piece = lambda kind: {"SpecialToken": {"id": rng.choice(tokens)[0], "type_id": kind}}  # noqa: E731
    text = lambda name, kind: {"Sequence": {"id": name, "type_id": kind}}  # noqa: E731
    template = {"type": "TemplateProcessing", "single": [piece(0), text("A", 0), piece(0)],
                "pair": [piece(0), text("A", 0), piece(0), text("B", 1), piece(1)],
                "special_tokens": {name: {"id": name, "ids": [id], "tokens": [name]} for name, id in tokens}}
    if rng.random() < 0.3:
        template["single"] = template["single"][1:]
    return rng.choice([None, template, template, made[0]["post_processor"]])


def added_tokens(rng, made):
    own = copy.deepcopy(made[0]["added_tokens"])
    for entry in own:
        if rng.random() < 0.3:
            entry.update(flags(rng))
    return own


def model(rng, made):
    """A field of the model; the others stay as they are."""
    changes = {"WordPiece": {"max_input_chars_per_word": [3, 10, 100], "continuing_subword_prefix": ["##", "@@"]},
               "BPE": {"fuse_unk": [True, False], "byte_fallback": [True, False], "ignore_merges": [True, False],
                       "end_of_word_suffix": [None, "</w>"], "unk_token": [None, made[0]["added_tokens"][0]["content"]]},
               "Unigram": {"byte_fallback": [True, False], "unk_id": [0, 3, None]}}[made[0]["model"]["type"]]
    name = rng.choice(sorted(changes))
    return {name: rng.choice(changes[name])}


def tokenizer_class(rng, made):
    return rng.choice(CLASSES if rng.random() < 0.2 else [*OF_MODEL[made[0]["model"]["type"]], "PreTrainedTokenizerFast", None])


MADE = {
    "tokenizer_class": tokenizer_class,
    "added_tokens_decoder": added_tokens_decoder, "extra_special_tokens": extra, "additional_special_tokens": extra,
    "normalizer": lambda rng, made: rng.choice([None, steps(rng, NORMALIZERS, "normalizers")]),
    "pre_tokenizer": lambda rng, made: rng.choice([None, steps(rng, PRE_TOKENIZERS, "pretokenizers")]),
    "truncation": truncation, "padding": padding, "post_processor": post_processor, "added_tokens": added_tokens, "model": model,
    "decoder": lambda rng, made: rng.choice([None, {"type": "ByteLevel"}, {"type": "WordPiece", "prefix": "##", "cleanup": True}]),
    "version": lambda rng, made: "1.0", "*": lambda rng, made: rng.choice([4, 40, 900]),
}


def names(field, rng):
    """A field's name, where the list has a pattern."""
    if field.name == "*_token":
        return rng.choice(NAMES)
    return rng.choice(NEW) if field.name == "*" else field.name


def value(rng, made, field):
    if field.name == "*_token":
        return token(rng, made)
    if field.name in MADE:
        return MADE[field.name](rng, made)
    return rng.choice(CHOICES.get(field.name, [True, False, True, False, None]))
