"""Short form of `make adversary`, and tests of its rules."""

import itertools
import random
import sys
import urllib.request
from pathlib import Path

import pytest

from harness import ROOT

sys.path.append(str(ROOT / "tests" / "adversary"))

import adversary  # noqa: E402
import answers  # noqa: E402
import folders  # noqa: E402
import hubs  # noqa: E402
import loader  # noqa: E402
import loads  # noqa: E402
import marks  # noqa: E402
import mix  # noqa: E402
import product_shapes  # noqa: E402
import schedules  # noqa: E402
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
# All floods and shapes, some products and attacks by key on the first kind, all shapes on the others; random attacks fill the remaining
# time.
ATTACKS = {"embedding": (schedules.everything, 80), "classifier": (schedules.shapes_only, 15), "encoder": (schedules.shapes_only, 15)}
# Attacks that multiply most on other kinds of models.
PRODUCTS = {"reranker": "one_text_for_all", "tokens": "labels_for_all_of_tokens", "labels": "scores_of_all_labels_of_tokens"}
# Bytes of the largest file of a model folder.
SCALE = 400_000


@pytest.mark.parametrize("kind", ATTACKS)
def test_no_attack_breaks_a_rule(kind):
    if not adversary.may_open(adversary.FILES):
        pytest.skip("5,000 connections need more descriptors than the hard limit")
    attacks, seconds = ATTACKS[kind]
    field = adversary.attack(kind, SEED, seconds, attacks=attacks)
    artefact(f"adversary-{kind}.json", adversary.figures(field))
    print(adversary.figures(field))
    assert not field.oracle.findings, adversary.report(field, SEED, kind)
    assert len(field.oracle.health) > 100 and len(field.oracle.good) > 20


@pytest.mark.parametrize("kind", PRODUCTS)
def test_no_product_breaks_a_rule(kind):
    field = adversary.attack(kind, SEED, 0, attacks=schedules.some_products(PRODUCTS[kind]), end=adversary.stopped)
    print(adversary.figures(field))
    assert not field.oracle.findings, adversary.report(field, SEED, kind)
    assert len(field.oracle.windows) == 1 and len(field.oracle.health) > 5 and len(field.oracle.good) > 3


def test_no_model_folder_breaks_a_rule():
    """Each maker once; two at a time."""
    found, count = loads.run(itertools.islice(loads.folder_jobs(SEED, SCALE), len(folders.FOLDERS)), 600)
    assert not found and count == len(folders.FOLDERS), "\n".join(found)


def test_no_hub_breaks_a_rule():
    """Each request of a download, with one endless answer."""
    found, count = loads.run(loads.hub_jobs(SEED, hubs.short), 600)
    assert not found and count == len(hubs.ASKED) + len(hubs.OF_XET), "\n".join(found)


def test_connections_without_a_request_do_not_hold_up_a_stop():
    found = []
    specials.stop_among_heads(lambda rule, detail: found.append(f"{rule}: {detail}"))
    assert not found, found


def test_attacks_are_the_same_for_the_same_seed():
    for number in (0, 7, 31):
        assert mix.mixed(SEED, number, ROUTES) == mix.mixed(SEED, number, ROUTES) != mix.mixed(SEED + 1, number, ROUTES)
    assert list(mix.matrix(SEED, ROUTES)) == list(mix.matrix(SEED, ROUTES))


def test_folders_are_the_same_for_the_same_seed(tmp_path):
    def made(name, seed, place):
        folders.make(name, seed, tmp_path / place, 10_000)
        return {file.relative_to(tmp_path / place): file.read_bytes() for file in (tmp_path / place).rglob("*") if file.is_file()}

    for name in folders.FOLDERS:
        assert made(name, 1, f"{name} 1") == made(name, 1, f"{name} 2"), name
    assert list(map(str, hubs.cases(SEED))) == list(map(str, hubs.cases(SEED)))


