"""Writes the checkpoint that a draft describes."""

import contextlib
import copy
import json
import os
import shutil
import tempfile
import zlib

import torch
import transformers
from safetensors.torch import load_file, save_file

import bases
from bases import init_tensor

CORE, SINGLE = "sentence_transformers.base.modules", "sentence_transformers.sentence_transformer.modules"
CLASSES = {"Transformer": f"{CORE}.transformer.Transformer", "Pooling": f"{SINGLE}.pooling.Pooling", "Dense": f"{CORE}.dense.Dense",
           "Normalize": f"{CORE}.normalize.Normalize", "LayerNorm": f"{SINGLE}.layer_norm.LayerNorm",
           "Dropout": f"{SINGLE}.dropout.Dropout"}
AUTO = {"embed": "AutoModel", "pair": "AutoModelForSequenceClassification", "classify": "AutoModelForSequenceClassification",
        "prompted": "AutoModelForCausalLM", "tokens": "AutoModelForTokenClassification"}
SCORE = "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"
# As Qwen3-Reranker writes its prompt.
TEMPLATE = """<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: Given a web search query, retrieve relevant passages that answer the query
<Query>: {{ (messages | selectattr('role','eq','query') | first).content }}
<Document>: {{ (messages | selectattr('role','eq','document') | first).content }}<|im_end|>
<|im_start|>assistant
<think>

</think>{{ "\\n\\n" }}"""
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


