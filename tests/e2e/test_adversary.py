"""Short form of `make adversary`, and tests of its rules."""

import random
import sys

import pytest

from harness import ROOT

sys.path.append(str(ROOT / "tests" / "adversary"))

import adversary  # noqa: E402
import answers  # noqa: E402
import marks  # noqa: E402
import mix  # noqa: E402
import specials  # noqa: E402
from limits import CONNECTION, MB, Limits  # noqa: E402
from oracle import Oracle, Window  # noqa: E402
from plays import Load, Play  # noqa: E402
from raw import head  # noqa: E402
from routes import ROUTES  # noqa: E402
from steps import Heard, Send  # noqa: E402
from target import fault  # noqa: E402
from test_slow_clients import artefact  # noqa: E402

SEED = 1
# All floods and shapes on the first, all shapes on the others; random attacks fill the rest of the time.
SECONDS = {"embedding": 75, "classifier": 15, "encoder": 15}


@pytest.mark.parametrize("kind", SECONDS)
def test_no_attack_breaks_a_rule(kind):
    if not adversary.may_open(adversary.FILES):
        pytest.skip("5,000 connections need more descriptors than the hard limit")
    field = adversary.attack(kind, SEED, SECONDS[kind], attacks=adversary.schedule if kind == "embedding" else adversary.shapes_only)
    artefact(f"adversary-{kind}.json", adversary.figures(field))
    print(adversary.figures(field))
    assert not field.oracle.findings, adversary.report(field, SEED, kind)
    assert len(field.oracle.health) > 100 and len(field.oracle.good) > 20


def test_connections_without_a_request_do_not_hold_up_a_stop():
    found = []
    specials.stop_among_heads(lambda rule, detail: found.append(f"{rule}: {detail}"))
    assert not found, found


def test_attacks_are_the_same_for_the_same_seed():
    for number in (0, 7, 31):
        assert mix.mixed(SEED, number, ROUTES) == mix.mixed(SEED, number, ROUTES) != mix.mixed(SEED + 1, number, ROUTES)
    assert list(mix.matrix(SEED, ROUTES)) == list(mix.matrix(SEED, ROUTES))


# What follows breaks each rule once.

OWN, OTHER = (marks.make(random.Random(seed)) for seed in (1, 2))
FIELD = marks.make(random.Random(3), marks.FIELD)


def response(status, body, *fields):
    return head("HTTP/1.1", str(status), *fields, ("content-length", len(body)), version="OK") + body


@pytest.mark.parametrize("data, rule", [
    (response(200, b"[1]"), None),
    (response(200, f'["{OWN}"]'.encode()), None),
    (response(200, f'["{OTHER}"]'.encode()), "another's text"),
    (response(200, b"[1]") * 2, "protocol"),
    (response(500, b'{"error": "a"}'), "status"),
    (response(422, b'{"error": ""}'), "message"),
    (response(429, b'{"error": "a"}'), "message"),
    (response(429, b'{"error": "a"}', ("retry-after", "1")), None),
    (response(422, f'{{"error": "not {OWN}"}}'.encode()), None),
    (response(422, f'{{"error": "not {(OWN + ".") * 40}"}}'.encode()), "message"),
    (b"HTTP/1.1 200 OK\r\n\r\n", "protocol"),
    (b"hello\r\n\r\n", "protocol"),
    (response(200, b"[1]")[:-1], "protocol"),
    (b"", "unanswered"),
])
def test_a_wrong_answer_is_found(data, rule):
    one = Play((Send(b"a"),), Load(connections=1), frozenset({OWN}), most=1, least=1)
    heard = Heard()
    heard.take(data)
    heard.is_closed = True
    rules = {rule for rule, _ in answers.faults(one, heard)}
    assert rules == ({rule} if rule else set()) or rule is None and rules <= {"unanswered"}, rules


def line(**fields):
    return adversary.json.dumps({"timestamp": "2026-01-01T00:00:00Z", "level": "INFO", **fields}).encode()


@pytest.mark.parametrize("said, is_json, is_fault", [
    (line(path="/embed"), True, False),
    (line(error=f"not {FIELD}"), True, False),
    (line(error=f"not {OWN}"), True, True),
    (line(error=(FIELD + ".") * 40), True, True),
    (line(level="ERROR"), True, True),
    (line(path="/embed")[:-1], True, True),
    (b"[]", True, True),
    (b"2026-01-01T00:00:00.000000Z  INFO request: path=\"/embed\"", False, False),
    (b"forged", False, True),
    (b"2026-01-01T00:00:00.000000Z  INFO request: path=\"/\x1b[31m\"", False, True),
    (b"2026-01-01T00:00:00.000000Z ERROR panic: panicked", False, True),
])
def test_a_wrong_log_line_is_found(said, is_json, is_fault):
    assert (fault(said, is_json) is not None) == is_fault


class Still:
    """A server of which nothing is asked."""

    class process:
        pid = "self"


def seen(**more):
    return {"what": "/embed", "at": 5.0, "seconds": 0.1, "status": 200, "is_same": True, "failure": None, "flags": [], **more}


@pytest.mark.parametrize("observed, rule", [
    (seen(), None),
    (seen(is_same=False), "wrong answer"),
    (seen(counts=[{"a": 1}, {"a": 2}]), "another's tokens"),
    (seen(seconds=60.0), "latency"),
    (seen(what="/health", seconds=5.0), "latency"),
    (seen(what="/health", status=503), "refused"),
    (seen(status=429, flags=["--max-buffered-bytes"]), None),
    (seen(status=429, flags=["--max-queued-tokens"]), "refused"),
    (seen(status=429, flags=["--max-buffered-bytes"], at=60.0), "refused"),
    (seen(status=None, failure="the end"), "no answer"),
    (seen(status=422), "refused"),
    (seen(status=429, flags=["--max-buffered-bytes"], is_foreign=True), "another's text"),
])
def test_what_the_good_client_must_not_see_is_found(observed, rule):
    oracle = Oracle(Still, Limits())
    oracle.windows.append(Window("a", Load(), {"--max-buffered-bytes"}, "", 0, 0, begun=0.0, ended=10.0))
    oracle.judge(observed)
    assert [finding.rule for finding in oracle.findings] == ([rule] if rule else [])


def test_the_bound_of_memory_follows_from_what_is_sent():
    limits = Limits()
    idle = limits.bound(Load(connections=1000)) - limits.bound(Load())
    assert idle == 1000 * CONNECTION
    held = Load(connections=1000, bodies=1000 * MB, parsed=1000 * MB, values=1000 * MB, requests=1000)
    assert limits.bound(held) - limits.bound(Load(connections=1000)) == (limits.buffered + limits.payload) * 11
    assert limits.filled(Load(bodies=limits.buffered // 2)) == {"--max-buffered-bytes"} and not limits.filled(Load(connections=5000))
