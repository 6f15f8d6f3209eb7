"""Random values of fields of config.json. A field without values here gets values of its default's type in transformers' class."""

import transformers

ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu", "swish", "quick_gelu", "tanh", "mish", "relu2", "no_such"]
EPSILONS = [0.0, 1e-12, 1e-7, 1e-6, 1e-5, 1e-3, 0.1]
BASES = [10, 100.0, 1000.0, 10000, 160000.0, 500000.0, 1e6]
SIZES = [1, 2, 3, 8, 16, 33, 64, 1000, None]

CHOICES = {
    "hidden_size": [16, 24, 32, 48, 64], "dim": [16, 24, 32, 48, 64], "n_embd": [16, 32, 48],
    "num_hidden_layers": [1, 2, 3, 4, 5], "n_layers": [1, 2, 3, 4], "n_layer": [1, 2, 3],
    "num_attention_heads": [1, 2, 4, 8, 16], "n_heads": [1, 2, 4, 8], "n_head": [1, 2, 4, 8],
    "num_key_value_heads": [1, 2, 4, 8, None], "head_dim": [4, 8, 16, 24, 32, 64, 128, None],
    "intermediate_size": [8, 16, 40, 64, 100, 128], "hidden_dim": [8, 16, 40, 64, 100], "embedding_size": [8, 16, 32, 40],
    "hidden_act": ACTIVATIONS, "hidden_activation": ACTIVATIONS, "activation": ACTIVATIONS, "activation_function": ACTIVATIONS,
    "classifier_activation": ACTIVATIONS,
    "layer_norm_eps": EPSILONS, "rms_norm_eps": EPSILONS, "norm_eps": EPSILONS, "layer_norm_epsilon": EPSILONS,
    "rope_theta": BASES, "rope_local_base_freq": BASES, "global_rope_theta": BASES, "local_rope_theta": BASES,
    "max_position_embeddings": [40, 64, 129, 288, 512, 1000], "original_max_position_embeddings": [16, 64, 288, 1000, 4096],
    "type_vocab_size": [0, 1, 2, 3, 5], "pad_token_id": [0, 1, 2, 7, None, -1], "num_labels": [1, 2, 3, 5, 7],
    "sliding_window": SIZES, "local_attention": [1, 2, 3, 8, 15, 16, 64, 1000], "max_window_layers": [0, 1, 2, 3, 28, None],
    "sliding_window_pattern": [1, 2, 3, 6], "_sliding_window_pattern": [1, 2, 3, 6], "global_attn_every_n_layers": [1, 2, 3, 4, 7],
    "query_pre_attn_scalar": [1, 4, 8, 16, 100, 256], "relative_attention_num_buckets": [2, 4, 8, 32, 64],
    "max_relative_positions": [-1, 4, 16, 64, 512], "position_buckets": [-1, 0, 4, 16, 64, 256],
    "pos_att_type": [["p2c", "c2p"], "c2p|p2c", ["c2p"], ["p2c"], [], None, "p2c"],
    "norm_rel_ebd": ["layer_norm", "none", None, "", "layer_norm|x"],
    "classifier_pooling": ["cls", "mean", "late", "bos", "max"], "clf_pooling": ["bos", "mean", "late"],
    "pooling": ["avg", "cls", "last", "weighted_avg", None], "problem_type": [
        "regression", "single_label_classification", "multi_label_classification", None, "ranking"],
    "position_embedding_type": ["absolute", "relative_key", "relative_key_query", "rope", None],
    "model_type": ["bert", "roberta", "llama", "gpt2", "", None],
    "tokenizer_class": ["BertTokenizer", "PreTrainedTokenizerFast", "RobertaTokenizer", "Qwen2Tokenizer", "LlamaTokenizerFast", None],
    "_name_or_path": ["", "some/model", "jinaai/jina-bert-v2-qk-post-norm", "./folder", None],
    "sbert_ce_default_activation_function": [
        "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity", "torch.nn.Tanh", "torch.nn.Softmax", None],
    "sentence_transformers": [{"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.0.1"}, {"version": "5.1.0"},
                              {"activation_fn": "torch.nn.modules.activation.Sigmoid"}, {"activation_fn": "torch.nn.Tanh"}, {}],
    "dtype": ["float32", "bfloat16", "float16", "auto", None], "torch_dtype": ["float32", "bfloat16", "float16", None],
    "truncate_dim": [None, 8, 16, 0, 10000], "quantization_config": [None, {}, {"quant_method": "gptq"}],
    "partial_rotary_factor": [1.0, 0.5, 0.25, 1, None], "pooler_hidden_act": ["gelu", "tanh", "relu"],
    "conv_kernel_size": [0, 1, 3, 5], "attention_head_size": [None, 8, 16, 4],
    "attn_logit_softcapping": [None, 1.0, 30.0, 50.0, 0.5], "final_logit_softcapping": [None, 1.0, 30.0, 0.5, 7.0],
    "pruned_heads": [{}, {"0": [0]}, {"1": [0, 1]}, None], "chunk_size_feed_forward": [0, 1, 2, 3, 7],
}


