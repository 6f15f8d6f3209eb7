"""Cases of kernels/cuda/attention.cu and attention_plain.cu, without relative position embeddings."""

from functools import partial

import attention_plan as plans
import launch
from attention_run import Heads, attention
from case import case
from elements import BF16, F16, F32, FLOATS
from shapes import DECODERS, ENCODERS

LENGTHS = (128, 512, 2048)


def tree(sequences, max_len):
    return partial(plans.tree, sequences=sequences, max_len=max_len)


def whole(*lens, full=True, most=None, shuffled=True):
    return partial(plans.whole, lens=lens, full=full, most=most, shuffled=shuffled)


# Checks of the plain kernel and of the flash kernels' small tiles: short spans, also of long paths.
SHORT = {
    "causal tree": dict(heads=(4, 2), paths=tree(4, 30)),
    "causal tree, window 5": dict(heads=(2, 2), paths=tree(4, 40), window=5),
    "causal pieces, bias": dict(heads=(2, 2), paths=whole(130, 9, full=False, most=20), bias=True),
    "full pieces": dict(heads=(3, 1), paths=whole(150, 17, 1, most=10)),
    "full pieces, window 9, bias": dict(heads=(2, 2), paths=whole(90, 3, most=30), window=9, bias=True),
}
# Checks of the large tiles: spans of more queries than a small tile has.
LONG = {
    "causal tree": dict(heads=(4, 2), paths=tree(4, 110)),
    "causal tree, window 70": dict(heads=(3, 1), paths=tree(3, 110), window=70),
    "causal, bias": dict(heads=(2, 2), paths=whole(150, 1, 90, full=False), bias=True),
    "full": dict(heads=(2, 1), paths=whole(140, 3, 65)),
    "full, window 33, bias": dict(heads=(1, 1), paths=whole(150, 130), window=33, bias=True),
}


def of_scenario(kernel, variant, element, dim, scenario):
    heads = Heads(*scenario["heads"], dim)
    return case(kernel, variant, attention, element, **{**scenario, "heads": heads, "wanted": kernel})


def checks():
    for element in (BF16, F16):
        for stem in ("flash_attention", "flash_attention_bias"):
            for dim, sizes in launch.FLASH[stem].items():
                # Where there are small tiles only, they have the long spans too.
                for queries, scenarios in ((64, SHORT if 128 in sizes else SHORT | LONG), (128, LONG)):
                    for variant, scenario in scenarios.items():
                        if queries in sizes and scenario.get("bias", False) == (stem == "flash_attention_bias"):
                            yield of_scenario(f"{stem}_{element.name}_{dim}_{queries // 64}", variant, element, dim, scenario)
    for element in FLOATS:
        kernel = f"plain_attention_{element.name}"
        for dim, (variant, scenario) in zip((48, 5, 72, 1, 20), SHORT.items()):
            yield of_scenario(kernel, f"{variant}, heads of {dim}", element, dim, scenario)
    for element in (BF16, F16):
        kernel = f"plain_attention_{element.name}"
        odd = dict(paths=whole(40, most=20), shift=2, wanted=kernel)
        yield case(kernel, "heads of 64, not aligned", attention, element, Heads(1, 1, 64), **odd)
        # In the tiles of another kernel.
        yield of_scenario(kernel, "causal, bias, heads of 32", element, 32, LONG["causal, bias"])
    yield of_scenario("plain_attention_f32", "heads of 128", F32, 128, SHORT["causal tree"])


def lengths(rows):
    """Lengths of the timed sequences, up to the tokens of the batch."""
    return sorted({min(length, rows) for length in LENGTHS})


def timed(variant, element, heads, lens, full, **more):
    """A case of whole sequences, with the kernel that prefold uses for them; timed against torch if all have the same length."""
    positions = more.get("positions", ())
    queries = launch.plan_queries_per_tile(heads.dim, heads.group, element.size == 2 and not positions, lens)
    kernel = launch.attention(element, heads.dim, queries, 1, True, more.get("bias", False), bool(positions)).kernel
    sequences = dict(paths=whole(*lens, full=full, shuffled=False), batch=(len(lens), lens[0]))
    return case(kernel, variant, attention, element, heads, timed=True, **sequences, **more)


def equal(rows, length):
    """Lengths of a batch of sequences of `length` tokens, or of one shorter sequence if the batch has fewer."""
    return (min(length, rows),) * max(rows // length, 1)


def timings(rows):
    for name, shape in DECODERS.items():
        heads = Heads(shape.heads, shape.kv_heads, shape.head_dim)
        for length in lengths(rows):
            yield timed(f"{name}: causal {length}", BF16, heads, equal(rows, length), full=False)
    # Queries of many texts after one prompt, in compact space. torch would compute the prompt for each text.
    heads, branch, prefix = Heads(16, 8, 128), min(128, rows), min(512, rows)
    queries = launch.plan_queries_per_tile(heads.dim, heads.group, True, [prefix, branch])
    kernel, variant = f"flash_attention_bf16_128_{queries // 64}", f"Qwen3-0.6B: branches of {branch} after a prefix of {prefix}"
    paths = lambda rng: plans.shared_prefix(prefix, branch, rows)
    yield case(kernel, variant, attention, BF16, heads, paths=paths, timed=True)
    shape = ENCODERS["bge-base"]
    heads = Heads(shape.heads, shape.kv_heads, shape.head_dim)
    for length in (32, *lengths(rows)[:2]):
        yield timed(f"bge-base: full {length}", BF16, heads, equal(rows, length), full=True)
    yield timed("MPNet: full 512, bias", BF16, heads, equal(rows, 512), full=True, bias=True)
    shape = ENCODERS["MiniLM"]
    heads = Heads(shape.heads, shape.kv_heads, shape.head_dim)
    for element in (BF16, F32):
        yield timed("MiniLM: full 128", element, heads, equal(rows, 128), full=True)
    for name, heads in (("XLM-R XL", Heads(32, 32, 80)), ("heads of 96", Heads(16, 16, 96)), ("EmbeddingGemma", Heads(3, 1, 256))):
        yield timed(f"{name}: full 512", BF16, heads, equal(rows, 512), full=True)
