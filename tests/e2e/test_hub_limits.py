"""A hostile hub: endless answers are cut off, redirects do not receive the token, and refused downloads leave nothing behind."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fake_hub import (AGAIN, CHUNKS, COMMIT, LISTING, NAME, PLAN, RESOLVE, TOKEN, XET_CHUNKS, XET_PLAN, Hub, endless, endless_headers, endless_refusal, longer,
                      redirect, send, trickle, unannounced, vast)
from harness import PREFOLD, Server, environment
from hub_fixtures import WEIGHTS, arguments, assert_serves, cache, hub, xet_hub
from loading import MEASURE, refused

CONFIG, POOLING = "config.json", "1_Pooling/config.json"
SECRET = "hf_secret_of_the_test"
# Maximum memory of a program that refuses a model; without limits on the hub it would be gigabytes.
SMALL = 400 << 20
# The same for reads by the storage's own client.
WITH_XET = 2400 << 20


def assert_nothing_left(cache):
    """The cache has only complete files, and without the hub no model is found in it."""
    repository = cache / f"models--{NAME.replace('/', '--')}"
    for path in repository.rglob("*"):
        assert path.suffix != ".incomplete" and path.exists(), f"{path} is left"
        assert path.is_file() or any(path.iterdir()), f"{path} is left empty"
    assert not (repository / "refs").exists()


def assert_starts(hub, cache):
    hub.heal()
    with Server(*arguments(hub, cache)) as server:
        assert_serves(server)


def listing(**changes):
    """A changed list of files."""
    def answer(handler, body):
        send(handler, json.dumps({**json.loads(body), **changes}).encode())
    return answer


def names(*files):
    return listing(siblings=[{"rfilename": name} for name in files])


def with_header(name, value):
    return lambda handler, body: send(handler, body, **{name: value})


@pytest.mark.parametrize("faults, file, words", [
    ({("GET", LISTING): endless}, LISTING, "limit of 16777216 bytes"),
    ({("GET", LISTING): endless_refusal}, LISTING, "no such repository"),
    ({("GET", LISTING): endless_headers}, LISTING, "HTTP request error"),
    ({("GET", LISTING): names(*map(str, range(30_000)))}, LISTING, "30000 files, more than the limit of 20000"),
    ({("HEAD", CONFIG): endless_headers}, CONFIG, "HTTP request error"),
    ({("HEAD", CONFIG): vast}, CONFIG, "limit of 8388608 bytes"),
    ({("HEAD", CONFIG): redirect(lambda handler: AGAIN + RESOLVE + CONFIG)}, CONFIG, "more than 10 redirects"),
    ({("HEAD", CONFIG): unannounced, ("GET", CONFIG): endless}, CONFIG, "limit of 8388608 bytes"),
    ({("HEAD", WEIGHTS): with_header("ETag", '""')}, WEIGHTS, "cannot be used as a file name"),
    ({("HEAD", WEIGHTS): vast}, WEIGHTS, "No space left on device"),
    ({("HEAD", WEIGHTS): unannounced, ("GET", WEIGHTS): endless}, WEIGHTS, "does not state its size"),
    ({("GET", WEIGHTS): endless}, WEIGHTS, "exceeds the limit of"),
    ({("GET", WEIGHTS): longer}, WEIGHTS, "exceeds the limit of"),
    ({("GET", WEIGHTS): endless_refusal}, WEIGHTS, "no such file"),
    ({("GET", WEIGHTS): endless_headers}, WEIGHTS, "HTTP request error"),
    ({("GET", WEIGHTS): redirect(lambda handler: AGAIN + RESOLVE + WEIGHTS)}, WEIGHTS, "more than 10 redirects"),
    ({("GET", WEIGHTS): redirect("file:///etc/passwd")}, WEIGHTS, "does not lead to an HTTP URL"),
], ids=lambda value: None if isinstance(value, str) else ", ".join(f"{method} {file} {fault.__name__}" for (method, file), fault in value.items()))
def test_a_hub_without_measure_is_refused(hub, cache, faults, file, words):
    hub.faults = faults
    output, peak = refused(*arguments(hub, cache))
    assert f"cannot get {file} of `{NAME}`" in output and words in output, output
    assert peak < SMALL, peak
    assert_nothing_left(cache)
    assert_starts(hub, cache)


@pytest.mark.parametrize("tag", ["../../../../escaped", "/tmp/escaped", "{SHA1{7ed4}}"])
def test_a_tag_that_is_no_name_leads_nowhere_else(hub, cache, tag):
    hub.faults["HEAD", WEIGHTS] = with_header("ETag", f'"{tag}"')
    with Server(*arguments(hub, cache)):
        pass
    assert not list(cache.parent.rglob("escaped")) and not Path("/tmp/escaped").exists()
    blobs = cache / f"models--{NAME.replace('/', '--')}" / "blobs"
    assert [path.name for path in blobs.iterdir() if path.name.startswith("etag-")], list(blobs.iterdir())


def test_a_mirror_without_the_storage_sends_the_file_itself(xet_hub, cache):
    xet_hub.faults["GET", TOKEN] = lambda handler, _: send(handler, WORDS.encode(), status=404)
    with Server(*arguments(xet_hub, cache), env={"NO_COLOR": "1"}) as server:
        log = server.log()
        assert "no token for the hub's Xet storage" in log and "forged line" in log
        assert "\x1b[31m" not in log and "\nforged" not in log and len(log) < 10_000, log[:2000]
    assert not [path for path, _ in xet_hub.seen if path.startswith((XET_PLAN, XET_CHUNKS))]


@pytest.mark.parametrize("method, file, words", [
    ("GET", LISTING, "not complete after 10 s"), ("HEAD", CONFIG, "no data was received for 1 s"), ("GET", CONFIG, "bytes were received in 2 s"),
    ("GET", WEIGHTS, "bytes were received in 2 s")])
def test_a_hub_that_sends_too_little_is_given_up(hub, cache, method, file, words):
    hub.faults[method, file] = trickling_headers if method == "HEAD" else trickle
    output, _ = refused(*arguments(hub, cache, timeout=1))
    assert f"cannot get {file} of `{NAME}`" in output and words in output and "--download-timeout" in output, output
    assert_nothing_left(cache)
    assert_starts(hub, cache)


def trickling_headers(handler, _):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.1)


def test_small_files_have_a_sum(hub, cache):
    """Each file is below its own limit."""
    size, module = 8_000_000, "1_Pooling/{}.json".format
    hub.files |= {module(n): json.dumps(f"{n:02}".ljust(size - 2)).encode() for n in range(40)}
    output, peak = refused(*arguments(hub, cache))
    assert "the files other than weights exceed the limit of 268435456" in output, output
    assert peak < SMALL, peak
    assert sum(path.stat().st_size for path in cache.rglob("blobs/*")) <= 268435456
    assert not list(cache.rglob("refs"))


def test_files_are_counted(hub, cache):
    hub.files |= {f"1_Pooling/{n}.json": b"%d" % n for n in range(2100)}
    output, _ = refused(*arguments(hub, cache))
    assert "the model needs more files than the limit of 2000" in output, output
    assert len(hub.requests) < 4100


def test_names_that_leave_the_folder_are_no_files_of_the_model(hub, cache):
    outside = ["../escaped.json", "1_Pooling/../../../../../escaped.json", "/tmp/escaped.json", "1_Pooling/\\escaped.json", "1_Pooling/a\n.json"]
    hub.faults["GET", LISTING] = names(*hub.files, *outside)
    with Server(*arguments(hub, cache)) as server:
        assert server.ask("/embed", inputs="a")
    assert not list(cache.parent.rglob("*escaped*"))
    assert not [path for path, _ in hub.seen if "escaped" in path or "%0A" in path]


WORDS = "\x1b[31m\nforged line " + "x" * 60_000


@pytest.mark.parametrize("method, file, fault", [
    ("GET", LISTING, lambda handler, _: send(handler, json.dumps({"error": WORDS}).encode(), status=418)),
    ("GET", CONFIG, lambda handler, _: send(handler, WORDS.encode(), status=418)),
    ("HEAD", CONFIG, with_header("ETag", '"' + "x" * 60_000 + '"')),
    ("GET", LISTING, listing(sha=WORDS)),
    ("HEAD", CONFIG, redirect("nowhere:" + "x" * 60_000)),
])
def test_what_the_hub_says_is_cut_and_stays_on_its_line(hub, cache, method, file, fault):
    hub.faults[method, file] = fault
    output, _ = refused(*arguments(hub, cache), env={"NO_COLOR": "1"})
    assert f"cannot get {file}" in output and "\x1b[31m" not in output and "\nforged" not in output, output[:2000]
    assert len(output) < 10_000


def checked(hub, cache, **environ):
    """Exit status, output and peak memory of a check."""
    home = cache.parent
    command = [PREFOLD, "check-model", *map(str, arguments(hub, cache))]
    command = [sys.executable, "-c", MEASURE, home / "peak", "None", *command]
    done = subprocess.run(command, env={**environment(home), **environ}, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr, int((home / "peak").read_text())


@pytest.mark.parametrize("file", [LISTING, CONFIG, WEIGHTS])
def test_a_check_reads_no_more_than_it_asked_for(hub, cache, file):
    """The weights begin with an endless header, announced with an allowed length."""
    def long_header(handler, body):
        send(handler, (8_000_000).to_bytes(8, "little"), length=-1)
        while True:
            handler.wfile.write(b" " * (1 << 20))

    hub.faults["GET", file] = long_header if file == WEIGHTS else endless
    status, output, peak = checked(hub, cache)
    assert status in (1, 3) and peak < SMALL, (status, output, peak)
    assert_nothing_left(cache)
    hub.heal()
    assert checked(hub, cache)[0] == 0


def test_a_check_reads_headers_up_to_their_sum(hub, cache):
    """Each file begins with a header of the maximum length."""
    size, shards = 8 << 20, [f"{n}.safetensors" for n in range(16)]
    whole = size.to_bytes(8, "little") + b"{}".ljust(size)
    index = {"weight_map": {str(n): shard for n, shard in enumerate(shards)}}
    del hub.files[WEIGHTS]
    hub.files |= {**dict.fromkeys(shards, whole), WEIGHTS + ".index.json": json.dumps(index).encode()}
    status, output, peak = checked(hub, cache)
    assert status == 3 and "the tensor headers of the model exceed the limit of 134217728 bytes" in output, (status, output)
    assert peak < SMALL, peak


@pytest.mark.parametrize("file, words", [(TOKEN, "limit of 65536 bytes"), (PLAN, "needed more memory"), (CHUNKS, "")])
def test_a_storage_without_measure_is_refused(xet_hub, cache, file, words):
    xet_hub.faults["GET", file] = endless
    output, peak = refused(*arguments(xet_hub, cache, timeout=8))
    assert f"cannot get {WEIGHTS} of `{NAME}`" in output and words in output, output
    assert peak < WITH_XET, peak
    assert_nothing_left(cache)
    assert_starts(xet_hub, cache)


def test_a_file_in_the_storage_needs_space(xet_hub, cache):
    xet_hub.faults["HEAD", WEIGHTS] = vast
    output, _ = refused(*arguments(xet_hub, cache))
    assert f"cannot get {WEIGHTS}" in output and "No space left on device" in output, output
    assert ("GET", TOKEN) not in xet_hub.requests
    assert_nothing_left(cache)


def test_a_storage_on_this_machine_is_refused(xet_hub, cache):
    """The storage's client would otherwise create the folder."""
    folder = cache.parent / "storage"
    answer = {"casUrl": f"local://{folder}", "exp": int(time.time()) + 3600, "accessToken": "xet"}
    xet_hub.faults["GET", TOKEN] = lambda handler, _: send(handler, json.dumps(answer).encode())
    output, _ = refused(*arguments(xet_hub, cache))
    assert f"cannot get {WEIGHTS}" in output and "is not an HTTP URL" in output, output
    assert not folder.exists()
    assert_nothing_left(cache)
    assert_starts(xet_hub, cache)