def rope(rng, base):
    """One set of RoPE parameters, in the spelling of transformers 5."""
    kind = rng.choice(["default", "linear", "dynamic", "yarn", "llama3", "longrope", "proportional"])
    out = {"rope_type": kind, "rope_theta": rng.choice(BASES)}
    if kind != "default":
        out["factor"] = rng.choice([1.0, 1.5, 2.0, 4.0, 8, 32.0])
    if kind == "yarn":
        for name, values in (("beta_fast", [32, 16.0, 2]), ("beta_slow", [1, 2.0, 0.5]), ("attention_factor", [1.0, 0.7, 1.3]),
                             ("mscale", [1.0, 0.707]), ("mscale_all_dim", [1.0, 0.5]), ("truncate", [True, False])):
            if rng.random() < 0.4:
                out[name] = rng.choice(values)
    if kind == "llama3":
        out.update(low_freq_factor=rng.choice([1.0, 2.0]), high_freq_factor=rng.choice([4.0, 8.0]))
    if kind in ("llama3", "yarn", "dynamic", "longrope") and (kind == "llama3" or rng.random() < 0.6):
        out["original_max_position_embeddings"] = rng.choice([16, 32, 64, 128, 512])
    if kind == "longrope":
        width = base.config.get("head_dim") or base.config.get("hidden_size", 32) // base.config.get("num_attention_heads", 4)
        out.update(short_factor=[1.0] * (width // 2), long_factor=[2.0] * (width // 2))
    if rng.random() < 0.1:
        out["partial_rotary_factor"] = rng.choice([1.0, 0.5])
    return out


def rope_parameters(rng, base):
    if rng.random() < 0.3 or base.family in ("modernbert", "gemma3_text"):
        kinds = ["full_attention", "sliding_attention"]
        return {kind: rope(rng, base) for kind in (kinds if rng.random() < 0.9 else kinds[:1])}
    return rope(rng, base)


def rope_scaling(rng, base):
    """The older spelling, beside rope_theta."""
    out = rope(rng, base)
    out.pop("rope_theta")
    if rng.random() < 0.5:
        out["type"] = out.pop("rope_type")
    return rng.choice([None, out, out, out])


def layer_types(rng, base):
    count = base.config.get("num_hidden_layers", 2)
    return [rng.choice(["full_attention", "sliding_attention"]) for _ in range(rng.choice([count] * 6 + [count + 1]))]


def id2label(rng, base):
    count = rng.choice([1, 2, 3, 4, 6])
    if base.task == "tokens":
        return {str(i): rng.choice(["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "X", ""]) + ("" if i % 2 else str(i)) for i in range(count)}
    return {str(i): f"{rng.choice(['label', 'étiquette', 'LABEL_', ''])}{i}" for i in range(count)}


def architectures(rng, base):
    given = base.config["architectures"][0]
    return rng.choice([[given], None, [], [given, "OtherModel"], ["NoSuchModel"], [given.replace("Model", "ForMaskedLM")], ["AutoModel"]])


def vocab_size(rng, base):
    return base.config["vocab_size"] + rng.choice([-40, -1, 1, 5, 64, 1000])


def auto_map(rng, base):
    own = transformers.CONFIG_MAPPING[base.family].__name__
    return rng.choice([{"AutoConfig": f"configuration.{own}"}, {"AutoModel": f"modeling.{base.config['architectures'][0]}"}, {},
                       {"AutoModelForCausalLM": "modeling.Other"}, {"AutoTokenizer": ["tokenization.Other", None]}])


MADE = {"rope_parameters": rope_parameters, "rope_scaling": rope_scaling, "layer_types": layer_types, "id2label": id2label,
        "architectures": architectures, "vocab_size": vocab_size, "auto_map": auto_map}
ANYTHING = [None, True, False, 0, 1, 2, 0.5, "text", [], [1], {}, {"a": 1}]


def own_fields(base):
    """Fields that the family's class has, with their defaults."""
    return transformers.CONFIG_MAPPING[base.family]().to_dict()


def value(rng, base, field):
    """A random value of a field."""
    if field.name in MADE:
        return MADE[field.name](rng, base)
    if field.name in CHOICES:
        return rng.choice(CHOICES[field.name])
    default = own_fields(base).get(field.name)
    if isinstance(default, bool):
        return rng.choice([True, False, True, False, None])
    if isinstance(default, int):
        return rng.choice([0, 1, 2, 3, 8, 64, None])
    if isinstance(default, float):
        return rng.choice([0.0, 0.1, 0.5, 1.0, 2.0, 1])
    return rng.choice([*field.defaults(), *ANYTHING])
