"""Protection of keys, secrets and paths."""

import json
import os
import random
import signal
import string
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import Server, eventually, run_to_end
from raw import JSON_HEAD, Raw, Vitals, head, unharmed

KEYS = ["first-3f09c1e8", "second-77ab20d4"]
FILE_KEYS = ["third-b1c9e002", "fourth-0d5a9be1"]
TOKEN = "hf_do-not-tell-5512"
TEXT = "a text"


def bearer(key):
    return {"authorization": f"Bearer {key}"}


def status(server, key):
    return server.get("/info", bearer(key)).status


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# keys of the team\n{FILE_KEYS[0]}\n\n  {FILE_KEYS[1]}  \n# old-key\n")
    return path


@pytest.fixture
def keyed(key_file):
    with Server("--api-key", KEYS[0], "--api-key", KEYS[1], "--api-key-file", key_file, "--hf-token", TOKEN) as server:
        yield server


def test_each_of_several_keys_opens(keyed):
    assert [status(keyed, key) for key in KEYS + FILE_KEYS] == [200] * 4
    for key in ["# keys of the team", "# old-key", "old-key", "", "#", KEYS[0] + "," + KEYS[1], " ".join(KEYS)]:
        assert status(keyed, key) == 401, key


def test_a_key_is_taken_whole(keyed):
    """Rejects a part of the key, a longer key, and the key in another case."""
    for key in KEYS + FILE_KEYS:
        wrong = [key[:length] for length in range(len(key))] + [key[start:] for start in range(1, len(key))]
        wrong += [key + "a", key + key, "a" + key, key.upper(), key[:-1] + "\xff", key[:-1] + chr(ord(key[-1]) ^ 1)]
        assert [status(keyed, attempt) for attempt in wrong] == [401] * len(wrong), key


def test_a_key_counts_in_its_headers_only(keyed):
    for headers in ({"authorization": KEYS[0]}, {"authorization": f"Basic {KEYS[0]}"}, {"x-api-keys": KEYS[0]},
                    {"cookie": f"api_key={KEYS[0]}"}, {"proxy-authorization": f"Bearer {KEYS[0]}"},
                    {"authorization": "Bearer wrong", "x-api-key": KEYS[0]}, {"api-key": "wrong", "x-api-key": KEYS[0]}):
        assert keyed.get("/info", headers).status == 401, headers
    for headers in ({"x-api-key": KEYS[0]}, {"api-key": KEYS[0]}, {"authorization": "Basic eA==", "api-key": KEYS[0]}):
        assert keyed.get("/info", headers).status == 200, headers
    assert keyed.get(f"/info?api_key={KEYS[0]}").status == 401
    # Two headers: a wrong key next to the right one is refused, so a request cannot try several keys.
    with Raw(keyed.port) as client:
        fields = [("authorization", f"Bearer {key}") for key in ("wrong", KEYS[0])]
        client.send(head("GET", "/info", ("host", "a"), *fields))
        assert client.answer().status == 401


def test_keys_of_a_file_change_while_the_server_runs(keyed, key_file):
    new = "fifth-c4e1"
    replacement = key_file.with_name("new")
    replacement.write_text(f"{new}\n{FILE_KEYS[1]}\n")
    replacement.rename(key_file)
    eventually(lambda: status(keyed, new) == 200, "the new key opens")
    assert status(keyed, FILE_KEYS[0]) == 401, "the old one does not"
    assert [status(keyed, key) for key in (FILE_KEYS[1], *KEYS)] == [200] * 3
    key_file.write_text(f"{FILE_KEYS[0]}\n")
    keyed.process.send_signal(signal.SIGHUP)
    eventually(lambda: status(keyed, FILE_KEYS[0]) == 200, "a file written in place is read too")
    assert [status(keyed, key) for key in (new, FILE_KEYS[1])] == [401] * 2