def test_the_storage_does_not_get_the_token_of_the_hub(xet_hub, cache):
    with Server(*arguments(xet_hub, cache), env={"HF_TOKEN": SECRET}) as server:
        assert server.ask("/embed", inputs="a")
    of_storage = [token for path, token in xet_hub.seen if path.startswith((XET_PLAN, XET_CHUNKS))]
    assert of_storage and SECRET not in str(of_storage)
    assert {token for path, token in xet_hub.seen if not path.startswith((XET_PLAN, XET_CHUNKS))} == {f"Bearer {SECRET}"}


FORMS = ["http://{host}{path}", "//{host}{path}", "/\\{host}{path}", "\\\\{host}{path}", "http:\\\\{host}{path}",
         "http://user@{host}{path}"]


@pytest.mark.parametrize("form", FORMS)
def test_the_token_goes_to_the_hub_alone(hub, cache, form):
    """Every form of a redirect to another host, followed by a further redirect there or back."""
    with Hub() as other:
        host = other.url.removeprefix("http://")
        away = redirect(lambda handler: form.format(host=host, path=handler.path))
        for key in [("GET", LISTING), ("HEAD", CONFIG), ("GET", CONFIG), ("GET", WEIGHTS), ("GET", "tokenizer.json")]:
            hub.faults[key] = away

        def on(handler, body):
            """Redirects once more."""
            if handler.path.startswith(AGAIN):
                return send(handler, body)
            return redirect(AGAIN + handler.path)(handler, body)

        other.faults = {("GET", CONFIG): on, ("GET", LISTING): on, ("GET", WEIGHTS): redirect(hub.url + AGAIN + RESOLVE + POOLING)}
        output, _ = refused(*arguments(hub, cache), env={"HF_TOKEN": SECRET})
        assert f"cannot get {WEIGHTS}" in output and SECRET not in output, output
        other.faults.pop(("GET", WEIGHTS))
        with Server(*arguments(hub, cache), env={"HF_TOKEN": SECRET}) as server:
            assert server.ask("/embed", inputs="a")
        asked = [path for path, _ in other.seen]
        assert f"/api/models/{NAME}" in asked and RESOLVE + CONFIG in asked and AGAIN + RESOLVE + CONFIG in asked
        assert {token for _, token in other.seen if token and SECRET in token} == set()
        assert {token for path, token in hub.seen if not path.startswith(AGAIN)} == {f"Bearer {SECRET}"}
        assert {token for path, token in hub.seen if path.startswith(AGAIN)} == {None}, "nothing leads back to it"


def test_redirects_of_the_hub_itself_are_followed_with_the_token(hub, cache):
    def moved(handler, body):
        if handler.path.startswith(AGAIN):
            return send(handler, body)
        return redirect(AGAIN + handler.path)(handler, body)

    hub.faults = {(method, file): moved for method in ("GET", "HEAD") for file in (LISTING, CONFIG, WEIGHTS)}
    with Server(*arguments(hub, cache), env={"HF_TOKEN": SECRET}) as server:
        assert server.ask("/embed", inputs="a")
    assert {token for _, token in hub.seen} == {f"Bearer {SECRET}"}
    assert any(path.startswith(AGAIN) for path, _ in hub.seen) and COMMIT in str(hub.seen)
