"""SentencePiece's own files, which llama.cpp's converter reads and fixtures lack."""

import functools
import io
import json
from base64 import b64encode

from transformers.tokenization_utils_base import generate_merges

NFKC = [{"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]
HEAD = ["<s>", "<pad>", "</s>", "<unk>"]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


@functools.cache
def character_map():
    """SentencePiece's character map of NFKC."""
    import sentencepiece
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c"] * 10), model_writer=model, vocab_size=7, hard_vocab_limit=False, normalization_rule_name="nfkc",
        minloglevel=3)
    return proto(model.getvalue()).normalizer_spec.precompiled_charsmap


def proto(content=b""):
    from sentencepiece import sentencepiece_model_pb2
    found = sentencepiece_model_pb2.ModelProto()
    found.ParseFromString(content)
    return found


def add(folder):
    """Adds the files to a checkpoint whose tokenizer has the form of XLM-RoBERTa's or Gemma's; its tokenizer.json then agrees with them."""
    path = folder / "tokenizer.json"
    if not path.exists():
        return
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    model, normalizer = tokenizer["model"], tokenizer["normalizer"] or {}
    if model["type"] == "Unigram" and normalizer.get("normalizers") == NFKC and [piece for piece, _ in model["vocab"][:4]] == HEAD:
        file = unigram(model["vocab"])
        normalizer["normalizers"][0] = {"type": "Precompiled", "precompiled_charsmap": b64encode(character_map()).decode()}
        name = "sentencepiece.bpe.model"
    elif model["type"] == "BPE" and model.get("byte_fallback") and normalizer.get("content") == "\u2581":
        file = bpe(tokenizer)
        name = "tokenizer.model"
    else:
        return
    (folder / name).write_bytes(file.SerializeToString())
    path.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


def unigram(vocab):
    """XLM-RoBERTa's: ids from 3 on are one lower than the model's, and the mask is not in the file."""
    file = proto()
    file.trainer_spec.model_type = 1
    spec = file.normalizer_spec
    spec.add_dummy_prefix, spec.remove_extra_whitespaces, spec.precompiled_charsmap = True, True, character_map()
    entries = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    entries += [(piece, score, NORMAL) for piece, score in vocab[len(HEAD):] if piece != "<mask>"]
    for piece, score, kind in entries:
        file.pieces.add(piece=piece, score=score, type=kind)
    return file


def bpe(tokenizer):
    """Gemma's: the score of a piece is its negated id; merges follow from the scores, as transformers makes them."""
    file, model = proto(), tokenizer["model"]
    file.trainer_spec.model_type, file.trainer_spec.byte_fallback = 2, True
    file.normalizer_spec.add_dummy_prefix, file.normalizer_spec.remove_extra_whitespaces = False, False
    special = {entry["content"] for entry in tokenizer["added_tokens"]}
    ids = sorted(model["vocab"], key=model["vocab"].get)
    for piece in ids:
        kind = UNKNOWN if piece == model["unk_token"] else CONTROL if piece in special else BYTE if piece.startswith("<0x") else NORMAL
        file.pieces.add(piece=piece, score=0.0 if kind != NORMAL else -float(model["vocab"][piece]), type=kind)
    scores = {piece.piece: piece.score for piece in file.pieces if piece.type == NORMAL}
    pairs = generate_merges(model["vocab"], scores, set(ids) - set(scores))
    model["merges"] = [list(pair) for pair in pairs]
    return file