class Plan:
    """The files of a draft, before they are written."""

    def __init__(self, draft, base):
        self.draft, self.base = draft, base
        self.structure = {name: value for file, name, value in draft["settings"] if file == "structure"}
        vocabulary = {name: value for file, name, value in draft["settings"] if file == "vocabulary"}
        tokenizer, config = base.tokenizer_files(vocabulary)
        self.files = {"config.json": copy.deepcopy(base.config), "tokenizer.json": json.loads(tokenizer.to_str()),
                      "tokenizer_config.json": config}
        self.set_config(tokenizer, config, bool(vocabulary))
        self.modules = [("Transformer", self.structure.get("folder", ""))]
        if draft["task"] == "embed":
            self.set_modules()
        elif draft["task"] == "pair" and self.structure.get("style"):
            self.files["modules.json"] = [{"idx": 0, "name": "0", "path": "", "type": CLASSES["Transformer"]}]
            self.files["config_sentence_transformers.json"] = {"model_type": "CrossEncoder"}
            self.files["sentence_bert_config.json"] = {
                "transformer_task": "sequence-classification", "module_output_name": "scores",
                "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}}}
        elif draft["task"] == "prompted":
            self.set_prompted()
        for file, name, value in draft["settings"]:
            if file not in ("structure", "vocabulary", "gguf"):
                self.set(file, name, value)
        if draft["task"] == "embed":
            self.set_widths()
        self.files.pop(self.structure.get("without"), None)
        other, usual = self.structure.get("sentence_config"), "sentence_bert_config.json"
        if other and usual in self.files:
            self.files[other] = self.files.pop(usual)
        self.lines = None
        vocabulary = self.files["tokenizer.json"]["model"]["vocab"]
        if self.structure.get("vocab_txt") and base.tokenizer["style"] == "wordpiece":
            del self.files["tokenizer.json"]
            self.lines = sorted(vocabulary, key=vocabulary.get)

    def set_config(self, tokenizer, tokenizer_config, is_other_vocabulary):
        config, task = self.files["config.json"], self.draft["task"]
        config["architectures"] = [bases.architecture(self.base, task)]
        config["vocab_size"] = max(config["vocab_size"], tokenizer.get_vocab_size(with_added_tokens=True) + 3)
        if task != self.base.task and task != "embed":
            count = {"pair": 1, "classify": 3, "tokens": 5}[task]
            names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"] if task == "tokens" else [f"L{i}" for i in range(count)]
            config["id2label"] = {str(i): name for i, name in enumerate(names)}
            config["label2id"] = {name: i for i, name in enumerate(names)}
        for role in ROLES:
            if is_other_vocabulary and config.get(f"{role}_token_id") is not None and tokenizer_config.get(f"{role}_token"):
                config[f"{role}_token_id"] = tokenizer.token_to_id(tokenizer_config[f"{role}_token"])

    def set_modules(self):
        is_new = self.structure.get("style", "old") == "new"
        pooling = {"last": "lasttoken"}.get(self.base.pooling, self.base.pooling)
        pooling = self.structure.get("pooling", pooling)
        for name in ["Pooling", *self.structure.get("modules", [])]:
            self.modules.append((name, f"{len(self.modules)}_{name}"))
        for name, path in self.modules[1:]:
            self.files[f"{path}/config.json"] = {
                "Pooling": {"pooling_mode": pooling} if is_new else {f"pooling_mode_{OLD.get(pooling, pooling)}": True},
                "Dense": {"bias": True, "activation_function": "torch.nn.modules.activation.Tanh"},
                "LayerNorm": {}, "Dropout": {"dropout": 0.1}, "Normalize": {}}[name].copy()
        self.files["modules.json"] = [
            {"idx": i, "name": str(i), "path": path, "type": CLASSES[name] if is_new else f"sentence_transformers.models.{name}"}
            for i, (name, path) in enumerate(self.modules)]

    def set_prompted(self):
        """A language model with the prompt of Qwen3-Reranker and a LogitScore module."""
        vocabulary = self.files["tokenizer.json"]["model"]["vocab"]
        added = {entry["content"]: entry["id"] for entry in self.files["tokenizer.json"]["added_tokens"]}
        yes, no = ({**vocabulary, **added}[word] for word in ("yes", "no"))
        self.files["modules.json"] = [
            {"idx": i, "name": str(i), "path": path, "type": kind}
            for i, (path, kind) in enumerate([("", CLASSES["Transformer"]), ("1_LogitScore", SCORE)])]
        self.files["1_LogitScore/config.json"] = {"true_token_id": yes, "false_token_id": no, "module_input_name": "causal_logits"}
        self.files["config_sentence_transformers.json"] = {"model_type": "CrossEncoder"}
        output = {"method": "forward", "method_output_name": "logits"}
        self.files["sentence_bert_config.json"] = {
            "transformer_task": "text-generation", "module_output_name": "causal_logits",
            "modality_config": {"text": output, "message": {**output, "format": "flat"}}}
        self.files["tokenizer_config.json"]["chat_template"] = TEMPLATE

    def set(self, file, name, value):
        """Sets a field; `Dense/config.json` is the config of every such module."""
        kind, _, rest = file.partition("/")
        paths = [f"{path}/config.json" for module, path in self.modules if module == kind] if rest else [file]
        for path in paths:
            own = self.files.setdefault(path, {})
            own[name] = {**own[name], **value} if (file, name) == ("tokenizer.json", "model") else value

    def set_widths(self):
        """Widths that the modules' configs must have, unless a setting gives another one."""
        config = self.files["config.json"]
        width = config.get("hidden_size", config.get("dim", config.get("n_embd", config.get("d_model"))))
        is_new = self.structure.get("style", "old") == "new"
        for name, path in self.modules[1:]:
            own = self.files[f"{path}/config.json"]
            if name == "Pooling":
                if not {"embedding_dimension", "word_embedding_dimension"} & set(own):
                    own["embedding_dimension" if is_new else "word_embedding_dimension"] = width
                modes = own.get("pooling_mode", "")
                width *= len(modes) if isinstance(modes, list) else max(1, sum(v is True for k, v in own.items() if k.startswith("pooling_mode_")))
            elif name == "Dense":
                own.setdefault("in_features", width)
                width = own.setdefault("out_features", width)
            elif name == "LayerNorm":
                own.setdefault("dimension", width)


OLD = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens", "weightedmean": "weightedmean_tokens"}


def fill(module, seed, config):
    """Random parameters of a torch module, as in the fixtures."""
    spec = {"seed": seed, "config": {"model_type": config.get("model_type") or ""}}
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(init_tensor(spec, f"module.{name}", tuple(parameter.shape)))
    return module.eval()


def model_of(plan, folder):
    """The model with random weights, of the class of its task."""
    config = transformers.AutoConfig.from_pretrained(folder)
    own = getattr(transformers, bases.architecture(plan.base, plan.draft["task"]), None)
    seed = zlib.crc32(str(plan.draft["seed"]).encode())
    return fill(own(config) if own else getattr(transformers, AUTO[plan.draft["task"]]).from_config(config), seed, plan.base.config)


def store(plan, model, folder):
    model = model.to(getattr(torch, plan.structure.get("dtype", "float32")))
    form = plan.structure.get("format", "")
    model.save_pretrained(folder, max_shard_size="20KB" if form == "shards" else "5GB")
    if "bin" in form:
        # Under the names of a saved file, which differ from the model's own.
        tensors = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        if form == "pytorch_model.bin":
            torch.save(tensors, folder / "pytorch_model.bin")
        else:
            names = sorted(tensors)
            files = {f"pytorch_model-0000{i + 1}-of-00002.bin": names[i::2] for i in range(2)}
            for file, own in files.items():
                torch.save({name: tensors[name] for name in own}, folder / file)
            index = {"metadata": {}, "weight_map": {name: file for file, own in files.items() for name in own}}
            (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))


