"""Random values of fields of sentence-transformers' files and of an adapter, and the structure of a checkpoint, which no field describes."""

POOLINGS = ["mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
ACTIVATIONS = ["torch.nn.modules.activation.Tanh", "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.GELU",
               "torch.nn.modules.activation.ReLU", "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.activation.SiLU"]
PROMPTS = [{"query": "query: ", "document": "passage: "}, {"query": "Instruct: find\nQuery:", "document": ""}, {"query": ""},
           {"passage": "passage: ", "query": "q "}, {"corpus": "corpus: ", "other": "the "}, {"document": " leading", "x": "trailing "}, {}]
LENGTHS = [1, 3, 8, 16, 40, 100, None]

CHOICES = {
    ("config_sentence_transformers.json", "prompts"): PROMPTS,
    ("config_sentence_transformers.json", "default_prompt_name"): ["query", "document", "passage", "other", None],
    ("config_sentence_transformers.json", "truncate_dim"): [1, 4, 8, 15, 1000, None],
    ("config_sentence_transformers.json", "similarity_fn_name"): ["cosine", "dot", "euclidean", None],
    ("config_sentence_transformers.json", "model_type"): ["SentenceTransformer", "CrossEncoder", "SparseEncoder", None],
    ("config_sentence_transformers.json", "activation_fn"): [
        "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Tanh", "my.Own", None],
    ("config_sentence_transformers.json", "max_active_dims"): [4, 256, None],
    ("config_sentence_transformers.json", "__version__"): [{"sentence_transformers": "2.2.2"}, {"sentence_transformers": "9.0.0"}],
    ("sentence_bert_config.json", "max_seq_length"): LENGTHS, ("sentence_bert_config.json", "query_length"): LENGTHS,
    ("sentence_bert_config.json", "document_length"): LENGTHS,
    ("sentence_bert_config.json", "processing_kwargs"): [
        {}, {"text": {"max_length": 8}}, {"text": {"max_length": 12, "truncation": True}}, {"common": {"max_length": 9}},
        {"text": {"add_special_tokens": False}}, {"text": {"padding": "max_length", "max_length": 24}}, {"text": {"truncation": False}},
        {"common": {"max_length": 30}, "text": {"max_length": 7}}],
    ("sentence_bert_config.json", "tokenizer_args"): [{}, {"model_max_length": 11}, {"do_lower_case": False}, {"use_fast": False}],
    ("sentence_bert_config.json", "processor_kwargs"): [{}, {"model_max_length": 11}, {"do_lower_case": True}, {"padding_side": "left"}],
    ("sentence_bert_config.json", "config_args"): [{}, {"num_hidden_layers": 1}, {"trust_remote_code": True}],
    ("sentence_bert_config.json", "config_kwargs"): [{}, {"num_hidden_layers": 1}],
    ("sentence_bert_config.json", "model_args"): [{}, {"dtype": "float32"}, {"trust_remote_code": True}],
    ("sentence_bert_config.json", "model_kwargs"): [{}, {"attn_implementation": "eager"}],
    ("sentence_bert_config.json", "query_expansion"): [None, {"length": 16}, {"strategy": "pad_to_max"}],
    ("sentence_bert_config.json", "transformer_task"): ["feature-extraction", "feature-extraction", "fill-mask"],
    ("sentence_bert_config.json", "modality_config"): [
        {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}, None,
        {"text": {"method": "forward", "method_output_name": "pooler_output"}}],
    ("sentence_bert_config.json", "module_output_name"): ["token_embeddings", "sentence_embedding", None],
    ("Pooling/config.json", "pooling_mode"): [*POOLINGS, ["mean", "cls"], ["lasttoken", "max", "mean"], ["weightedmean"], "nothing"],
    ("Pooling/config.json", "embedding_dimension"): [8, 64, 32],
    ("Pooling/config.json", "word_embedding_dimension"): [8, 64, 32],
    ("Dense/config.json", "in_features"): [None, 16], ("Dense/config.json", "out_features"): [8, 16, 40, 64, 32],
    ("Dense/config.json", "activation_function"): ACTIVATIONS,
    ("Dense/config.json", "module_input_name"): ["sentence_embedding", "token_embeddings"],
    ("Dense/config.json", "module_output_name"): ["sentence_embedding", None, "scores"],
    ("LayerNorm/config.json", "dimension"): [8, 64], ("Dropout/config.json", "dropout"): [0.0, 0.1, 0.5, 1.0, 0.9],
    ("Normalize/config.json", "module_input_name"): ["sentence_embedding", "token_embeddings"],
    ("Normalize/config.json", "module_output_name"): ["sentence_embedding", None, "other"],
    ("adapter_config.json", "r"): [1, 2, 4, 8, 16], ("adapter_config.json", "lora_alpha"): [1, 4, 16, 32.0, 7],
    ("adapter_config.json", "peft_type"): ["LORA", "LORA", "LORA", "IA3"],
    ("adapter_config.json", "revision"): [None, "main"], ("adapter_config.json", "base_model_name_or_path"): [None, "some/model", ""],
    ("adapter_config.json", "rank_pattern"): [{}, {".*0.*": 2}, {"query": 3}, {"q_proj": 5}],
    ("adapter_config.json", "alpha_pattern"): [{}, {".*0.*": 2}, {"query": 3}, {"q_proj": 5}],
    ("adapter_config.json", "target_modules"): ["all-linear", ["query", "q_proj", "q_lin", "Wqkv"], [
        "dense", "o_proj", "out_lin", "Wo", "down_proj"], ".*(query|q_proj|value|v_proj|Wi).*", ["word_embeddings", "embed_tokens"]],
    ("adapter_config.json", "exclude_modules"): [None, ["dense", "o_proj"], ".*1.*"],
    ("adapter_config.json", "layers_to_transform"): [None, 0, [1], [0, 1]], ("adapter_config.json", "layers_pattern"): [None, "layer", "layers"],
    ("adapter_config.json", "modules_to_save"): [None, ["pooler"], ["norm", "LayerNorm"]],
    ("adapter_config.json", "bias"): ["none", "all", "lora_only"], ("adapter_config.json", "lora_bias"): [False, True],
    ("adapter_config.json", "init_lora_weights"): [True, "gaussian", False, "olora", "pissa"],
    ("modules.json", "type"): [], ("modules.json", "path"): [],
}

# Not fields of a file: how the checkpoint is stored, its modules, the vocabulary.
STRUCTURE = {
    "style": ["new", "old"], "pooling": POOLINGS, "folder": ["0_Transformer"], "resaved": [True],
    "modules": [["Dense"], ["Normalize"], ["Dense", "Normalize"], ["LayerNorm"], ["Dropout", "Dense"], ["Dense", "Dense", "LayerNorm"],
                ["Normalize", "Dense"], ["LayerNorm", "Normalize"], ["Dropout"], ["Dense", "Dropout", "Normalize"]],
    "format": ["pytorch_model.bin", "shards", "bin shards"], "dtype": ["bfloat16", "float16"],
    "wrapped": ["router of Dense", "router of models", "StaticEmbedding", "StaticEmbedding, Normalize"], "adapter": [True], "vocab_txt": [True],
    "sentence_config": ["sentence_roberta_config.json", "sentence_xlm-roberta_config.json"],
    "without": ["tokenizer_config.json", "config_sentence_transformers.json", "sentence_bert_config.json", "modules.json"],
}
VOCABULARY = {"base_vocab": [300, 350, 500, 700, 1000], "drop_every": [2, 3, 5], "lowercase": [True, False], "nfc": [True, False]}


SWITCHES = ("include_prompt", "bias", "use_residual", "do_lower_case", "use_rslora", "fan_in_fan_out", "inference_mode", "unpad_inputs")


def value(rng, field):
    """A random value of a field, one of any type if the list has a field that is not named here."""
    choices = CHOICES.get((field.file, field.name)) or ([True, False, True, False, None] if field.name in SWITCHES or "pooling_mode_" in field.name else None)
    return rng.choice(choices or [*field.defaults(), True, False, None, 1, "text", []])
