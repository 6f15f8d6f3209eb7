"""Folders of safetensors and GGUF files: headers and shards, metadata and lists of tensors."""

import json
import struct

from folders import folder

MEAN = ("bert-mean-tiny", "qwen3-tiny", "modernbert-tiny", "model2vec-tiny")
# Bytes per piece that the library's trie of Unigram pieces may take.
TRIE = 2 << 10
# Values of GGUF (the types of its metadata), and bytes of those with a fixed size.
U8, U32, I32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 5, 6, 7, 8, 9, 10
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def entry(start, end, shape, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def safetensors(header, data=b""):
    made = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    return struct.pack("<Q", len(made)) + made + data


def give_rows(file, rows, *ends):
    """Pads the tensors whose names end with one of these with zeros to `rows` rows."""
    header, data = read(file)
    made = b""
    for name in sorted(header.keys() - {"__metadata__"}, key=lambda name: header[name]["data_offsets"]):
        one = header[name]
        begin, end = one["data_offsets"]
        values = data[begin:end]
        if name.endswith(ends) and one["shape"][0] < rows:
            values += bytes(len(values) // one["shape"][0] * (rows - one["shape"][0]))
            one["shape"] = [rows, *one["shape"][1:]]
        one["data_offsets"] = [len(made), len(made) + len(values)]
        made += values
    file.write_bytes(safetensors(header, made))


def give_room(draft, tokens):
    """Pads the token embeddings with rows of zeros and raises `vocab_size`, so that a tokenizer may have this many tokens."""
    give_rows(draft.path / "model.safetensors", tokens, "embed_tokens.weight", "word_embeddings.weight", "embeddings")
    config = draft.json("config.json")
    if config.get("vocab_size", tokens) < tokens:
        draft.edit("config.json", vocab_size=tokens)


def read(path):
    """Header and data of a safetensors file."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    return json.loads(content[8:8 + length]), content[8 + length:]


@folder(*MEAN)
def header_of_many_tensors(draft):
    """Empty tensors: the file consists of their header entries."""
    shape = draft.choose([0], [1], [0] * 60, [0] * draft.count(2, 100_000))
    size = 4 if shape == [1] else 0
    count = draft.count(60 + 3 * len(shape))
    header, data = read(draft.path / "model.safetensors")
    begun = len(data)
    header |= {f"{number:x}": entry(begun + size * number, begun + size * (number + 1), shape) for number in range(count)}
    if draft.choose(True, False):
        header["__metadata__"] = {f"{number:x}": "" for number in range(draft.count(12))}
    draft.write("model.safetensors", safetensors(header, data + bytes(size * count)))


@folder(*MEAN)
def shards_of_long_headers(draft):
    """Headers within the limit; an index names many files, or one under many names."""
    count = draft.choose(2, 16, 64, 500)
    header, data = read(draft.path / "model.safetensors")
    each = max(1, draft.count(65) // count)
    shards = [f"model-{number}.safetensors" for number in range(count)]
    mapped = dict.fromkeys(header.keys() - {"__metadata__"}, shards[0])
    used, is_one = draft.choose(1, each), draft.choose(True, False)
    draft.write(shards[0], safetensors(header, data))
    for number, shard in enumerate(shards[1:]):
        names = [f"t{0 if is_one else number:x}.{name:x}" for name in range(each)]
        if is_one and number:
            (draft.path / shard).hardlink_to(draft.path / shards[1])
        else:
            draft.write(shard, safetensors(dict.fromkeys(names, entry(0, 0, [0]))))
        mapped |= dict.fromkeys(names[:used], shard)
    draft.remove("model.safetensors")
    draft.write("model.safetensors.index.json", {"metadata": {}, "weight_map": mapped})


@folder(*MEAN)
def index_of_many_names(draft):
    """Names of missing tensors, missing files, and one file under other spellings."""
    shard = draft.choose(lambda n: "model.safetensors", lambda n: f"model-{n}.safetensors", lambda n: "./" * (n % 50) + "model.safetensors",
                         lambda n: "1_Pooling/../" * (n % 9) + "model.safetensors", lambda n: "x" * 200)
    header, _ = read(draft.path / "model.safetensors")
    mapped = {f"{number:x}": shard(number) for number in range(draft.count(40))}
    draft.write("model.safetensors.index.json", {"weight_map": {**dict.fromkeys(header, "model.safetensors"), **mapped}})
    if draft.choose(True, False):
        (draft.path / "model.safetensors").rename(draft.path / "model-0.safetensors")


@folder(*MEAN)
def stated_shapes(draft):
    """Shapes whose product exceeds the data, or with many dimensions."""
    header, data = read(draft.path / "model.safetensors")
    name = draft.choose(*sorted(header.keys() - {"__metadata__"}))
    header[name]["shape"] = draft.choose([2**62, 4], [2**32, 2**32], [0, 2**63], [1] * draft.count(2), [-1], [10**30], [1.5], [2**40])
    draft.write("model.safetensors", safetensors(header, data))


def string(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def array(kind, values, count=None):
    """Type and value of an array; `values` are bytes of all its items."""
    size = SIZES.get(kind, 8)
    return struct.pack("<IIQ", ARRAY, kind, len(values) // size if count is None else count) + values


def metadata(content):
    """(entries by key, as bytes of type and value; the remaining bytes) of a GGUF file."""
    _, _, tensors, count = struct.unpack_from("<IIQQ", content)
    at = 24

    def skip(kind, at):
        if kind == STRING:
            return at + 8 + struct.unpack_from("<Q", content, at)[0]
        if kind == ARRAY:
            of, length = struct.unpack_from("<IQ", content, at)
            at += 12
            if of in SIZES:
                return at + SIZES[of] * length
            for _ in range(length):
                at = skip(of, at)
            return at
        return at + SIZES[kind]
    found = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", content, at)
        key, begun = content[at + 8:at + 8 + length].decode(), at + 8 + length
        at = skip(struct.unpack_from("<I", content, begun)[0], begun + 4)
        found[key] = content[begun:at]
    return found, tensors, content[at:]


def gguf(entries, tensors):
    """The part of a GGUF file before its list of tensors."""
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, len(entries)) + b"".join(string(key) + value for key, value in entries)


GGUF = ("bert-gguf-tiny", "nomic-gguf-tiny")


def write_gguf(draft, changes, more=(), tensors=None, rest=None):
    """Writes the fixture with entries changed and added. The length before the list of tensors grows by a multiple of 32."""
    (path,) = draft.path.glob("*.gguf")
    content = path.read_bytes()
    entries, count, after = metadata(content)
    found = [*{**entries, **changes}.items(), *more]
    # The data of tensors begins at a multiple of 32: what comes before their list is padded to the same rest as before.
    padding = (len(content) - len(after) - len(gguf([*found, ("pad", struct.pack("<I", STRING) + string(""))], 0))) % 32
    found.append(("pad", struct.pack("<I", STRING) + string(b"x" * padding)))
    path.write_bytes(gguf(found, count if tensors is None else tensors) + (after if rest is None else rest))


@folder(*GGUF)
def gguf_arrays(draft):
    """Many arrays below the limit of a single one; arrays of empty texts, and of arrays."""
    each = draft.choose(1000, 2**20, 2**23)
    count = max(1, draft.scale // each)
    made = draft.choose(lambda: array(U8, bytes(each)), lambda: array(BOOL, bytes(each)), lambda: array(STRING, bytes(8 * (each // 8))),
                        lambda: array(ARRAY, struct.pack("<IQ", U8, 0) * (each // 12), each // 12), lambda: array(U32,
                            bytes(each // 4 * 4)),
                        lambda: array(STRING, string("a") * (each // 9), each // 9))()
    write_gguf(draft, {}, [(f"a.{number:x}", made) for number in range(count)])


@folder(*GGUF)
def gguf_entries(draft):
    """Many small entries, and one repeated key."""
    key = draft.choose(lambda number: f"a.{number:x}", lambda number: "a.b", lambda number: "a." + "b" * 1000 + f"{number:x}")
    value = draft.choose(struct.pack("<IB", U8, 1), struct.pack("<I", STRING) + string(""), array(U8, b""), array(ARRAY, b"", 0))
    write_gguf(draft, {}, [(key(number), value) for number in range(draft.count(8 + len(key(99_999)) + len(value)))])


@folder(*GGUF)
def gguf_vocabularies(draft):
    """Tokens: as many empty ones as fit, very long ones, equal ones; scores and types of other lengths."""
    many = draft.choose(
        lambda: array(STRING, bytes(8 * draft.count(8))), lambda: made(draft.count(2008), lambda n: f"{n:x}".ljust(2000, "a")),
        lambda: made(draft.count(12), lambda n: f"{n:x}"), lambda: made(draft.count(40_008, 60), lambda n: "▁" * 13_000 + str(n)),
        lambda: made(draft.count(10), lambda n: "a"))()
    changes = {"tokenizer.ggml.tokens": many}
    if draft.choose(True, False):
        changes["tokenizer.ggml.model"] = struct.pack("<I", STRING) + string(draft.choose("t5", "bert", "gpt2", "llama"))
    (count,) = struct.unpack_from("<Q", many, 8)
    draft.room = TRIE * count
    changes["tokenizer.ggml.scores"] = array(F32, struct.pack("<f", -1.5) * draft.choose(count, 3))
    changes["tokenizer.ggml.token_type"] = array(I32, struct.pack("<i", draft.choose(1, 3, 4)) * draft.choose(count, 3))
    changes["tokenizer.ggml.merges"] = made(draft.choose(1, count), lambda n: "a b")
    write_gguf(draft, changes)


def made(count, text):
    return array(STRING, b"".join(string(text(number)) for number in range(count)), count)


@folder(*GGUF)
def gguf_tensors(draft):
    """A list of tensors that is most of the file: all at one offset, with names of any length, or with dimensions that multiply."""
    name = draft.choose(lambda number: f"{number:x}", lambda number: f"{number:x}".ljust(60_000, "a"), lambda number: "token_embd.weight")
    dimensions = draft.choose([1], [2**16] * 4, [2**62], [0], [32, 32])
    one = struct.pack("<I", len(dimensions)) + struct.pack(f"<{len(dimensions)}Q", *dimensions) + struct.pack("<IQ", draft.choose(0, 1, 8,
        14), 0)
    count = draft.count(8 + len(name(99_999)) + len(one))
    write_gguf(draft, {}, tensors=count, rest=b"".join(string(name(number)) + one for number in range(count)) + bytes(1 << 16))


@folder(*GGUF)
def gguf_settings(draft):
    """Huge numbers in the settings of the architecture."""
    (path,) = draft.path.glob("*.gguf")
    entries, _, _ = metadata(path.read_bytes())
    keys = [key for key, value in entries.items() if struct.unpack_from("<I", value)[0] in (U32, I32, U64, F32)]
    changes = {key: draft.choose(struct.pack("<II", U32, 2**32 - 1), struct.pack("<IQ", U64, 2**63), struct.pack("<If", F32, float("nan")),
                                 struct.pack("<II", U32, 0)) for key in draft.chance.sample(keys, min(len(keys), 2))}
    write_gguf(draft, changes)
