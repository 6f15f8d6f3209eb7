"""The smallest draft that still differs: settings dropped one at a time, then texts, then layers."""

import copy


def without(items, index):
    return [item for i, item in enumerate(items) if i != index]


def settings(draft, differs):
    """Drops settings until none can be dropped."""
    again = True
    while again:
        again = False
        for index in reversed(range(len(draft["settings"]))):
            smaller = {**draft, "settings": without(draft["settings"], index)}
            if differs(smaller):
                draft, again = smaller, True
    return draft


def parts(value):
    """Values with one item less, of a list or an object."""
    if isinstance(value, dict) and len(value) > 1:
        return [{name: item for name, item in value.items() if name != left} for left in value]
    if isinstance(value, list) and len(value) > 1:
        return [without(value, index) for index in range(len(value))]
    return []


def values(draft, differs):
    """Drops items of the settings' values."""
    for index in range(len(draft["settings"])):
        again = True
        while again:
            again = False
            for part in parts(draft["settings"][index][2]):
                smaller = copy.deepcopy(draft)
                smaller["settings"][index][2] = part
                if differs(smaller):
                    draft, again = smaller, True
                    break
    return draft


def texts(draft, differs, first):
    """One text if one suffices, then halves of it."""
    for text in [draft["texts"][first], *draft["texts"]] if first < len(draft["texts"]) else draft["texts"]:
        smaller = {**draft, "texts": [text]}
        if differs(smaller):
            draft = smaller
            break
    if len(draft["texts"]) == 1:
        draft = {**draft, "texts": [shorter(draft["texts"][0], lambda text: differs({**draft, "texts": [text]}))]}
    return draft


def shorter(text, still):
    """The text without pieces that do not matter, from halves down to single characters."""
    size = max(1, len(text) // 2)
    while size:
        start = 0
        while start < len(text):
            candidate = text[:start] + text[start + size:]
            if candidate and still(candidate):
                text = candidate
            else:
                start += size
        size //= 2
    return text


def minimise(draft, differs, first=0, budget=120):
    """The smallest draft for which `differs` is true; at most `budget` drafts are tried."""
    left = [budget]

    def tried(candidate):
        left[0] -= 1
        return left[0] >= 0 and differs(candidate)

    draft = settings(draft, tried)
    draft = texts(draft, tried, first)
    draft = values(draft, tried)
    for name in ("num_hidden_layers", "n_layers"):
        smaller = {**draft, "settings": [*draft["settings"], ["config.json", name, 1]]}
        if not any(setting[1] == name for setting in draft["settings"]) and tried(smaller):
            draft = smaller
            break
    return draft
