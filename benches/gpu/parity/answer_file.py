"""Files of `prefold-bench forward --answers`, read with numpy alone. Layout: benches/src/forward/answers.rs."""

import json
import struct
from dataclasses import dataclass

import numpy

# Ways to compute a batch, in the order of tables; an encoder has only the first.
WAYS = ("off", "ragged", "compact")
TYPES = {"U32": numpy.dtype("<u4"), "F32": numpy.dtype("<f4")}


class AnswersError(Exception):
    """The file does not contain answers, or is inconsistent."""


@dataclass
class Batch:
    """Token ids of sequences, and the vector of each sequence in each way, `[sequences, hidden_size]`, not normalised."""

    name: str
    sequences: list
    ways: dict

    @property
    def tokens(self):
        return sum(map(len, self.sequences))


@dataclass
class Answers:
    """Answers of a model: `metadata` has its directory, shape, layers, type, device and the command that made the file."""

    batches: list
    metadata: dict

    @property
    def layers(self):
        return int(self.metadata["layers"])

    @property
    def command(self):
        """Arguments of prefold-bench."""
        return json.loads(self.metadata["command"])


def read(path):
    """The answers of a file. Raises AnswersError."""
    try:
        tensors, metadata = safetensors(path.read_bytes())
        names = json.loads(metadata["batches"])
        answers = Answers([batch(tensors, index, name) for index, name in enumerate(names)], metadata)
        answers.layers, answers.command  # raises if one is missing
        return answers
    except OSError as error:
        raise AnswersError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise AnswersError(f"{path} is not a file of answers: {type(error).__name__} {error}") from error


def safetensors(data):
    """Tensors by name, and metadata, of a safetensors file's bytes."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        piece = data[8 + length + start : 8 + length + end]
        if len(piece) != end - start:
            raise ValueError(f"ends within {name}")
        tensors[name] = numpy.frombuffer(piece, TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, metadata


def batch(tensors, index, name):
    ids, starts = tensors[f"{index}.ids"], tensors[f"{index}.cu_seqlens"].astype(int)
    if starts[0] != 0 or starts[-1] != len(ids) or (numpy.diff(starts) <= 0).any():
        raise ValueError(f"cu_seqlens of {name}")
    sequences = [ids[start:end] for start, end in zip(starts, starts[1:])]
    ways = {way: tensors[f"{index}.{way}"] for way in WAYS if f"{index}.{way}" in tensors}
    if not ways or any(rows.ndim != 2 or len(rows) != len(sequences) for rows in ways.values()):
        raise ValueError(f"vectors of {name}")
    return Batch(name, sequences, ways)
