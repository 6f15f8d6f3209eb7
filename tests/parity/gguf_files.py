"""GGUF files of drafts: llama.cpp's converter, loaded from a path and run in a child process for each file."""

import importlib.util
import json
import os
import shutil
import sys
import traceback

import gguf_names
import gguf_sentencepiece
import numpy as np
import torch
from gguf_rules import NotConverted
from safetensors.torch import load_file, save_file

# Other files in the folder: none, sentence-transformers' files, or also the tokenizer's.
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt")
NEVER = ("config.json", "tokenizer.model", "sentencepiece.bpe.model")
POOLINGS = {"mean": "mean", "mean_tokens": "mean", "cls": "cls", "cls_token": "cls", "lasttoken": "last-token"}
# A folder of this name makes a reranker of Qwen3, whose class is a language model's.
RERANKER = "Qwen3-Reranker"


def options_of(draft):
    return {name: value for file, name, value in draft["settings"] if file == "gguf"}


def align_norms(folder):
    """Rounds Gemma's norms to what a file can have: the converter adds 1 to their weights, in float16 if they are stored so."""
    if json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type") != "gemma3_text":
        return
    def aligned(tensors):
        return {name: tensor + 1 - 1 if tensor.dtype == torch.float16 and name.endswith("norm.weight") else tensor for name, tensor in tensors.items()}
    for path in folder.glob("model*.safetensors"):
        save_file(aligned(load_file(path)), path, {"format": "pt"})
    for path in folder.glob("pytorch_model*.bin"):
        torch.save(aligned(torch.load(path)), path)


class Converter:
    def __init__(self, path):
        path = path.resolve()
        sys.path[1:1] = [str(path.parent), str(path.parent / "gguf-py")]
        spec = importlib.util.spec_from_file_location("convert_hf_to_gguf", path)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        import gguf
        self.gguf = gguf
        # Older converters are one file.
        base = sys.modules.get("conversion.base", self.module)
        base.TextModel.get_vocab_base_pre = lambda model, tokenizer: gguf_names.of_tokenizer(json.loads(tokenizer.backend_tokenizer.to_str()))
        load = base.ModelBase.load_hparams
        base.ModelBase.load_hparams = staticmethod(lambda folder, *others, **named: gguf_names.published(load(folder, *others, **named), folder))
        names = getattr(sys.modules.get("conversion"), "TEXT_MODEL_MAP", None)
        self.classes = set(names or base.ModelBase._model_classes[base.ModelType.TEXT])

    def prepare(self, draft, folder):
        """Changes a checkpoint so that a file can have all of it: weights that its type has, SentencePiece's own files,
        and one statement about lower case, of which the converter reads only one."""
        gguf_sentencepiece.add(folder)
        gguf_names.align(folder, {name for file, name, _ in draft["settings"] if file == "tokenizer_config.json"})
        align_norms(folder)
        options = options_of(draft)
        kind = options.get("type", "f32")
        paths = [*folder.glob("model*.safetensors"), *(folder.glob("*_Dense/*.safetensors") if options.get("dense") else ())]
        for path in paths if kind != "f32" else ():
            save_file({name: self.rounded(tensor, kind) for name, tensor in load_file(path).items()}, path, {"format": "pt"})

    def rounded(self, tensor, kind):
        values = tensor.to(torch.float32).numpy()
        if kind == "q8_0" and (values.ndim < 2 or values.shape[-1] % 32):
            kind = "f16"
        of_type = self.gguf.GGMLQuantizationType[kind.upper()]
        rounded = self.gguf.quants.dequantize(self.gguf.quants.quantize(values, of_type), of_type)
        return torch.from_numpy(np.ascontiguousarray(rounded, dtype=np.float32)).reshape(tensor.shape)

    def convert(self, draft, folder, target):
        """Writes the file, and what lies beside it, to the empty folder `target`; returns the flags that it needs."""
        options = options_of(draft)
        source = folder
        if draft["task"] == "prompted":
            source = target / RERANKER
            source.symlink_to(folder)
        arguments = [str(source), "--outfile", str(target / "model.gguf"), "--outtype", options.get("type", "f32")]
        if options.get("dense"):
            arguments.append("--sentence-transformers-dense-modules")
        self.run(arguments, target / "log")
        for path in (target / RERANKER, target / "log"):
            path.unlink(missing_ok=True)
        for path in sorted(folder.iterdir()) if options.get("beside") else ():
            if path.is_dir():
                shutil.copytree(path, target / path.name)
            elif path.suffix in (".json", ".jinja", ".txt") and "model" not in path.name.removesuffix("modules.json") and path.name not in NEVER:
                if path.name not in TOKENIZER_FILES or options["beside"] == "tokenizer":
                    shutil.copy(path, target)
        return () if options.get("beside") or draft["task"] != "embed" else self.pooling(folder)

    def pooling(self, folder):
        """Files of `llama` do not have their pooling."""
        if json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] not in ("llama", "mistral"):
            return ()
        path = next(path for path in folder.glob("*_Pooling/config.json"))
        given = json.loads(path.read_text(encoding="utf-8"))
        modes = [name.removeprefix("pooling_mode_") for name, value in given.items() if value is True] or [given["pooling_mode"]]
        flag = POOLINGS.get(modes[0]) if isinstance(modes[0], str) else None
        if not flag:
            raise NotConverted(f"no pooling in the file: {modes}")
        return ("--pooling", flag)

    def run(self, arguments, log):
        """The converter in a child process: it keeps state in its classes."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with log.open("w") as file:
                    os.dup2(file.fileno(), 1)
                    os.dup2(file.fileno(), 2)
                    sys.argv = ["convert_hf_to_gguf.py", *arguments]
                    try:
                        self.module.main()
                        status = 0
                    except BaseException:
                        traceback.print_exc(file=file)
            finally:
                os._exit(status)
        if os.waitpid(child, 0)[1]:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:] or ["no message"]
            raise NotConverted(errors[-1])
