"""A model of `prefold-bench model` in transformers: the reference."""

import json
from itertools import groupby

import numpy
import safetensors.torch
import torch
import transformers

# Maximum tokens that go through the model together; a single sequence may have more.
CHUNK = 16_384


class TorchModel:
    """The model of a directory on a device, in float32 (without TF32) or bfloat16."""

    def __init__(self, directory, device, dtype):
        torch.set_float32_matmul_precision("highest")
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self.device = torch.device(device)
        # Vectors of encoders are means of all states, vectors of decoders the last state.
        self.is_encoder = json.loads((directory / "1_Pooling/config.json").read_text()).get("pooling_mode_mean_tokens", False)
        config = transformers.AutoConfig.from_pretrained(directory)
        config.use_cache = False
        with self.device:
            self.model = transformers.AutoModel.from_config(config, dtype=getattr(torch, dtype), attn_implementation="sdpa").eval()
        self.load(safetensors.torch.load_file(directory / "model.safetensors", device=str(self.device)))

    def load(self, tensors):
        """Copies the weights. BERT's pooler, which vectors do not need, is missing from the file; all other weights
        must be present."""
        keys = self.model.load_state_dict(tensors, strict=False)
        missing = [name for name in keys.missing_keys if not name.startswith("pooler.")]
        if missing or keys.unexpected_keys:
            raise ValueError(f"weights that are missing: {missing}, that have no place: {keys.unexpected_keys}")

    def hidden(self, ids, mask=None):
        """Final states `[sequences, tokens, hidden_size]` of ids `[sequences, tokens]`."""
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    def pool(self, hidden, lengths):
        """Vectors of sequences with the given lengths, padded on the right, `[sequences, hidden_size]`."""
        if not self.is_encoder:
            return hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1].float()
        inside = torch.arange(hidden.shape[1], device=hidden.device)[None] < lengths[:, None]
        return (hidden.float() * inside[..., None]).sum(dim=1) / lengths[:, None]

    @torch.inference_mode()
    def pooled(self, sequences, check):
        """Vectors of sequences of ids, `[sequences, hidden_size]` in float32; `check()` is called before each pass.

        Sequences of equal length form a batch: without padding no mask can be wrong.
        """
        order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
        rows = [None] * len(sequences)
        for length, group in groupby(order, key=lambda index: len(sequences[index])):
            group = list(group)
            size = max(1, CHUNK // length)
            for chunk in (group[start : start + size] for start in range(0, len(group), size)):
                check()
                ids = torch.from_numpy(numpy.stack([sequences[index] for index in chunk]).astype(numpy.int64)).to(self.device)
                lengths = torch.full((len(chunk),), length, device=self.device)
                for index, row in zip(chunk, self.pool(self.hidden(ids), lengths).cpu().numpy()):
                    rows[index] = row
        return numpy.stack(rows)
