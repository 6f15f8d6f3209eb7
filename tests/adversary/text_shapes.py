"""Shapes of contents: invalid text, deep nesting, and texts in fields that take none."""

import json

import marks
import shapes

SYNTAX = frozenset({400, 401, 422})
WRONG = frozenset({400, 401, 413, 422, 429})


def edited(draft, **changes):
    """A valid body with other values in some fields."""
    return json.dumps({**draft.value(), **changes}).encode()


@shapes.posts
def invalid_utf8(draft):
    body = draft.body()
    at = body.rindex(b'"') if b'"' in body else 1
    wrong = draft.chance.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\x80", b"\x00", b"\x1b[2J"])
    return draft.asked(draft.request(body[:at] + wrong + body[at:]), least=1)


@shapes.posts
def lone_surrogates(draft):
    body = draft.body()
    at = body.rindex(b'"') if b'"' in body else 1
    wrong = draft.chance.choice([rb"\ud800", rb"\udc00", rb"\ud800\ud800", rb"\ud83d", rb"\u00", rb"\x41"])
    return draft.asked(draft.request(body[:at] + wrong + body[at:]), least=1)


@shapes.posts
def deep_nesting(draft):
    """Values in unknown fields, which are skipped."""
    depth = draft.chance.choice([100, 127, 200, 20_000, 200_000])
    begun, ended = draft.chance.choice([("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
    value = begun * depth + ("1" if ":" in begun else "") + ended * draft.chance.choice([depth, 0])
    body = draft.body()[:-1] + f',"unknown":{value}}}'.encode()
    return draft.asked(draft.request(body), load=draft.load(body, len(body), tokens=200, tokenized=200), least=1)


@shapes.posts
def texts_in_fields_of_other_types(draft):
    """A text far too long for a message, in each field that does not take it."""
    return [draft.asked(draft.request(edited(draft, **{field: draft.huge(draft.chance.choice([5_000, 100_000]))})),
                        load=draft.load(body=110_000, tokens=2000, tokenized=110_000), allowed=WRONG, least=1)
            for field in draft.route.wrong]


@shapes.posts
def values_in_fields_of_texts(draft):
    """Documents, ids, texts and labels of wrong types, with texts inside."""
    texts = draft.huge(5_000)
    found = []
    for field in draft.value():
        for wrong in ({"text": texts}, [{"body": texts}, 7, None], [[texts, 1]], [[-1, 2**32, 1e300]], [1, texts], [[[texts]]],
                      [{"text": {"a": texts}}], {texts: [texts]}, -(10**30), True):
            found.append(draft.asked(draft.request(edited(draft, **{field: wrong})), least=1,
                                     load=draft.load(body=25_000, tokens=2000, tokenized=25_000)))
    return draft.chance.sample(found, 4)


@shapes.posts
def names_that_are_repeated(draft):
    """Names that answers or messages repeat, with control characters, and fields that come twice."""
    name = draft.huge(5_000)
    bodies = [
        edited(draft, prompt_name=name), edited(draft, model=draft.mark(marks.FIELD) + "\n\x1b[31m\u202e" * 300), edited(draft, **{name: 1}),
        edited(draft, instruction=draft.text(2000)), edited(draft, truncation_direction="up\n\x1b[31m" + name),
        draft.body()[:-1] + b"," + draft.body()[1:],
    ]
    return [draft.asked(draft.request(body), load=draft.load(body=25_000, tokens=6000, tokenized=25_000), least=1) for body in bodies]


@shapes.posts
def bodies_that_are_no_object(draft):
    body = draft.chance.choice([b"", b"[]", b'"a"', b"null", b"7", b"{", b"[" * 5000, b"nul", b"{}{}", b"\xef\xbb\xbf{}", b'{"a":' * 200,
                                b"inputs=a", f'"{draft.huge(5000)}"'.encode(), f'{{"a" {draft.huge(5000)}'.encode()])
    return draft.asked(draft.request(body), allowed=SYNTAX, least=1)


@shapes.posts
def accepted_types(draft):
    """Texts in the header `accept`."""
    accept = draft.chance.choice([f"application/octet-stream;dtype={draft.huge(3000)}", "application/octet-stream;q=nan;dtype=f16",
                                  ",".join(["*/*;q=0.1"] * 300), "\xff\xfe", draft.huge(3000)])
    return draft.asked(draft.request(None, ("accept", accept)), least=1)


@shapes.posts
def numbers_beyond_all_limits(draft):
    number = draft.chance.choice([2**32, 2**64, -1, 10**400, 1e300, 0.5, -(2**63)])
    fields = ("dimensions", "top_n", "truncate_prompt_tokens")
    return [draft.asked(draft.request(json.dumps({**draft.value(), field: number}).encode()), least=1) for field in fields]