# The following tests break each rule once.

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
    """A server without requests."""

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
    (seen(status=429, flags=["--max-buffered-bytes"]), "refused"),
    (seen(status=429, flags=[]), "refused"),
    (seen(status=None, failure="the end"), "no answer"),
    (seen(status=422), "refused"),
    (seen(status=429, flags=["--max-buffered-bytes"], is_foreign=True), "another's text"),
])
def test_what_the_good_client_must_not_see_is_found(observed, rule):
    oracle = Oracle(Still, Limits())
    oracle.windows.append(Window("a", Load(), "", 0, 0, begun=0.0, ended=10.0))
    oracle.judge(observed)
    assert [finding.rule for finding in oracle.findings] == ([rule] if rule else [])


def test_the_bound_of_memory_follows_from_what_is_sent():
    limits = Limits()
    idle = limits.bound(Load(connections=1000)) - limits.bound(Load())
    assert idle == 1000 * CONNECTION
    held = Load(connections=1000, bodies=1000 * MB, parsed=1000 * MB, values=1000 * MB, requests=1000)
    assert limits.bound(held) - limits.bound(Load(connections=1000)) == (limits.buffered + limits.payload) * 12


def test_copies_of_what_is_shared_are_beyond_the_bound():
    """A copy of the query for each document, on the reranking routes, exceeds the attack's bound."""
    routes = [route for route in ROUTES if route.path.endswith("rerank")]
    attack = mix.together(SEED, "one_text_for_all", ["one_text_for_all"], [route for route in ROUTES if route.values == 1])
    assert Limits().bound(attack.load) < len(routes) * product_shapes.SHARED * product_shapes.ITEMS


def load(**more):
    return loader.Load(**{"status": 1, "seconds": 1.0, "peak": 50 * MB, "said": "config.json: too large", "bound": 512 * MB, "limit": 90.0, **more})


@pytest.mark.parametrize("done, rule", [
    (load(), None),
    (load(status=0, said=""), None),
    (load(status=1, said=" "), "message"),
    (load(said="a" * 100_000), "message"),
    (load(status=None), "killed"),
    (load(status=-6), "death"),
    (load(status=101), "status"),
    (load(peak=513 * MB), "memory"),
    (load(said="thread 'main' panicked at src/lib.rs"), "panic"),
    (load(problems=(("latency", "GET /health took 9 s"),)), "latency"),
])
def test_a_wrong_load_is_found(done, rule):
    assert [rule for rule, _ in loader.faults(done)] == ([rule] if rule else [])


@pytest.mark.parametrize("command, rule", [
    ("raise SystemExit(1)", "message"),
    ("print('no'); raise SystemExit(1)", None),
    ("a = b'x' * 600_000_000; print('no'); raise SystemExit(1)", "memory"),
    ("import os; os.abort()", "death"),
])
def test_what_a_program_takes_is_measured(command, rule, monkeypatch, tmp_path):
    program = tmp_path / "program"
    program.write_text(f"#!{sys.executable}\n{command}\n")
    program.chmod(0o700)
    monkeypatch.setattr(loader, "PREFOLD", program)
    assert [rule for rule, _ in loader.faults(loader.check("model", size=0))] == ([rule] if rule else [])


def test_a_program_that_takes_all_of_a_hub_is_found(monkeypatch):
    """The program keeps all data, and follows every redirect with its token."""
    def takes_all(model, _, url, __, cache, *more, **options):
        data = urllib.request.urlopen(urllib.request.Request(f"{url}/api/models/{model}", headers={"authorization": hubs.SECRET})).read(15 * MB)
        Path(cache, "kept").write_bytes(data[:10 * MB])
        return load()
    monkeypatch.setattr(hubs.loader, "check", takes_all)
    monkeypatch.setattr(hubs, "MOST", 20 * MB)
    monkeypatch.setattr(hubs, "TAKEN", 10 * MB)
    listing = "GET", hubs.LISTING
    endless = hubs.Case(listing, "", hubs.text_without_an_end(random.Random(1)), True)
    assert {rule for rule, _ in hubs.play(endless)} == {"taken", "left"}

    def redirect(handler, body):
        hubs.begin(handler, 302, ("location", f"http://{handler.hub.elsewhere.host}/"), ("content-length", "0"))
        handler.end_headers()
    assert "secret" in {rule for rule, _ in hubs.play(hubs.Case(listing, "", redirect, True))}
