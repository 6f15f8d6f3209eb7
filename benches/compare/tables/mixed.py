"""64 texts of 8 to 512 tokens against the same number of tokens in equal lengths, prefold alone: without padding the time is
proportional to the tokens.

The model has MiniLM's shape and random weights, because all-MiniLM-L6-v2 itself reads at most 256 tokens.
"""

import random

import models
import texts
from report import shown, table
from rounds import alternate, ratios, running, spread, turn
from tables.setting import Setting, row

COUNT, SHORTEST, LONGEST, SPECIAL = 64, 8, 512, 2


def lengths():
    """(mixed, equal): lengths with special tokens; both have the same sum to within 63 tokens."""
    draw = random.Random(1)
    mixed = [SHORTEST, LONGEST] + [draw.randint(SHORTEST, LONGEST) for _ in range(COUNT - 2)]
    return mixed, [round(sum(mixed) / COUNT)] * COUNT


def mixed(setting: Setting):
    contenders = setting.own(models.random_shape("minilm-l6", setting.prefold))
    with running(contenders):
        with turn(contenders[0]):
            batches = [texts.of_lengths(contenders[0], [length - SPECIAL for length in sizes]) for sizes in lengths()]

        def measure(one):
            one.embed(batches[0])
            answers = [one.embed(batch) for batch in batches]
            return [(answer.tokens, answer.tokens / answer.seconds) for answer in answers]

        results = alternate(contenders, measure, setting.rounds)
    rows, body = [], []
    for one, rounds in zip(contenders, results):
        speeds = [[both[part][1] for both in rounds] for part in range(2)]
        tokens = [both[0] for both in rounds[0]]
        rows.append(row(one, speeds[0], equal=speeds[1], tokens=tokens))
        body.append([one.name, *(f"{count:,}" for count in tokens), *(shown(spread(speed)) for speed in speeds), shown(ratios(*speeds))])
    header = ["", "tokens, mixed", "tokens, equal", "tokens/s, mixed", "tokens/s, equal", "mixed : equal"]
    return {"unit": "tokens/s", "rows": rows, "markdown": table(header, body)}
