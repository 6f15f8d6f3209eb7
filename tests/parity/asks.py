"""What a checkpoint is asked, in words that both sides understand: the libraries and a server."""

import json

STRATEGIES = ("none", "simple", "first", "average", "max")
MOST_PROMPTS = 3


def of(draft, folder):
    """The asks of a draft's task."""
    found = [{"ask": "tokenize"}]
    if draft["task"] == "embed":
        found += [{"ask": "embed"}]
        found += [{"ask": "embed", "prompt_name": name} for name in prompts(folder)[:MOST_PROMPTS]]
        found += [{"ask": "embed", "input_type": name} for name in ("query", "document")]
        found += [{"ask": "embed", "dimensions": 5}]
    elif draft["task"] == "pair":
        found += [{"ask": "pair"}, {"ask": "pair", "raw": True}]
    elif draft["task"] == "prompted":
        found += [{"ask": "pair", "prompted": True}]
    elif draft["task"] == "classify":
        found += [{"ask": "classify"}, {"ask": "classify", "raw": True}]
    else:
        found += [{"ask": "tokens", "strategy": name} for name in STRATEGIES]
    return found


def prompts(folder):
    """Names of the prompts that the files have."""
    try:
        found = json.loads((folder / "config_sentence_transformers.json").read_text(encoding="utf-8"))["prompts"]
        return sorted(found)
    except (OSError, KeyError, TypeError):
        return []


def pairs(texts):
    """Pairs of neighbouring texts."""
    return [[first, second] for first, second in zip(texts, texts[1:] + texts[:1])]


def ends_in_unit_vectors(folder):
    """True if the last module is Normalize; in a Router, the last module of the default route. A server then scales vectors;
    otherwise the request turns scaling off."""
    try:
        last = read(folder / "modules.json")[-1]
        if last["type"].endswith("Router"):
            router = read(folder / last["path"] / "router_config.json")
            route = router["structure"][router["parameters"]["default_route"]]
            return router["types"][route[-1]].endswith("Normalize")
        return last["type"].endswith("Normalize")
    except (OSError, IndexError, KeyError, TypeError):
        return False


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))
