"""Encoders of 2024 and later, their shapes with random weights: `encoders` compares with sentence-transformers, `windows` measures by text
length."""

import random

import check
import models
import texts
from report import shown, table
from rounds import alternate, ratios, running, spread, turn
from tables.setting import Setting, row
from tables.throughput import against_torch

SHAPES = ["modernbert-base", "nomic-embed-text-v1.5", "embeddinggemma-300m"]
COUNT, SHORTEST, LONGEST, SPECIAL = 64, 64, 1024, 2
TOKENS, LENGTHS = 16_384, [512, 2048, 8192]


def encoders(setting: Setting):
    """64 texts of 64 to 1,024 tokens in one request; checked against sentence-transformers in float32."""
    results, markdown = {}, []
    for shape in SHAPES:
        results[shape] = against_torch(setting, models.encoder(shape), mixed_lengths(), check.vectors)
        markdown.append(f"{shape}: {results[shape]['tokens']:,} tokens\n\n{results[shape].pop('markdown')}")
    return {"shapes": results, "markdown": "\n\n".join(markdown)}


def mixed_lengths():
    """Work for against_torch: the first texts, of mixed lengths."""
    made = []

    def work(one, some):
        if not made:
            draw = random.Random(1)
            lengths = [SHORTEST, LONGEST] + [draw.randint(SHORTEST, LONGEST) for _ in range(COUNT - 2)]
            made.extend(texts.of_lengths(one, [length - SPECIAL for length in lengths]))
        return one.embed(made[:some])

    return work


def windows(setting: Setting):
    """16,384 tokens in texts of 512, 2,048 and 8,192, ModernBERT-base's shape, prefold alone: two layers of three see 128 tokens."""
    contenders = setting.own(models.encoder("modernbert-base"))
    with running(contenders):
        with turn(contenders[0]):
            batches = [texts.of_lengths(contenders[0], [length - SPECIAL] * (TOKENS // length)) for length in LENGTHS]

        def measure(one):
            one.embed(batches[0][:1])
            answers = [one.embed(batch) for batch in batches]
            return [1e6 * answer.seconds / answer.tokens for answer in answers], one.memory()["resident_mb"]

        results = alternate(contenders, measure, setting.rounds)
    rows, body = [], []
    for one, rounds in zip(contenders, results):
        times = [[values[at] for values, _ in rounds] for at in range(len(LENGTHS))]
        resident = [memory for _, memory in rounds]
        rows.append(row(one, times[0], longer=times[1:], resident_mb=resident))
        body.append([one.name, *(shown(spread(values)) for values in times), shown(ratios(times[-1], times[0])), shown(spread(resident))])
    header = ["us of a token", *(f"texts of {length:,}" for length in LENGTHS), "last : first", "resident MB after"]
    return {"unit": "us/token", "rows": rows, "markdown": table(header, body)}
