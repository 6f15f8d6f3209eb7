"""A decoder on texts that share prefixes: SmolLM2-135M-Instruct with its real weights, tokens/s of whole requests, in two loads.

`questions`: 4 questions with 10 passages each in the chat template of docs/benchmarks.md ("Serving on a CPU"), 40 texts. `prefix`: one prefix of 512
tokens before 16 passages. A token counts whether it was computed or shared. prefold compacts; sentence-transformers has nothing to share.
"""

import check
import models
import texts
from report import compared
from rounds import alternate, running, turn
from tables.setting import Setting, check_all, row

TORCH = ["torch-f32", "torch-bf16"]
QUESTIONS, REFERENCE = 4, 8
PREFIX, COUNT = 512, 16


def rerank(setting: Setting):
    model = models.smollm2()
    contenders = setting.own(model) + setting.others(TORCH, {"checkpoint": model})
    with running(contenders):
        with turn(contenders[0]):
            loads = {"questions": texts.chat_pairs(QUESTIONS), "prefix": prefixed(contenders[0])}
        reference = next(one for one in contenders if one.label == TORCH[0])
        sample = loads["questions"][:REFERENCE]
        with turn(reference):
            expected = reference.embed(sample).values
        right, checks = check_all(contenders, lambda one: check.vectors(one.dtype, one.embed(sample).values, expected))
        answers = {}

        def measure(one):
            one.embed(sample)
            answers[one.name] = {name: one.embed(load) for name, load in loads.items()}
            return {name: answer.tokens / answer.seconds for name, answer in answers[one.name].items()}

        results = alternate(right, measure, setting.rounds)
    tables, markdown = {}, []
    for name, load in loads.items():
        counted = {answers[one.name][name].tokens for one in right}
        if len(counted) != 1:
            raise RuntimeError(f"{name}: the contenders computed different numbers of tokens: {counted}")
        (tokens,) = counted
        exact = answers[reference.name][name].values
        rows = [row(one, [values[name] for values in rounds], cosine=check.cosines(answers[one.name][name].values, exact))
                for one, rounds in zip(right, results)]
        tables[name] = {"tokens": tokens, "texts": len(load), "rows": rows}
        markdown.append(f"{name}: {len(load)} texts, {tokens:,} tokens\n\n{compared(rows, 'tokens/s')}")
    return {"unit": "tokens/s", "checks": checks, "loads": tables, "markdown": "\n\n".join(markdown)}


def prefixed(server):
    (prefix,) = texts.of_lengths(server, [PREFIX])
    return [f"{prefix} {passage}" for passage in texts.passages()[-COUNT:]]
