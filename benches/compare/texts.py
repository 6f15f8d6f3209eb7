"""The texts of the tables, all from tests/workloads."""

import json

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
    one ends."""
    words = " ".join(passages()).split()
    counts = server.token_counts(words)
    one = next(word for word, count in zip(words, counts) if count == 1)
    made, at = [], 0
    for length in lengths:
        chosen = []
        while length and length >= counts[at % len(words)]:
            chosen.append(words[at % len(words)])
            length -= counts[at % len(words)]
            at += 1
        made.append(" ".join(chosen + [one] * length))
    return made
