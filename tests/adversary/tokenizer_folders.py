"""Folders with a large tokenizer: tokens, merges, pieces, normalisers, splits, templates, padding."""

import base64
import shutil
import struct
from dataclasses import replace

from folders import folder
from tensor_folders import TRIE, give_room

# WordPiece, byte-level BPE, Unigram, a static embedding.
WORDS, PAIRS, PIECES, STATIC = "bert-mean-tiny", "qwen3-tiny", "xlm-roberta-tiny", "model2vec-tiny"
ALL = (WORDS, PAIRS, PIECES, STATIC)
FILE = "tokenizer.json"


def edit_model(draft, **changes):
    tokenizer = draft.json(FILE)
    tokenizer["model"] |= changes
    draft.write(FILE, tokenizer)


@folder(*ALL)
def added_tokens(draft):
    """Many added tokens of maximum length: with a common prefix, a common suffix, or neither; with all flags."""
    tokenizer = draft.json(FILE)
    length = draft.choose(1, 8, 200, 2000)
    count = draft.count(length + 110)
    word = draft.choose(draft.word, lambda size: "a" * max(1, size - 8) + draft.word(min(size, 8)), lambda size: draft.word(min(size,
        8)) + "é" * (size // 2),
                        lambda size: " " * size + draft.word(6))
    flags = {name: draft.choose(True, False) for name in ("single_word", "lstrip", "rstrip", "normalized", "special")}
    first = draft.choose(2**32 - count - 1, 2000, 2000)
    if first == 2000:
        give_room(draft, first + count)
    tokenizer["added_tokens"] += [{"id": first + number, "content": word(length), **flags} for number in range(count)]
    draft.write(FILE, tokenizer)


@folder(WORDS, PAIRS, STATIC)
def vocabularies(draft):
    """Many tokens, very long tokens, ids with gaps, ids far beyond all others."""
    tokenizer = draft.json(FILE)
    length = draft.choose(6, 100, 2000, 60_000)
    first, step = draft.choose((2000, 1), (2000, 1), (2000, 4000), (2**31, 1))
    count, letter = draft.count(length + 12), draft.choose("a", "b", "▁")
    if (first, step) == (2000, 1):
        give_room(draft, first + count)
    tokenizer["model"]["vocab"] |= {f"{number:x}".rjust(length, letter): min(first + step * number, 2**32 - 1) for number in range(count)}
    draft.write(FILE, tokenizer)


@folder(PAIRS)
def merges(draft):
    """Merges of tokens that double, are equal, are missing from the vocabulary, or are very long."""
    tokenizer = draft.json(FILE)
    model, shape = tokenizer["model"], draft.choose("double", "equal", "unknown", "long")
    if shape == "double":
        token = "a"
        for number in range(draft.choose(11, 17, 20)):
            model["vocab"].setdefault(token + token, 2000 + number)
            model["merges"].insert(0, [token, token])
            token += token
    elif shape == "equal":
        model["merges"] += [model["merges"][0]] * draft.count(10)
    elif shape == "unknown":
        model["merges"] += [[f"{number:x}", "zz"] for number in range(draft.count(16))]
    else:
        model["vocab"] |= {"b" * size: 2000 + size for size in range(1, min(4000, int((2 * draft.scale) ** 0.5)))}
        model["merges"] += [["b" * size, "b"] for size in range(1, min(4000, int((2 * draft.scale) ** 0.5)) - 1)]
    draft.write(FILE, tokenizer)


@folder(PIECES)
def unigram_pieces(draft):
    """Pieces that are very long, of one letter in all lengths, or many, with absurd scores."""
    vocabulary = draft.json(FILE)["model"]["vocab"]
    score = draft.choose(-1.0, 0.0, 1e300, -1e300, 0.0)
    longest = min(draft.choose(200, 3000, 60_000), draft.scale)
    more = draft.choose(
        lambda: [("a" * longest, score)], lambda: [("▁" + "a" * size, score) for size in range(1, min(longest,
            int((2 * draft.scale) ** 0.5)))],
        lambda: [(f"{number:x}", score) for number in range(draft.count(14))], lambda: [("▁a", score)] * draft.count(12),
        lambda: [(draft.word(longest), score) for _ in range(draft.count(longest + 10))],
        lambda: [("a" * longest + f"{number:x}", score) for number in range(draft.count(longest + 10))])()
    draft.room = TRIE * (len(vocabulary) + len(more))
    give_room(draft, len(vocabulary) + len(more))
    edit_model(draft, vocab=vocabulary + [list(piece) for piece in more])


def replaced(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


@folder(*ALL)
def normalizers(draft):
    """Normaliser steps that are each within a limit but multiply, or are many."""
    regex = "|".join(f"a{number:x}b" for number in range(min(3000, draft.scale // 8)))
    step = draft.choose(
        replaced({"String": "a"}, "aa"), replaced({"Regex": regex}, "b"), replaced({"Regex": "[a-z]"}, "x" * 60), {"type": "Prepend",
            "prepend": "ab"},
        {"type": "ByteLevel"}, {"type": "NFKD"}, {"type": "Strip", "strip_left": True, "strip_right": True}, replaced({"String": ""}, "a"),
        {"type": "Precompiled", "precompiled_charsmap": charsmap(draft)}, replaced({"String": "a" * (draft.scale // 4)}, "b"))
    count = min(draft.choose(1, 8, 31, 10_000), max(1, 4 * draft.scale // len(str(step))))
    draft.edit(FILE, normalizer={"type": "Sequence", "normalizers": nested(draft, "normalizers", step, count)})


def charsmap(draft):
    """A nonsensical trie, followed by a text."""
    size = draft.choose(4, 1024, draft.scale // 8) // 4 * 4
    return base64.b64encode(struct.pack("<I", size) + struct.pack("<I",
        draft.chance.getrandbits(32)) * (size // 4) + b"ab\0" * draft.choose(1, 1000)).decode()


def nested(draft, field, step, count):
    """The steps in one list, or in nested lists that double a few times."""
    if draft.choose(True, False):
        return [step] * count
    for depth in range(draft.choose(3, 60)):
        step = {"type": "Sequence", field: [step] * (2 if depth < 6 and len(str(step)) < draft.scale // 4 else 1)}
    return [step]


@folder(*ALL)
def pre_tokenizers(draft):
    """Splits by patterns with classes, many words or repetitions; many splits."""
    pattern = draft.choose("\\p{L}{1,60}", "|".join(draft.word(8) for _ in range(500)), "(a{1,60}){1,60}", "[\\p{L}\\p{N}]+|\\s+",
        "a?" * 60, "")
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": draft.choose("Isolated", "MergedWithNext", "Contiguous"),
        "invert": draft.choose(True, False)}
    step = draft.choose(split, split, {"type": "Digits", "individual_digits": True}, {"type": "UnicodeScripts"}, {"type": "ByteLevel",
        "add_prefix_space": True},
                        {"type": "FixedLength", "length": 1}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})
    count = min(draft.choose(1, 8, 31, 10_000), max(1, 4 * draft.scale // len(str(step))))
    draft.edit(FILE, pre_tokenizer={"type": "Sequence", "pretokenizers": nested(draft, "pretokenizers", step, count)})


@folder(WORDS, PIECES)
def templates(draft):
    """Many special tokens around a text, each with many ids."""
    ids, uses = draft.choose((1, 1), (200, 200), (5000, 5000), (draft.count(3), 1), (1, draft.count(48)), (draft.count(6),
        draft.count(100)))
    special = {"id": "x", "ids": [1] * ids, "tokens": ["x"] * ids}
    items = [{"SpecialToken": {"id": "x", "type_id": 0}}] * uses
    template = {"type": "TemplateProcessing", "single": [*items, {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"x": special},
                "pair": [*items, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]}
    draft.edit(FILE, post_processor=draft.choose(template, {"type": "Sequence", "processors": [template] * draft.choose(2, 20)}))


@folder(*ALL)
def paddings(draft):
    """Padding of every text to a given length."""
    length = draft.choose(2**20, 2**31, 2**62, 0)
    strategy, multiple = draft.choose(({"Fixed": length}, None), ("BatchLongest", length))
    draft.edit(FILE, padding={"strategy": strategy, "direction": "Right", "pad_to_multiple_of": multiple, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "[PAD]"},
               truncation=draft.choose(None, {"direction": "Right", "max_length": length, "strategy": "LongestFirst", "stride": max(0,
                   length - 1)}))


@folder(*ALL)
def decoders(draft):
    step = draft.choose(replaced({"String": "a"}, "aaaa"), {"type": "Strip", "content": "a", "start": 2**40, "stop": 0}, {"type": "Fuse"},
                        {"type": "WordPiece", "prefix": "#" * 1000, "cleanup": True}, {"type": "CTC", "pad_token": "a" * 1000,
                            "word_delimiter_token": "b", "cleanup": True})
    draft.edit(FILE, decoder={"type": "Sequence", "decoders": [step] * min(draft.choose(1, 10, 31, 10_000), max(1,
        draft.scale // len(str(step))))})


@folder(WORDS)
def lists_of_words(draft):
    """A vocab.txt instead of tokenizer.json: many, long or equal lines."""
    draft.remove(FILE)
    line = draft.choose(lambda number: f"{number:x}", lambda number: f"{number:x}".rjust(2000, "a"), lambda number: "",
        lambda number: f"##{'a' * (number % 300)}{number}")
    lines = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(line(number) for number in range(draft.count(len(line(99_999)) + 1)))]
    give_room(draft, draft.choose(459, len(lines)))
    draft.write("vocab.txt", "\n".join(lines))


@folder("router-encoders-tiny")
def tokenizers_of_a_router(draft):
    """Models behind one Router, each with a tokenizer that may be large on its own."""
    router, count, maker = draft.json("router_config.json"), draft.choose(1, 4, 7), draft.choose(added_tokens, unigram_pieces)
    modules = router["structure"]["document"]
    parts = [draft.path / modules[0]]
    for number in range(count - 1):
        names = [f"r{number}_{name}" for name in modules]
        for name, new in zip(modules, names):
            shutil.copytree(draft.path / name, draft.path / new)
            router["types"][new] = router["types"][name]
        router["structure"][f"r{number}"] = names
        parts.append(draft.path / names[0])
    draft.write("router_config.json", router)
    for part in parts:
        made = replace(draft, path=part, scale=draft.scale // count, room=0)
        maker(made)
        draft.room += made.room