@pytest.mark.parametrize("spoil", [
    lambda path: path.write_text("# nothing but a comment\n\n"),
    lambda path: path.write_text(""),
    lambda path: path.unlink(),
    lambda path: path.write_bytes(b"\xff\xfe\x00"),
], ids=["comments", "empty", "gone", "no text"])
def test_a_bad_file_leaves_the_keys_as_they_are(keyed, key_file, spoil):
    """A broken key file neither opens the server nor locks out valid keys."""
    reloaded = lambda: keyed.metric("prefold_last_reload_successful", files="api_keys")
    eventually(lambda: reloaded() == 1, "the file has been read again")
    spoil(key_file)
    before = keyed.log()
    keyed.process.send_signal(signal.SIGHUP)
    eventually(lambda: "key" in keyed.log()[len(before):].lower(), "the log says so")
    eventually(lambda: reloaded() == 0, "the metrics say so")
    assert [status(keyed, key) for key in KEYS + FILE_KEYS] == [200] * 4
    assert status(keyed, "") == 401 and keyed.get("/info").status == 401
    assert keyed.process.poll() is None


SECRETS = [*KEYS, *FILE_KEYS, TOKEN]


def test_no_secret_is_told(key_file):
    """Secrets appear neither in the most verbose log, nor in any response, nor in an error about a wrong key."""
    given = ["--api-key", KEYS[0], "--api-key-file", key_file, "--log-level", "trace"]
    with Server(*given, env={"HF_TOKEN": TOKEN}) as server:
        said = []
        for key in (KEYS[0], *FILE_KEYS, f"{KEYS[0]}x"):
            for path in ("/info", "/metrics", "/docs/", "/api-doc/openapi.json", "/v1/models", "/no/such/route"):
                said.append(server.get(path, bearer(key)))
            for path in ("/embed", "/v1/embeddings"):
                said.append(server.post(path, {"inputs": TEXT, "input": TEXT}, bearer(key)))
                said.append(server.request("POST", path, b"{", bearer(key)))
            said.append(server.get("/info", {"authorization": f"Basic {key}"}))
        key_file.write_text("")
        server.process.send_signal(signal.SIGHUP)
        answers = "\n".join(f"{answer.headers} {answer.body.decode(errors='replace')}" for answer in said)
        assert [secret for secret in SECRETS if secret in answers] == []
        log = server.log()
        assert "/no/such/route" in log and "TRACE" in log
        assert [secret for secret in SECRETS if secret in log] == []
        with open(f"/proc/{server.process.pid}/cmdline", "rb") as file:
            assert FILE_KEYS[0].encode() not in file.read(), "what --api-key-file is for"


def test_a_request_tells_nothing_of_its_neighbours():
    """Responses to guesses at another client's text report the same cost for right and wrong guesses."""
    secret = "the code of the vault in the old town is 4711 and nobody else knows it"
    guess = secret.split(" and ")[0]
    guesses = [guess, guess.replace("4711", "4712"), guess.replace("4711", "9000")]
    with Server("--api-key", KEYS[0], "--api-key", KEYS[1], "--prometheus-port", "0") as server:
        over = threading.Event()

        def repeat():
            while not over.is_set():
                assert server.post("/embed", {"inputs": [secret] * 4}, bearer(KEYS[0])).status == 200

        told = {text: set() for text in guesses}
        with ThreadPoolExecutor(2) as threads:
            victims = [threads.submit(repeat) for _ in range(2)]
            try:
                for text in guesses * 10:
                    answer = server.post("/v1/embeddings", {"input": [text]}, bearer(KEYS[1]))
                    fields = {name: value for name, value in answer.headers.items()
                              if name.startswith("x-") and not name.endswith(("-time", "-id"))}
                    told[text].add(json.dumps([fields, answer.json()["usage"]], sort_keys=True))
            finally:
                over.set()
            assert all(victim.result() is None for victim in victims)
        saved = server.metrics().metric("prefold_tokens_saved_total")
    assert saved > 0, "the victim's own texts were folded"
    assert [len(seen) for seen in told.values()] == [1, 1, 1], told
    assert len(set.union(*told.values())) == 1, told


def folded(server, bodies):
    """Tokens saved by concurrent requests of several keys."""
    metrics = server.metrics()
    before = metrics.metric("prefold_tokens_saved_total")
    with ThreadPoolExecutor(len(bodies)) as threads:
        answers = list(threads.map(lambda body: server.post("/embed", {"inputs": body[1]}, bearer(body[0])), bodies))
    assert {answer.status for answer in answers} == {200}
    return metrics.metric("prefold_tokens_saved_total") - before


