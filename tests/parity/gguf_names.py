"""What llama.cpp's converter takes from published models and a fixture cannot have: the name of a pre-tokenizer, a config's spelling."""

import json

from bases import reference_files

BYTE_LEVEL, GPT2 = {"type": "ByteLevel", "use_regex": False}, {"type": "ByteLevel", "use_regex": True}
NOMIC_LENGTH = 2048
DIGITS = {"type": "Digits", "individual_digits": True}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


# By normaliser, pre-tokenizer, `ignore_merges` and whether RoBERTa's post-processor separates pairs. The published tokenizers of these names.
NAMES = [
    ("NFC", [split(reference_files.QWEN_SPLIT), BYTE_LEVEL], False, False, "qwen2"),
    (None, [split(reference_files.LLAMA3_SPLIT), BYTE_LEVEL], True, False, "llama-bpe"),
    (None, [DIGITS, GPT2], False, False, "smollm"),
    ("NFC", [GPT2], False, False, "modern-bert"),
    (None, [GPT2], False, True, "roberta-bpe"),
    (None, [GPT2], False, False, "gpt-2"),
]


def steps(step, inner):
    return [] if step is None else step[inner] if step["type"] == "Sequence" else [step]


def of_tokenizer(tokenizer):
    """llama.cpp's name of a pre-tokenizer, by the content of tokenizer.json."""
    model, pre = tokenizer["model"], steps(tokenizer["pre_tokenizer"], "pretokenizers")
    normalizers = [step["type"] for step in steps(tokenizer["normalizer"], "normalizers")]
    if model["type"] == "WordPiece" and normalizers == ["BertNormalizer"] and [step["type"] for step in pre] == ["BertPreTokenizer"]:
        return "bert-bge"
    if any(step.get("add_prefix_space") for step in pre):
        raise ValueError("no name of a pre-tokenizer: add_prefix_space")
    pre = [{name: value for name, value in step.items() if name not in ("add_prefix_space", "trim_offsets")} for step in pre]
    separates = "RobertaProcessing" in [step["type"] for step in steps(tokenizer["post_processor"], "processors")]
    found = "+".join(normalizers) or None, pre, bool(model.get("ignore_merges")), separates
    for *known, name in NAMES:
        if list(found) == known:
            return name
    raise ValueError(f"no name of a pre-tokenizer: {model['type']}, {found[0]}, {[step['type'] for step in pre]}")


def align(folder, given):
    """Makes tokenizer_config.json agree with the normaliser of tokenizer.json, which fixtures with another vocabulary contradict, and with the
    length that the converter gives Nomic's models; not in the fields that are `given`."""
    path, other = folder / "tokenizer_config.json", folder / "tokenizer.json"
    if not path.exists() or not other.exists():
        return
    config, tokenizer, model = (json.loads(file.read_text(encoding="utf-8")) for file in (path, other, folder / "config.json"))
    normalizer, own = tokenizer["normalizer"] or {}, {}
    if normalizer.get("type") == "BertNormalizer":
        own = {"do_lower_case": normalizer["lowercase"], "strip_accents": normalizer["strip_accents"]}
    if model.get("model_type") == "nomic_bert":
        own["model_max_length"] = NOMIC_LENGTH
    own = {name: value for name, value in own.items() if name not in given}
    path.write_text(json.dumps({**config, **own}, ensure_ascii=False), encoding="utf-8")


def published(config, folder):
    """The config as the converter knows it from published models, whose own code spells it in another way than transformers."""
    given = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config.get("model_type") == "eurobert":  # published files spell it `clf_pooling`
        return {name: value for name, value in config.items() if name != "classifier_pooling"}
    if config.get("model_type") != "nomic_bert":
        return config
    spellings = {"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads", "n_inner": "intermediate_size",
                 "layer_norm_epsilon": "layer_norm_eps"}
    of_code = {"n_positions": 8192, "max_trained_positions": NOMIC_LENGTH, "activation_function": "swiglu", "causal": False, "qkv_proj_bias": False,
               "mlp_fc1_bias": False, "mlp_fc2_bias": False, "prenorm": False, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
               "rotary_emb_scale_base": None, "rotary_emb_base": given["rope_parameters"]["rope_theta"]}
    kept = {name: config[name] for name in ("architectures", "model_type", "vocab_size", "type_vocab_size", "pad_token_id") if name in config}
    return {**kept, **{name: config[own] for name, own in spellings.items()}, **of_code}
