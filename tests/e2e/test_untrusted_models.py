"""Files of models that lie, and the real program: it says which file and field, ends with status 1, and takes no more memory
than honest files would. Every single lie is tried in backends/src/loading_tests; here are those that could cost most."""

import json
import os
import shutil
import struct

import pytest

from harness import FIXTURES
from loading import refused

MIB = 1 << 20

# The figure that the system gives for a process begins with its parent's, the test's own.
MODEST = 300 * MIB

# For files of the greatest size that is read at all.
LARGEST = 1536 * MIB


@pytest.fixture
def model(tmp_path):
    return shutil.copytree(FIXTURES / "qwen3-tiny", tmp_path / "model")


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def tensor(start, end, shape):
    return {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(*entries, count=None, tensors=0):
    """A header with these entries of metadata."""
    header = b"GGUF" + struct.pack("<IQQ", 3, tensors, len(entries) if count is None else count)
    return header + b"".join(entries) + bytes(4096)


def array(key, kind, length, values=b""):
    return text(key) + struct.pack("<IIQ", 9, kind, length) + values


def write(path, begin, parts, end):
    """A large file, without its content in the memory of the test."""
    with path.open("wb") as file:
        file.write(begin if isinstance(begin, bytes) else begin.encode())
        for part in parts:
            file.write(part.encode())
        file.write(end.encode())


def report(what, memory):
    """For those who ask (`pytest -s`)."""
    print(f"{what}: {memory / MIB:.0f} MiB")


@pytest.mark.parametrize("changes, words", [
    ({"num_hidden_layers": 10**9}, ["config.json", "num_hidden_layers", "1000000000"]),
    ({"vocab_size": 1 << 24}, ["model.embed_tokens.weight", "16777216"]),
    ({"num_attention_heads": 4096, "head_dim": 4096}, ["q_proj.weight", "16777216"]),
    ({"intermediate_size": 1 << 20}, ["gate_proj.weight", "1048576"]),
    ({"max_position_embeddings": 1 << 40}, ["max_position_embeddings", "1099511627776"]),
    ({"rope_theta": 0}, ["rope_theta", "above 0"]),
    ({"hidden_size": -64}, ["hidden_size", "-64"]),
    ({"num_key_value_heads": 1.5}, ["num_key_value_heads", "1.5"]),
], ids=lambda value: "-".join(value) if isinstance(value, dict) else "")
def test_configs_with_sizes_that_the_files_do_not_hold(model, changes, words):
    edit(model / "config.json", **changes)
    output, memory = refused("--model-id", model)
    assert all(word in output for word in words), output
    assert memory < MODEST
    report(changes, memory)


@pytest.mark.parametrize("content, words", [
    (struct.pack("<Q", (1 << 64) - 1) + bytes(64), "18446744073709551615"),
    (struct.pack("<Q", 99_999_999) + bytes(64), "99999999"),
    (safetensors({"a": tensor(0, 1 << 62, [1 << 60])}, bytes(16)), "0 to 4611686018427387904 do not fit"),
    (safetensors({"a": tensor(0, 1 << 40, [1 << 38])}, bytes(16)), "take 1099511627776 bytes, 16 are there"),
    (safetensors({"a": tensor(0, 16, [4]), "b": tensor(8, 24, [4])}, bytes(24)), "invalid offset for tensor"),
    (safetensors(b'{"a": {' + b"[" * MIB), "line 1 column"),
], ids=["length", "large length", "impossible tensor", "large tensor", "overlap", "nesting"])
def test_safetensors_headers_that_lie(model, content, words):
    (model / "model.safetensors").write_bytes(content)
    output, memory = refused("--model-id", model)
    assert "model.safetensors" in output and words in output, output
    assert output.count("not a whole safetensors file") == 1, f"once is enough: {output}"
    assert memory < MODEST
    report(words, memory)


@pytest.mark.parametrize("content, words", [
    (gguf(count=1 << 60), "1152921504606846976 entries"),
    (gguf(tensors=1 << 60), "1152921504606846976 tensors"),
    (gguf(text("a.b") + struct.pack("<IQ", 8, 1 << 62)), "metadata `a.b`"),
    (gguf(array("a.b", 0, 1 << 62)), "metadata `a.b`"),
    (gguf(text("a.b") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100_000), "metadata `a.b`"),
    (gguf(text("general.alignment") + struct.pack("<II", 4, 0)), "general.alignment"),
    (gguf(array("a.b", 0, 1 << 30, bytes(1 << 20))), "metadata `a.b`"),
], ids=["entries", "tensors", "string", "array", "nesting", "alignment", "bytes"])
def test_gguf_headers_that_lie(tmp_path, content, words):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    output, memory = refused("--model-id", path)
    assert "model.gguf" in output and words in output, output
    assert memory < MODEST
    report(words, memory)


def test_files_that_are_none_or_far_too_large(model):
    def pipe(path):
        os.mkfifo(path)

    def zeros(path):
        path.symlink_to("/dev/zero")

    def sparse(path):
        with path.open("wb") as file:
            file.truncate(100 << 30)

    def long(path):
        write(path, "[", ("[]," * 4096 for _ in range(100 * MIB // 3 // 4096)), "1]")

    for name in "config.json", "tokenizer.json", "model.safetensors":
        for make in (pipe, zeros, sparse, long):
            path = model / name
            whole = path.read_bytes()
            path.unlink()
            make(path)
            output, memory = refused("--model-id", model)
            assert name in output, output
            assert memory < MODEST, (name, make)
            report(f"{name} {make.__name__}", memory)
            path.unlink()
            path.write_bytes(whole)


def test_files_as_large_as_is_read_at_all_take_bounded_memory(model, tmp_path):
    """Each is made of what takes most memory for its size."""
    def largest(name, begin, parts, end):
        path = model / name
        whole = path.read_bytes()
        write(path, begin, parts, end)
        size = path.stat().st_size
        output, memory = refused("--model-id", model)
        path.write_bytes(whole)
        assert name in output and "such a file may have" not in output, output[:1000]
        report(f"{name} of {size / MIB:.1f} MiB", memory)
        assert memory < LARGEST

    largest("config.json", '{"a": [', ("[]," for _ in range(8 * MIB // 3 - 10)), "1]}")
    largest("config.json", '{"a": [', ("1," for _ in range(4 * MIB - 10)), "1]}")
    names = ",".join('"%x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(140_000))
    largest("model.safetensors", struct.pack("<Q", 8 * MIB), ("{", names), "}".ljust(8 * MIB - 1 - len(names)))
    vocab = (f'"{i}":{i},' for i in range(3_600_000))
    begin = '{"version":"1.0","model":{"type":"BPE","merges":[],"vocab":{'
    largest("tokenizer.json", begin, vocab, '"x":3600000}}}')
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(array("a.b", 0, 1 << 23, bytes(1 << 23))))
    output, memory = refused("--model-id", path)
    assert "general.architecture" in output, output
    report("model.gguf with 2^23 values", memory)
    assert memory < LARGEST


def test_a_tokenizer_that_breaks_the_library_is_a_refusal(model):
    """What a library does about a file is not the log's business, and no panic of the program."""
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    tokenizer["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    output, _ = refused("--model-id", model)
    assert "tokenizer.json" in output, output
