"""Folders with large settings: huge numbers, lists of labels, modules and prompts, and JSON of many tiny values."""

from folders import folder

MODELS = ("bert-mean-tiny", "qwen3-tiny", "modernbert-tiny", "deberta-v2-tiny", "model2vec-tiny", "nomic-moe-tiny", "gte-base-tiny",
    "embeddinggemma-tiny",
          "jina-v3-tiny", "router-encoders-tiny")
CLASSIFIERS = ("bert-nli-tiny", "bert-ner-tiny", "qwen3-seqcls-tiny", "bert-reranker-tiny")
NUMBERS = (0, -1, 1, 2**16, 2**31 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 10**25, 1e300, -1e-300, 0.5)
# JSON files that a folder may have, including ones that the fixture lacks.
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "modules.json", "config_sentence_transformers.json",
    "sentence_bert_config.json",
         "1_Pooling/config.json", "model.safetensors.index.json", "special_tokens_map.json", "router_config.json", "vocab.json")


@folder(*MODELS, *CLASSIFIERS)
def numbers_without_measure(draft):
    """A few fields of any JSON file, including fields within lists."""
    file = draft.chance.choice([path for path in sorted(draft.path.rglob("*config*.json"))])
    name = str(file.relative_to(draft.path))
    value = draft.json(name)
    places = [(holder, key) for holder, key, item in walk(value) if isinstance(item, int | float) and not isinstance(item, bool)]
    for holder, key in draft.chance.sample(places, min(len(places), draft.choose(1, 1, 2, 4))):
        holder[key] = draft.choose(*NUMBERS)
        draft.words.append(f"{name} {key}")
    draft.write(name, value)


def walk(value):
    """(list or object, key, item) of all items."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    for key, item in items:
        yield value, key, item
        yield from walk(item)


@folder(*MODELS, *CLASSIFIERS)
def lists_in_the_place_of_numbers(draft):
    """A few fields become lists or objects of many values."""
    value = draft.json("config.json") if (draft.path / "config.json").exists() else {}
    many = draft.choose([0] * draft.count(2), ["full_attention"] * draft.count(17),
        {f"{number:x}": 1 for number in range(draft.count(10))}, [[1.0]] * draft.count(6))
    for key in draft.chance.sample(sorted(value), min(len(value), 1)):
        value[key] = many
        draft.words.append(key)
    draft.write("config.json", {**value, draft.choose("rope_scaling", "layer_types", "rope_parameters", "task_specific_params",
        "quantization_config"): many})


@folder(*CLASSIFIERS)
def labels(draft):
    """Labels: many, long, equal, and numbers out of range."""
    length = draft.choose(1, 60, 256, 5000)
    label = draft.choose(lambda number: f"{number:x}".rjust(length, "a"), lambda number: "a" * length, lambda number: "")
    count = draft.choose(draft.count(length + 15), 65_536, 65_537)
    draft.edit("config.json", id2label={str(number): label(number) for number in range(count)}, num_labels=draft.choose(count, 2**40),
               label2id={label(number): number for number in range(draft.choose(0, count))})


@folder(*MODELS, *CLASSIFIERS)
def tiny_values(draft):
    """A JSON file with as many empty values as fit, in an ignored field or in one that is read."""
    file = draft.choose(*FILES)
    one = draft.choose("[]", "{}", '{"a":{}}', "0", '""', "null", "[[]]", '{"":""}', "1e9")
    many = "[" + ",".join([one] * draft.count(len(one) + 1)) + "]"
    if draft.choose(True, False):
        many = "{" + ",".join(f'"{number:x}":{one}' for number in range(draft.count(len(one) + 9))) + "}"
    if not (draft.path / file).exists() or draft.choose(True, False):
        draft.write(file, many)
        return
    whole = (draft.path / file).read_text().rstrip()
    draft.write(file, whole[:-1] + (
        "," if whole.startswith("[") else f',"{draft.choose("unknown", "vocab", "prompts", "id2label", "added_tokens_decoder", "weight_map")}":')
                + many + whole[-1])


@folder(*MODELS)
def nested_values(draft):
    file, depth = draft.choose(*FILES), draft.choose(100, 127, 129, draft.count(2))
    begun, ended = draft.choose(("[", "]"), ('{"a":', "}"))
    draft.write(file, '{"a":' + begun * depth + "1" + ended * depth + "}")


@folder("bert-mean-tiny", "qwen3-tiny", "model2vec-tiny", "embeddinggemma-tiny")
def modules_of_one_folder(draft):
    """A list of modules that names one folder repeatedly."""
    modules = draft.json("modules.json")
    count = draft.choose(2, 15, 63, 1000, draft.count(100))
    kind = draft.choose("Dense", "Pooling", "Normalize", "Transformer", "Router", "LogitScore", "StaticEmbedding")
    path = draft.choose("", "1_Pooling", "2_Dense", "./" * 50, "a/../" * 20, "x" * 4000)
    more = [{"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"} for number in range(count)]
    draft.write("modules.json", [*modules[:draft.choose(0, 1, 2)], *more])
    if kind == "Dense":
        draft.write("2_Dense/config.json", {"in_features": 32, "out_features": draft.choose(32, 2**40), "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity"})
    if kind == "Router":
        draft.write("router_config.json", routes(draft))


def routes(draft):
    """Router modules that all name one folder, and the mapping to them."""
    names = [f"r{number:x}" for number in range(min(draft.count(60), draft.choose(2, 16, 1000)))]
    modules = [draft.choose("query_0_Transformer", "document_0_Transformer", "")] * draft.choose(1, 15, 1000)
    types = {module: "sentence_transformers.models.Transformer" for module in modules}
    return {"types": types, "structure": dict.fromkeys(names, modules), "parameters": {"default_route": names[0], "allow_empty_key": True,
            "route_mappings": {f"({name}, {name})": name for name in names}}}


@folder("router-encoders-tiny")
def routers(draft):
    draft.write("router_config.json", routes(draft))


@folder("embeddinggemma-tiny", "bert-mean-tiny", "qwen3-tiny")
def prompts(draft):
    """Prompts: many, long, with a default."""
    length = draft.choose(1, 1000, 16_000, draft.scale)
    count = draft.choose(1, 255, draft.count(length + 10))
    count = max(1, min(count, draft.scale // length))
    draft.write("config_sentence_transformers.json", {"prompts": {f"{number:x}": "a " * (length // 2 + 1) for number in range(count)},
        "default_prompt_name": "0"})


@folder("bert-mean-tiny", "qwen3-tiny")
def tokens_in_the_settings_of_texts(draft):
    """tokenizer_config.json with additional tokens, a template, and huge lengths."""
    length = draft.choose(4, 200, 2000)
    decoder = {str(2000 + number): {"content": draft.word(length), "special": draft.chance.random() < 0.5, "normalized": False,
        "lstrip": False, "rstrip": False,
                                    "single_word": False} for number in range(draft.count(length + 110))}
    draft.edit("tokenizer_config.json", added_tokens_decoder=decoder, model_max_length=draft.choose(*NUMBERS),
        chat_template="{{ a }}" * draft.count(7),
               additional_special_tokens=[draft.word(length) for _ in range(draft.count(length + 4))])
