"""Malformed model files and the real program: it names file and field, exits with status 1, and takes no more memory than with
valid files. backends/src/checkpoint/tests covers every kind of malformed file; these are the potentially most expensive ones."""

import base64
import json
import math
import os
import shutil
import struct

import pytest

from harness import FIXTURES, Server
from loading import refused

MIB = 1 << 20

# The system's figure for a process starts at its parent's, which is the test.
MODEST = 300 * MIB

# Limit of virtual memory, of which a process reserves more than it uses.
ADDRESS_SPACE = 3 << 30

# Limit for files of the maximum size that is read.
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
    """A header with these metadata entries."""
    header = b"GGUF" + struct.pack("<IQQ", 3, tensors, len(entries) if count is None else count)
    return header + b"".join(entries) + bytes(4096)


def array(key, kind, length, values=b""):
    return text(key) + struct.pack("<IIQ", 9, kind, length) + values


def write(path, begin, parts, end):
    """Writes a large file without holding it in memory."""
    with path.open("wb") as file:
        file.write(begin if isinstance(begin, bytes) else begin.encode())
        for part in parts:
            file.write(part.encode())
        file.write(end.encode())


def report(what, memory):
    """Prints figures, shown by `pytest -s`."""
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
    """Each file has the content that takes the most memory for its size."""
    def largest(name, begin, parts, end):
        path = model / name
        whole = path.read_bytes()
        write(path, begin, parts, end)
        size = path.stat().st_size
        output, memory = refused("--model-id", model)
        path.write_bytes(whole)
        assert name in output and "limit for such a file" not in output, output[:1000]
        report(f"{name} of {size / MIB:.1f} MiB", memory)
        assert memory < LARGEST

    largest("config.json", '{"a": [', ("[]," for _ in range(64 * MIB // 256 - 10)), "1]}")
    largest("config.json", '{"a": [', ("1," for _ in range(64 * MIB // 96 - 20)), "1]}")
    names = ",".join('"%x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(140_000))
    largest("model.safetensors", struct.pack("<Q", 8 * MIB), ("{", names), "}".ljust(8 * MIB - 1 - len(names)))
    vocab = (f'"{i}":{i},' for i in range(1_000_000))
    begin = '{"version":"1.0","model":{"type":"BPE","merges":[],"vocab":{'
    largest("tokenizer.json", begin, vocab, '"x":1000000}}}')
    # A trie with few shared bytes.
    pieces = ('["%05d%s",0],' % (i, "x" * 240) for i in range(12_000))
    begin = '{"version":"1.0","added_tokens":[],"model":{"type":"Unigram","unk_id":0,"vocab":['
    largest("tokenizer.json", begin, pieces, '["y",0]]}}')
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(array("a.b", 0, 1 << 23, bytes(1 << 23))))
    output, memory = refused("--model-id", path)
    assert "general.architecture" in output, output
    report("model.gguf with 2^23 values", memory)
    assert memory < LARGEST


def test_a_tokenizer_that_breaks_the_library_is_a_refusal(model):
    """A library's panic on a file appears neither in the log nor as a panic of the program."""
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    tokenizer["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "AAAAAP8="}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    output, _ = refused("--model-id", model)
    assert "tokenizer.json" in output, output


def replaced(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


@pytest.mark.parametrize("field, value, words", [
    ("normalizer", replaced({"String": "a"}, "a" * 1_000_000), "text of 1000000 bytes"),
    ("normalizer", {"type": "Sequence", "normalizers": [replaced({"String": "a"}, "aa")] * 40}, "1024 bytes of one"),
    ("normalizer", {"type": "Sequence", "normalizers": [{"type": "ByteLevel"}] * 30}, "1024 bytes of one"),
    ("normalizer", {"type": "Prepend", "prepend": "x" * (30 * MIB)}, "text of 31457280 bytes"),
    ("normalizer", {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(b"\xff" * 8).decode()}, "is cut"),
    ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(a|b|ab)*c"}, "behavior": "Isolated", "invert": False},
     "(a|b|ab)*"),
    ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "a*b"}, "behavior": "Isolated", "invert": False},
     "square of a text's length"),
    ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "((((a{60}){60}){60}){60}){60}"}, "behavior": "Isolated",
                       "invert": False}, "steps at a place"),
    ("decoder", {"type": "Sequence", "decoders": [replaced({"Regex": ""}, "aaa")] * 20}, "64 bytes of one"),
], ids=["million", "doublings", "bytes", "prefix", "charsmap", "exponential", "quadratic", "code", "decoder"])
def test_tokenizers_that_would_do_too_much_with_a_text(model, field, value, words):
    edit(model / "tokenizer.json", **{field: value})
    output, memory = refused("--model-id", model, address_space=ADDRESS_SPACE)
    assert "tokenizer.json" in output and field in output and words in output, output[:2000]
    assert memory < MODEST
    report(words, memory)


def test_absurd_files_are_refused_in_little_address_space(model, tmp_path):
    """An allocation by a stated size would end the process instead."""
    header = safetensors({"a": tensor(0, 1 << 40, [1 << 38])}, bytes(16))
    (model / "model.safetensors").write_bytes(header)
    output, _ = refused("--model-id", model, address_space=ADDRESS_SPACE)
    assert "model.safetensors" in output, output
    path = tmp_path / "model.gguf"
    for content in gguf(count=1 << 60), gguf(array("a.b", 0, 1 << 40)), gguf(tensors=1 << 60):
        path.write_bytes(content)
        output, _ = refused("--model-id", path, address_space=ADDRESS_SPACE)
        assert "model.gguf" in output, output


def test_a_batch_that_does_not_fit_the_address_space_is_refused_by_name():
    output, _ = refused("--max-batch-tokens", 200000, address_space=ADDRESS_SPACE)
    assert "`--max-batch-tokens` is 200000, which needs" in output and " fits" in output, output


def test_what_normalisation_makes_of_a_text_has_a_limit(model):
    # Qwen2's class would replace the normalizer.
    edit(model / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    edit(model / "tokenizer.json", normalizer=replaced({"String": "a"}, "a" * 900))
    with Server("--model-id", model, "--auto-truncate", "true") as server:
        refused_text = server.post("/embed", {"inputs": ["b", "a" * 5000]})
        assert refused_text.status == 422 and "item 1 has 5000 bytes" in refused_text.json()["error"], refused_text
        assert "normalisation" in server.post("/tokenize", {"inputs": "a" * 5000}).json()["error"]
        assert server.post("/embed", {"inputs": ["b" * 5000]}).status == 200


def test_dropout_is_left_out(model):
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    tokenizer["model"]["dropout"] = 0.9
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    text = "The tide comes in twice a day. " * 4
    with Server("--model-id", model) as server, Server("--model-id", FIXTURES / "qwen3-tiny") as plain:
        assert "dropout" in server.log()
        assert server.ask("/embed", inputs=[text] * 3) == plain.ask("/embed", inputs=[text] * 3)


def change_values(model, tensor, change):
    """Changes a tensor's values as a list."""
    path = model / "model.safetensors"
    content = bytearray(path.read_bytes())
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    (found,) = (entry for name, entry in header.items() if name.endswith(tensor))
    assert found["dtype"] == "F32"
    begin, end = (8 + length + offset for offset in found["data_offsets"])
    values = list(struct.unpack_from(f"<{(end - begin) // 4}f", content, begin))
    struct.pack_into(f"<{len(values)}f", content, begin, *change(values))
    path.write_bytes(content)


def test_states_whose_norm_overflows_are_an_error(model):
    """Each square is infinite, and a factor of 1 / infinity makes zeros of the states."""
    change_values(model, "embed_tokens.weight", lambda values: [value * 1e25 for value in values])
    with Server("--model-id", model, "--warmup-tokens", "0") as server:
        response = server.post("/embed", {"inputs": "The tide"})
        assert response.status == 424 and "not finite" in response.json()["error"], response


def test_a_start_of_which_no_answer_is_finite_is_refused(model):
    change_values(model, "layers.1.mlp.up_proj.weight", lambda values: [math.nan, *values[1:]])
    output, _ = refused("--model-id", model)
    assert "texts of the warm-up" in output and "a weight that is not finite" in output, output
    assert "--warmup-tokens 0" in output and "--dtype" not in output, output
    output, _ = refused("--model-id", model, "--dtype", "int8")
    (line,) = (line for line in output.splitlines() if "kept in bfloat16" in line)
    assert "WARN" in line and "not finite" in line and "layers.1.mlp" in line and "layers.0" not in line, output
    assert "--dtype float32" in output, output


def test_a_start_of_which_some_answers_are_not_finite_is_warned_of(model):
    """Vectors of texts with the token 5."""
    change_values(model, "embed_tokens.weight", lambda values: [*values[:5 * 64], math.nan, *values[5 * 64 + 1:]])
    with Server("--model-id", model) as server:
        (warning,) = server.get("/info").json()["warnings"]
        assert "texts of the warm-up" in warning and "not finite" in warning and "float32" not in warning
        assert any("WARN" in line and warning in line for line in server.log().splitlines())
        assert server.post("/embed", {"inputs": [[6, 7]]}).status == 200
        response = server.post("/embed", {"inputs": [[5]]})
        assert response.status == 424 and "not finite" in response.json()["error"], response
        assert "float32" not in response.json()["error"], response
