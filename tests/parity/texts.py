"""Random texts: words of several scripts, odd Unicode, special tokens, whitespace, short and long, repeated."""

import re
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[1] / "fixtures" / "encoders" / "corpus.txt"
WORDS = re.findall(r"\S+", CORPUS.read_text(encoding="utf-8"))
SCRIPTS = ["Пчёлы танцуют.", "東京は夜の七時。", "안녕하세요 세계", "مرحبا بالعالم", "नमस्ते दुनिया", "Καλημέρα κόσμε", "שלום עולם", "ไทยภาษา",
           "Ünïcödé naïve façade", "中文字符，標點。", "İstanbul ıŞ", "straße GROß", "ﬁne ﬂuﬀ"]
ODD = ["e\u0301\u0302", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u2028", "\x00", "\x07", "\x85", "\xa0", "\u3000", "👩‍🔬", "🇯🇵", "🏽", "\u202eabc", "𝔘𝔫𝔦",
       "Ⅻ", "½", "①", "ｆｕｌｌ", "\U0010ffff", "\ue000", "\ufffd", "ﷺ", "a\u0300\u0301\u0302", "ǆ", "ͅ", "…", "—", "№", "ſ", "K", "Å"]
SPACES = [" ", "  ", "\n", "\t", "\r\n", " \n ", "\u2003", "   \n\n"]
PUNCTUATION = list(".,;:!?'\"()[]{}<>@#$%^&*-_=+|\\/~`") + ["'s", "n't", "...", "```", "://"]


def word(rng):
    return rng.choice(WORDS)


def sentence(rng, count):
    return " ".join(word(rng) for _ in range(count))


def mixture(rng):
    pools = [WORDS, SCRIPTS, ODD, SPACES, PUNCTUATION, ["1", "23", "4567", "3.14", "1,000"]]
    return "".join(rng.choice(rng.choice(pools)) + rng.choice(["", " ", ""]) for _ in range(rng.randrange(2, 24)))


def text(rng, specials):
    """One text of a random kind. `specials` are the tokenizer's special tokens."""
    kind = rng.randrange(12)
    if kind <= 2:
        return sentence(rng, rng.randrange(1, 20))
    if kind == 3:
        return sentence(rng, rng.randrange(60, 200))
    if kind == 4:
        return rng.choice(["", " ", "\n", rng.choice(ODD), rng.choice(PUNCTUATION), word(rng)[0]])
    if kind == 5 and specials:
        around = [rng.choice(specials) if rng.random() < 0.4 else word(rng) for _ in range(6)]
        return rng.choice(["", " "]).join(around)
    if kind == 6:
        return rng.choice(SPACES) + sentence(rng, 3).upper() + rng.choice(SPACES)
    if kind == 7:
        return (rng.choice(SCRIPTS) + " ") * rng.randrange(1, 4)
    if kind == 8:
        return word(rng)[:2] * rng.randrange(30, 120)
    return mixture(rng)


def some(rng, specials, count):
    """Texts of a request; one may be there twice."""
    found = [text(rng, specials) for _ in range(count)]
    return [*found, found[0]] if rng.random() < 0.3 else found
