"""Effect of the weights' dtype on ranking: nDCG@10 of the passages of each question of the rerank workload, prefold alone, with
all-MiniLM-L6-v2 and the built-in model. Relevance is binary; passages are ranked by cosine.

Goal: int8 within 0.005 of float32.
"""

import math

import check
import models
import texts
from report import table
from rounds import running, turn
from tables.setting import Setting

DEPTH = 10


def ndcg(setting: Setting):
    questions = texts.lines("docs-rerank.jsonl")
    found = {name: of_model(setting, model, questions)
             for name, model in {"all-MiniLM-L6-v2": models.minilm(), "prefold-mini": models.builtin()}.items()}
    body = [[name, dtype, f"{value:.4f}", f"{value - values['float32']:+.4f}"] for name, values in found.items() for dtype, value in values.items()]
    return {"ndcg": found, "questions": len(questions), "markdown": table(["", "", f"nDCG@{DEPTH}", "less float32"], body)}


def of_model(setting, model, questions):
    """Mean nDCG by type."""
    contenders = setting.own(model)
    with running(contenders):
        found = {}
        for one in contenders:
            with turn(one):
                values = [of_question(one, question) for question in questions]
            found[one.dtype] = sum(values) / len(values)
    return found


def of_question(server, question):
    passages = question["passages"]
    query, *vectors = server.embed([question["query"], *(passage["text"] for passage in passages)]).values
    order = sorted(range(len(passages)), key=lambda at: -check.cosine(query, vectors[at]))
    return gain(passages[at]["relevant"] for at in order) / gain(sorted((passage["relevant"] for passage in passages), reverse=True))


def gain(relevant):
    """Discounted cumulative gain of the first 10 passages."""
    return sum(1 / math.log2(rank + 2) for rank, good in enumerate(relevant) if good and rank < DEPTH)
