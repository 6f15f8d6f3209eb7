"""Folders whose weights are a pickle: shapes, names and storages shared by many tensors, memos that double, deep stacks."""

import struct
import zipfile

from folders import folder

MEAN = ("bert-mean-tiny", "roberta-tiny", "distilbert-tiny")


def number(value):
    """An integer of up to 8 bytes."""
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -2**31 <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x09" + value.to_bytes(9, "little", signed=True)


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return b"X" + struct.pack("<I", len(data)) + data


def numbers(values):
    """A tuple."""
    return b"(" + b"".join(map(number, values)) + b"t"


def storage(elements, key="0"):
    return b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + number(elements) + b"tQ"


def tensor(storage_code, shape_code, stride_code, offset=0):
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage_code + number(offset) + shape_code + stride_code + b"\x89ccollections\nOrderedDict\n)RtR"


def put(code, place):
    return code + b"r" + struct.pack("<I", place)


def got(place):
    return b"j" + struct.pack("<I", place)


def names(count):
    return (text(f"{number:x}") for number in range(count))


def write(draft, code, elements=1, method=zipfile.ZIP_STORED, more=()):
    """Writes a checkpoint as torch.save does, with one storage."""
    draft.remove("model.safetensors")
    entries = [("m/data.pkl", b"\x80\x02" + code + b"."), ("m/data/0", bytes(4 * elements)), *more, ("m/version", b"3\n"), ("m/byteorder",
        b"little")]
    with zipfile.ZipFile(draft.path / "pytorch_model.bin", "w") as file:
        for name, data in entries:
            file.writestr(zipfile.ZipInfo(name), data, method)


def pickled(count, first, code):
    """A dictionary of this many names; the first has the value `first`, which may fill the memo for `code`, the value of all others."""
    return b"}(" + b"".join(name + (code if number else first) for number, name in enumerate(names(count))) + b"u"


@folder(*MEAN)
def shape_of_many_dimensions(draft):
    """One shape under many names."""
    dimensions = draft.choose(60, 65, 2000, 500_000)
    shape = put(numbers([1] * dimensions), 0)
    strides = draft.choose(got(0), numbers([0] * min(dimensions, 1000)))
    first = put(tensor(put(storage(1), 2), shape, strides), 1)
    write(draft, pickled(draft.count(18), first, draft.choose(got(1), tensor(got(2), got(0), got(0)))))


@folder(*MEAN)
def many_names_of_one_storage(draft):
    """Every name is the whole storage, which is as large as the file may be."""
    elements = draft.choose(1000, draft.scale // 4)
    first = put(tensor(put(storage(elements), 0), numbers([elements]), numbers([1])), 1)
    again = draft.choose(got(1), tensor(got(0), numbers([elements - 1]), numbers([1]), 1))
    write(draft, pickled(draft.count(100), first, again), elements)


@folder(*MEAN)
def expanded_tensors(draft):
    """Strides of zero: shapes larger than the file's data."""
    size = draft.choose(2**20, 2**33, 2**40, 2**62, -1)
    shape, strides = draft.choose(([size], [0]), ([size, size], [0, 0]), ([1000, 1000, 1000], [0, 0, 0]), ([459, 32], [0, 0]))
    code = tensor(storage(1), numbers(shape), numbers(strides))
    tensors = ["embeddings.word_embeddings.weight", *(f"encoder.layer.{number}.output.dense.weight" for number in range(draft.count(200)))]
    write(draft, b"}(" + b"".join(text(name) + code for name in tensors) + b"u")


@folder(*MEAN)
def values_that_double(draft):
    """Lists, tuples or dictionaries that each contain the previous one twice."""
    kind = draft.choose("list", "tuple", "dictionary")
    code, again = put(b"]", 0), got(0)
    for place in range(1, min(draft.count(20), draft.choose(30, 64, 100_000))):
        made = {"list": b"(" + code + again + b"l", "tuple": code + again + b"\x86",
            "dictionary": b"(" + text("a") + code + text("b") + again + b"d"}
        code, again = put(made[kind], place), got(place)
        if len(code) > 100_000:  # Deep nesting makes copies here slow.
            break
    write(draft, b"}(" + text("a") + code + b"u")


@folder(*MEAN)
def one_text_many_times(draft):
    """A long text in the memo, used by each value or as the name of each shard of a storage."""
    long = put(text("x" * draft.choose(1000, draft.scale // 2)), 0)
    repeated = draft.choose(got(0), got(0) * 2 + b"\x86", storage(1).replace(text("0"), got(0)))
    write(draft, b"}(" + text("a") + b"(" + long + repeated * draft.count(len(repeated) * 2) + b"lu")


@folder(*MEAN)
def deep_and_wide_stacks(draft):
    """Marks, empty values, calls and integers as long as the file."""
    count = draft.count(1)
    shapes = {
        "marks": b"(" * count, "empty lists": b"]" * count, "nested lists": b"(" * (count // 2) + b"l" * (count // 2),
            "pairs": b"]" + b"2" * count,
        "dictionaries": b"](" + b"}" * count + b"e", "integer": b"\x8b" + struct.pack("<i", count) + b"\xff" * count,
            "tuple": numbers([1] * (count // 2)),
        "stated integer": b"\x8b" + struct.pack("<i", 2**31 - 1), "stated text": b"X" + struct.pack("<I", 2**32 - 1),
            "nested tuples": b"]" + b"\x85" * count,
        "calls": b"ccollections\nOrderedDict\n)R" * (count // 28), "memo": b"]" + b"".join(put(b"", place) for place in range(count // 5)),
    }
    code = shapes[draft.choose(*shapes)]
    write(draft, code)


@folder(*MEAN)
def archives_of_many_entries(draft):
    """Zip entries of one byte, or data that compresses to a thousandth."""
    begun = tensor(storage(1), numbers([1]), numbers([1]))
    if draft.choose(True, False):
        write(draft, b"}(" + text("a") + begun + b"u", more=((f"m/data/{number:x}", b"") for number in range(1, draft.count(110))))
    else:
        write(draft, b"}(" + text("a") + begun + b"u", elements=draft.scale, method=zipfile.ZIP_DEFLATED)


@folder(*MEAN)
def many_shards_of_one_pickle(draft):
    """An index that names a file repeatedly, by other spellings or by links."""
    shape = put(numbers([1] * draft.choose(10, 64, 5000)), 0)
    draft.scale //= 8
    write(draft, pickled(draft.count(18), put(tensor(storage(1), shape, got(0)), 1), got(1)))
    whole = draft.path / "pytorch_model.bin"
    count = draft.choose(8, 64, 1000)
    shards = [f"pytorch_model-{number}.bin" for number in range(count)]
    for shard in shards:
        (draft.path / shard).hardlink_to(whole)
    whole.unlink()
    draft.write("pytorch_model.bin.index.json", {"metadata": {},
        "weight_map": {f"{number:x}": shards[number % count] for number in range(count * 4)}})