def add_adapter(plan, folder):
    """A LoRA adapter with random factors beside its base."""
    import peft
    given = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", **plan.files.pop("adapter_config.json", {})}
    raw = {name: value for name, value in given.items() if name not in ("peft_type", "base_model_name_or_path", "revision")}
    base = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32)
    adapted = peft.get_peft_model(base, peft.LoraConfig(**raw))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name or "modules_to_save" in name:
                parameter.copy_(init_tensor({"seed": 5, "config": {"model_type": ""}}, "lora.weight", tuple(parameter.shape)))
    adapted.save_pretrained(folder)
    path = folder / "adapter_config.json"
    saved = json.loads(path.read_text())
    path.write_text(json.dumps({**saved, **given, "target_modules": saved["target_modules"], "base_model_name_or_path": str(folder)}))


@contextlib.contextmanager
def quietly():
    """transformers and peft report what a random config lacks; drafts are full of it."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    yield


def write(draft, base, folder):
    """Writes the draft's checkpoint to an empty folder."""
    plan = Plan(draft, base)
    top = folder / plan.structure.get("folder", "") if draft["task"] == "embed" else folder
    top.mkdir(parents=True, exist_ok=True)
    in_top = {name for name in plan.files if "/" not in name} - {"modules.json", "config_sentence_transformers.json", "adapter_config.json"}
    content = json.dumps(plan.files["config.json"])
    (top / "config.json").write_text(content)
    with quietly():
        store(plan, model_of(plan, top), top)
        (top / "config.json").write_text(content)
        if plan.structure.get("adapter"):
            add_adapter(plan, top)
            (top / "config.json").write_text(content)
    for file in ("generation_config.json", "README.md"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(top / file)
    for name, json_value in plan.files.items():
        path = (top if name in in_top else folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name != "adapter_config.json":
            path.write_text(json.dumps(json_value, ensure_ascii=False), encoding="utf-8")
    if plan.lines:
        (top / "vocab.txt").write_text("".join(f"{line}\n" for line in plan.lines), encoding="utf-8")
    for name, path in plan.modules[1:]:
        write_module(plan, name, folder / path)
    if plan.structure.get("resaved"):
        save_again(draft["task"], folder)
    if (kind := plan.structure.get("wrapped")) and draft["task"] == "embed":
        import wrapped
        with quietly():
            wrapped.wrap(kind, folder, draft["seed"])
    return plan


def save_again(task, folder):
    """Replaces a checkpoint by what the libraries make of it when they save it."""
    import sentence_transformers
    with tempfile.TemporaryDirectory(prefix="parity-again-") as again, quietly():
        if task in ("embed", "pair", "prompted"):
            kind = sentence_transformers.SentenceTransformer if task == "embed" else sentence_transformers.CrossEncoder
            kind(str(folder), device="cpu", local_files_only=True).save_pretrained(again)
        else:
            getattr(transformers, AUTO[task]).from_pretrained(folder).save_pretrained(again)
            transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(again)
        shutil.rmtree(folder)
        shutil.copytree(again, folder)


def write_module(plan, name, folder):
    """Weights of a Dense or LayerNorm."""
    own = json.loads((folder / "config.json").read_text())
    if name == "Dense":
        shapes = {"linear.weight": (own["out_features"], own["in_features"])}
        if own.get("bias", True):
            shapes["linear.bias"] = (own["out_features"],)
        if own.get("use_residual") and own["in_features"] != own["out_features"]:
            shapes["residual.weight"] = (own["out_features"], own["in_features"])
    elif name == "LayerNorm":
        shapes = {"norm.weight": (own["dimension"],), "norm.bias": (own["dimension"],)}
    else:
        return
    spec = {"seed": plan.draft["seed"] % 1000 if isinstance(plan.draft["seed"], int) else 1, "config": {"model_type": ""}}
    save_file({key: init_tensor(spec, f"{folder.name}.{key}", shape) for key, shape in shapes.items()}, str(folder / "model.safetensors"))