def test_prefixes_are_shared_within_a_key():
    """Many equal requests at once: batches merge requests of one key, never requests of two keys."""
    text = ["one and the same long text for everybody " * 20]
    keys = [f"key-{number}" for number in range(12)]
    given = [flag for key in keys for flag in ("--api-key", key)]
    with Server(*given, "--share-prefixes", "key", "--prometheus-port", "0") as server:
        assert folded(server, [(key, text) for key in keys]) == 0
        eventually(lambda: folded(server, [(keys[0], text)] * 12) > 0, "requests of one key meet in a batch")
    code, printed = run_to_end("--share-prefixes", "key")
    assert code == 2 and "--share-prefixes key" in printed and "--api-key" in printed, printed


@pytest.mark.parametrize("flags, most", [((), 75), (("--api-key", "key-0", "--share-prefixes", "key"), 40)])
def test_words_that_are_remembered_have_a_limit(flags, most):
    """Long distinct words. The tokenizers library would cache 85 MB of them in each thread, and where keys share nothing, a cached
    word would reveal by the response time that another key has sent it."""
    letters = random.Random(1)

    def text():
        return " ".join("".join(letters.choices(string.ascii_lowercase, k=250)) for _ in range(300))

    with Server(*flags, "--tokenization-workers", "1") as server:
        def send(words):
            answer = server.post("/tokenize", {"inputs": words}, bearer("key-0"))
            assert answer.status == 200, answer
        vitals, one = Vitals(server.process.pid), text()
        for _ in range(10):
            send(one)
        before = vitals.resident()
        for _ in range(40):
            send(text())
        growth = (vitals.resident() - before) / 1e6
    print(f"12,000 words of 250 letters: {growth:.1f} MB")
    assert growth < most


def test_texts_of_clients_stay_out_of_messages_and_logs():
    """Texts at the wrong place, and names that forge log lines."""
    secret, forged = "dear diary, today", 'x\n2026-01-01T00:00:00Z  INFO request: forged\x1b[2J'
    long = secret * 100_000
    with Server("--log-level", "trace") as server:
        for path, body in [
            ("/embed", {"inputs": "a", "dimensions": long}), ("/embed", {"inputs": {"a": secret}}),
            ("/embed", {"inputs": "a", "normalize": long}), ("/rerank", {"query": [secret], "texts": [secret]}),
            ("/rerank", {"query": "a", "texts": secret}), ("/rerank", {"query": "a", "texts": [{"text": [secret]}]}),
            ("/embed", {"inputs": [[secret, [secret]]]}), ("/decode", {"ids": secret}), ("/predict", {"inputs": [[secret] * 3]}),
            ("/similarity", {"inputs": {"source_sentence": secret, "sentences": secret}}),
        ]:
            answer = server.post(path, body)
            assert answer.status == 422 and secret.encode() not in answer.body and len(answer.body) < 1000, answer
        for path, body in [
            ("/v1/embeddings", {"input": "a", "encoding_format": forged + "y" * 31_000}),
            ("/embed", {"inputs": "a", "prompt_name": forged + "y" * 31_000}),
            ("/embed", {"inputs": "a", "truncation_direction": forged}),
        ]:
            answer = server.post(path, body)
            assert answer.status in (400, 422) and len(answer.body) < 2000, answer
        server.get("/no/such/" + "y" * 10_000)
        server.get("/v1/models/%0aforged%1b%5b2J")
        assert server.get("/v1/models/%ff").json()["error"]["code"] == "model_not_found"
        with Raw(server.port) as client:
            client.send(head("Y" * 5_000, "/embed"))
            client.answer()
        log = server.log()
    assert secret not in log and "y" * 300 not in log and "Y" * 300 not in log
    assert not any(line.startswith(("2026-01-01", "forged")) for line in log.splitlines()) and "\x1b" not in log


def test_addresses_are_told_without_their_passwords(tmp_path):
    for flags in (["--hf-endpoint", "http://user:hunter2@127.0.0.1:1", "--model-id", "some/model"],
                  ["--otlp-endpoint", "ftp://user:hunter2@127.0.0.1"]):
        code, printed = run_to_end(*flags, env={"HF_HOME": str(tmp_path)})
        assert code != 0 and "***@127.0.0.1" in printed and "hunter2" not in printed, printed


def test_refusals_at_the_start_do_not_tell_the_key():
    code, printed = run_to_end("--api-key", KEYS[0], "--hf-token", TOKEN, "--model-id", "no-such-model")
    assert code != 0 and KEYS[0] not in printed and TOKEN not in printed, printed
    code, printed = run_to_end("--api-key", f"{KEYS[0]}\n{KEYS[1]}")
    assert code != 0 and "line breaks" in printed and KEYS[0] not in printed and KEYS[1] not in printed, printed


