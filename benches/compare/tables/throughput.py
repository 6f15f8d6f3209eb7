"""tokens/s of many texts in one request: `minilm`, `bge-base`, `reranker`. prefold answers over HTTP, the peers in process."""

import check
import models
import texts
from report import compared
from rounds import alternate, running, turn
from tables.setting import Setting, check_all, row

PAIRS, PAIR_TOKENS, SPECIAL = 20, 300, 4
QUESTION = "How can I read in an entire file all at once?"
TORCH = ["torch-f32", "torch-bf16"]
REFERENCE = 8


def minilm(setting: Setting):
    """all-MiniLM-L6-v2, 512 passages; checked against the values of tests/fixtures."""
    cases, expected = check.minilm_cases()
    forms = models.minilm_forms()
    contenders = setting.own(forms["checkpoint"]) + setting.other_server(forms["exported"])
    contenders += setting.others(TORCH + ["onnxruntime", "onnxruntime-int8", "openvino-f32", "openvino", "openvino-int8", "fastembed"], forms)
    with running(contenders):
        right, checks = check_all(contenders, lambda one: check.vectors(one.dtype, one.embed(cases).values, expected))
        return measured(setting, right, checks, lambda one, some: one.embed(texts.passages()[:some]))


def bge_base(setting: Setting):
    """bge-base's shape with random weights, the same passages; checked against sentence-transformers in float32."""
    passages = texts.passages()
    return against_torch(setting, models.random_shape("bge-base", setting.prefold), lambda one, some: one.embed(passages[:some]),
                         check.vectors)


def reranker(setting: Setting):
    """XLM-RoBERTa-base's shape with random weights, 20 pairs of 300 tokens; checked against sentence-transformers in float32."""
    documents = []

    def work(one, some):
        if not documents:
            documents.extend(pair_documents(one))
        return one.score(QUESTION, documents[:some])

    return against_torch(setting, models.reranker(), work, check.logits)


def pair_documents(server):
    (question,) = server.token_counts([QUESTION])
    return texts.of_lengths(server, [PAIR_TOKENS - SPECIAL - question] * PAIRS)


def against_torch(setting, model, work, bound):
    contenders = setting.own(model) + setting.others(TORCH, {"checkpoint": model})
    with running(contenders):
        # The first contender, prefold, can count tokens.
        with turn(contenders[0]):
            work(contenders[0], 1)
        reference = next(one for one in contenders if one.label == TORCH[0])
        with turn(reference):
            expected = work(reference, REFERENCE).values
        right, checks = check_all(contenders, lambda one: bound(one.dtype, work(one, REFERENCE).values, expected))
        return measured(setting, right, checks, work)


def measured(setting, contenders, checks, work):
    """`work(contender, count)` does the first `count` of its texts (None: all)."""
    memory, tokens, vectors = {}, {}, {}

    def measure(one):
        # Wakes threads and allocates buffers.
        work(one, REFERENCE)
        answer = work(one, None)
        memory[one.name], vectors[one.name] = one.memory(), answer.values
        if tokens.setdefault("all", answer.tokens) != answer.tokens:
            raise RuntimeError(f"{one.name} computed {answer.tokens} tokens, the others {tokens['all']}")
        return answer.tokens / answer.seconds

    results = alternate(contenders, measure, setting.rounds)
    rows = [row(one, values, memory=memory[one.name]) for one, values in zip(contenders, results)]
    reference = vectors[contenders[0].name]
    if isinstance(reference[0], list):
        # The first contender, prefold in float32, has passed its check.
        for one in rows:
            one["cosine"] = check.cosines(vectors[one["name"]], reference)
    return {"unit": "tokens/s", "tokens": tokens["all"], "checks": checks, "rows": rows, "markdown": compared(rows, "tokens/s")}
