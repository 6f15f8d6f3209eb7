"""The texts of the tables, all from tests/workloads."""

import json
import random

from venvs import ROOT

WORKLOADS = ROOT / "tests" / "workloads"
# `prefold bench --preset chat-embedding`
CHAT = (
    "<|im_start|>system\nYou are a helpful assistant specialized in embedding text for retrieval tasks.<|im_end|>\n"
    "<|im_start|>user\n{query} embed the following sentences that is part of bing query dataset, with target to help "
    "find relevant web documents. {passage}<|im_end|>\n<|im_start|>assistant\n"
)


def lines(name):
    with (WORKLOADS / name).open() as file:
        return [json.loads(line) for line in file]


def passages():
    """512 passages of documentation: 45,558 tokens of BERT's uncased vocabulary."""
    return [line["text"] for line in lines("docs-passages.jsonl")]


def queries(server, shortest, longest):
    """The questions of the rerank workload with `shortest` to `longest` tokens, including the two special ones."""
    questions = [line["query"] for line in lines("docs-rerank.jsonl")]
    return [text for text, count in zip(questions, server.token_counts(questions)) if shortest <= count + 2 <= longest]


def chat_pairs(questions):
    """The first questions of the rerank workload, each with its 10 passages."""
    return [CHAT.format(query=line["query"], passage=passage["text"])
            for line in lines("docs-rerank.jsonl")[:questions] for passage in line["passages"]]


def of_lengths(server, lengths):
    """Texts of exactly the given numbers of tokens, without special ones, cut from the passages; each begins where the previous
    one ends. After all passages, their words follow again in random orders."""
    words = " ".join(passages()).split()
    counted = list(zip(words, server.token_counts(words)))
    one = next(word for word, count in counted if count == 1)
    made, at, order = [], 0, random.Random(1)
    for length in lengths:
        chosen, left = [], length
        while left:
            if at == len(counted):
                order.shuffle(counted)
                at = 0
            word, count = counted[at]
            if count <= left:
                chosen.append(word)
                left -= count
            elif count <= length:
                break
            # A word that is longer than the text is left out: no later text would get past it.
            at += 1
        made.append(" ".join(chosen + [one] * left))
    return made