def test_white_space_around_a_key_is_no_part_of_it():
    """A secret with the line feed of `echo`."""
    with Server(env={"API_KEY": f" {KEYS[0]}\n"}) as server:
        assert server.get("/info", {"authorization": f"Bearer {KEYS[0]}"}).status == 200
        assert server.get("/info", {"authorization": "Bearer "}).status == 401


UP = ["..", "%2e%2e", "%2E%2E", ".%2e", "%252e%252e", "..%00", "..;", "%c0%ae%c0%ae"]
SEPARATORS = ["/", "%2f", "%5c", "\\"]
STARTS = ["/", "/docs/", "/docs", "/v1/models/", "/api-doc/", "/v1/models/org/"]


def climbing(target):
    """Paths with parent directories, in plain and encoded form."""
    for start in STARTS:
        for up in UP:
            for separator in SEPARATORS:
                for depth in (1, 8):
                    yield start.rstrip("/") + separator + (up + separator) * depth + target.lstrip("/")
        yield start.rstrip("/") + "/" + target
        yield start + "%2f" + target.lstrip("/").replace("/", "%2f")
        yield start + "file://" + target


def test_no_path_of_a_request_reaches_the_file_system(builtin):
    """A file reachable only by its path: it is neither returned nor read."""
    content = f"canary {random.Random().randrange(10**12)}"
    canary = os.path.join(builtin.directory.name, "canary.txt")
    with open(canary, "w", encoding="ascii") as file:
        file.write(content)
    os.utime(canary, (1, 1_000_000_000))

    def was_read():
        return os.stat(canary).st_atime != 1

    served = {b"swagger", b"<!DOCTYPE html>"}
    with unharmed(builtin):
        for target in (canary, "canary.txt", "/etc/passwd"):
            for path in climbing(target):
                with Raw(builtin.port) as client:
                    client.send(head("GET", path, ("host", "a"), ("connection", "close")))
                    for answer in client.answers():
                        assert content.encode() not in answer.body and b"root:" not in answer.body, (path, answer)
                        is_docs = any(mark in answer.body for mark in served)
                        assert answer.status in (400, 404, 405) or answer.status < 400 and is_docs or \
                            answer.status in (301, 303, 307, 308), (path, answer)
        names = [canary, "../canary.txt", "canary.txt", f"file://{canary}", "../../../../etc/passwd", "/etc/passwd",
                 "..%2fcanary.txt", "canary.txt\0.json"]
        for name in names:
            bodies = {
                "/embed": {"inputs": TEXT, "prompt_name": name}, "/embed_all": {"inputs": TEXT, "prompt_name": name},
                "/tokenize": {"inputs": TEXT, "prompt_name": name}, "/v1/embeddings": {"input": TEXT, "model": name},
                "/v1/rerank": {"query": name, "documents": [name], "model": name, "instruction": name},
                "/rerank": {"query": TEXT, "texts": [name], "model": name, "instruction": name},
                "/score": {"text_1": name, "text_2": name, "model": name},
                "/predict": {"inputs": name, "prompt_name": name},
            }
            for path, body in bodies.items():
                response = builtin.post(path, body)
                assert response.status in (200, 400, 422) and content.encode() not in response.body, (path, name, response)
                assert b"root:" not in response.body
    assert not was_read()
    with open(canary, encoding="ascii") as file:
        file.read()
    if not was_read():
        pytest.skip("this file system keeps no access times: that nothing was read is shown by the answers only")


def test_other_headers_reach_nothing_either(builtin):
    """Headers that some servers interpret as paths or addresses."""
    fields = [("x-original-url", "/etc/passwd"), ("x-rewrite-url", "/../../etc/passwd"), ("x-forwarded-host", "evil"),
              ("x-http-method-override", "DELETE"), ("accept-language", "../../etc/passwd"), ("range", "bytes=0-9999999")]
    with unharmed(builtin), Raw(builtin.port) as client:
        client.send(head("GET", "/docs/", *JSON_HEAD, *fields, ("connection", "close")))
        (answer,) = client.answers()
        assert b"root:" not in answer.body and answer.status in (200, 206, 404, 416)
