"""Shapes of products: values shared by many items, and lists that multiply. Each item and the body are within their limits."""

import json

import shapes
from steps import Pause, Read, Send

SHARED, ITEMS = 100_000, 2000
# Maximum tokens of one request in the queue at a time: a chunk of inputs.
TOKENS = 2048 * 2048
# Fields with the items of a request, and fields with values that all items share; a value of either kind may be refused.
LISTS = ("inputs", "input", "texts", "documents", "ids")
ONES = ("query", "queries", "source_sentence", "prompt", "instruction", "prompt_name", "task", "model", "truncation_direction",
    "input_type")


def with_lists(value, items):
    """The body with its lists replaced, within objects too."""
    if not isinstance(value, dict):
        return value
    return {name: items if name in (*LISTS, "sentences") else with_lists(one, items) for name, one in value.items()}


def asked(draft, value, count, tokens=None, longest=SHARED, wait=0, seconds=2):
    """The request with this value. Its reader may wait, and disconnects early, since the request may be much work."""
    body = json.dumps(value).encode()
    load = draft.load(body, len(body), inputs=count, tokens=min(count * 2048, TOKENS) if tokens is None else tokens, encoded=longest,
                      tokenized=len(body))
    steps = Send(draft.request(body)), *([Pause(wait)] if wait else []), Read(seconds - wait)
    return draft.play(*steps, load=load, receive_buffer=4096 if wait else None)


def items(draft, count, one="a"):
    """Items of a letter, in the form of the route."""
    path = draft.route.path
    return [[one] for _ in range(count)] if path == "/predict" else [[7]] * count if path == "/decode" else [one] * count


@shapes.product
def one_text_for_all(draft):
    """A long query, prompt or instruction, and one-letter documents: the long text is stored and read once."""
    long = draft.huge(SHARED)
    value = with_lists(draft.value(1), items(draft, ITEMS))
    shared = {"query": long} if "query" in value else {"queries": long} if "queries" in value else {
        "inputs": {**value["inputs"], "source_sentence": long}} if isinstance(value.get("inputs"), dict) else {
        draft.chance.choice(ONES): long[:draft.chance.choice([16_000, SHARED])]}
    return asked(draft, {**value, **shared}, ITEMS)


@shapes.product
def options_for_all(draft):
    """A prompt at its limit, and lists in the fields of options."""
    value = with_lists(draft.value(1), items(draft, ITEMS))
    options = {"prompt": draft.huge(16_000)[:16_000], "instruction": draft.huge(16_000)[:16_000],
        "parameters": {"prompt": draft.huge(16_000)[:16_000]},
               "truncate_prompt_tokens": 3, "return_documents": True, "top_n": ITEMS, "raw_scores": True}
    chosen = draft.chance.sample(sorted(options), 2)
    return asked(draft, {**value, **{name: options[name] for name in chosen}}, ITEMS)


@shapes.product
def labels_for_all(draft):
    """As many labels to ignore as fit in a body, none of which exists, and texts with many tokens, on as many connections as are served at
    once."""
    label = draft.chance.choice(["", "x"])
    value = with_lists(draft.value(1), items(draft, 300, "the cat sat on the mat " * 10))
    value |= {"aggregation_strategy": draft.chance.choice(["none", "average"]),
        "ignore_labels": [label] * (1_000_000 if draft.route.values > 1 else 50_000)}
    return [asked(draft, value, 300, seconds=4) for _ in range(3)] if draft.route.values > 1 else asked(draft, value, 300)


@shapes.product
def scores_of_all_labels(draft):
    """Logits of all labels for each of a few hundred tokens, in unread answers."""
    value = with_lists(draft.value(1), items(draft, 4, "the cat sat on the mat " * 10))
    value |= {"raw_scores": True, "use_activation": False, "aggregation_strategy": "none"}
    return [asked(draft, value, 4, longest=300, wait=1.5, seconds=2.5) for _ in range(3)]


@shapes.product
def many_small_values(draft):
    """A hundred thousand empty values, as the items or in an ignored field."""
    one = draft.chance.choice(["", [], {}, [[]], None, {"": ""}, {"text": "a"}, [7], ["a", "b"]])
    many = [one] * draft.chance.choice([20_000, 100_000])
    value = draft.value(1)
    value = {**value, "ignored": many} if draft.chance.random() < 0.3 else with_lists(value, many)
    return asked(draft, value, len(many), tokens=len(many))


@shapes.product
def lists_of_ids(draft):
    """Inputs of token ids, as long as the model allows and longer, that repeat one list."""
    length, count = draft.chance.choice([(500, 400), (5000, 40), (50_000, 4), (1, 50_000)])
    return asked(draft, with_lists(draft.value(1), [[7] * length] * count), count)


@shapes.product
def texts_that_differ_at_their_end(draft):
    """Inputs with a long common prefix, which differ only at the end."""
    begun = draft.huge(3000)
    texts = [f"{begun} {number}" for number in range(100)]
    made = ([[text] for text in texts]
            if draft.route.path == "/predict" else [[7] * 900 + [number] for number in range(100)] if draft.route.path == "/decode" else texts)
    return asked(draft, with_lists(draft.value(1), made), 100)
