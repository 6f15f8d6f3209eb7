"""What a server makes of a hub in trouble: downloads go on where they broke off, waits are kept, and the cache is used where the hub does not forbid it."""

import json
import re
import shutil
import time

import pytest

from fake_hub import COMMIT, LISTING, NAME, as_date, breaks_off, close, in_seconds, later, page, rest, send, status, whole
from harness import Server
from hub_fixtures import WEIGHTS, arguments, assert_serves, cache, hub
from loading import refused

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
NEW = "fedcba9876543210fedcba9876543210fedcba98"
REPOSITORY = f"models--{NAME.replace('/', '--')}"


def blob(hub, cache, file):
    return (cache / REPOSITORY / "blobs" / hub.tag(file)).read_bytes()


def starts(ranges):
    """The first byte of each request."""
    return [int(text.removeprefix("bytes=").removesuffix("-")) if text else 0 for text in ranges]


@pytest.mark.parametrize("file, part", [(WEIGHTS, 200_000), (TOKENIZER, 5_000)])
def test_a_download_that_breaks_off_goes_on_from_there(hub, cache, file, part):
    """Breaks with progress are not counted; the tokenizer breaks off less often than there are attempts."""
    hub.faults["GET", file] = breaks_off(part)
    with Server(*arguments(hub, cache)) as server:
        assert_serves(server)
    assert blob(hub, cache, file) == hub.files[file]
    assert starts(text for text in hub.ranges if text) == list(range(part, len(hub.files[file]), part))


def test_more_breaks_than_attempts_are_no_matter_where_there_is_progress(hub, cache):
    hub.faults["GET", WEIGHTS] = breaks_off(80_000)
    with Server(*arguments(hub, cache)) as server:
        assert_serves(server)
    assert len(hub.files[WEIGHTS]) / 80_000 > 10 and blob(hub, cache, WEIGHTS) == hub.files[WEIGHTS]


@pytest.mark.parametrize("file", [LISTING, CONFIG, WEIGHTS])
def test_from_a_hub_without_ranges_a_file_comes_anew(hub, cache, file):
    hub.faults["GET", file] = breaks_off(300, answer=whole, times=1)
    with Server(*arguments(hub, cache)) as server:
        assert_serves(server)
    assert hub.requests.count(("GET", file)) == 2
    assert file == LISTING or blob(hub, cache, file) == hub.files[file]


def of_another_content(handler, body):
    """The rest of a file that has changed meanwhile, of the same length."""
    code, content, headers = rest(handler, body)
    return (code, content, headers) if code == 200 else (code, b"\0" * len(content), {**headers, "ETag": '"another"'})


def from_another_byte(handler, body):
    code, content, headers = rest(handler, body)
    return (code, content, headers) if code == 200 else (code, body[7:], {"Content-Range": f"bytes 7-{len(body) - 1}/{len(body)}"})


def of_another_length(handler, body):
    code, content, headers = rest(handler, body)
    return code, content, {name: value.replace(f"/{len(body)}", "/9999999") for name, value in headers.items()}


def from_nowhere(handler, body):
    code, content, _ = rest(handler, body)
    return code, content, {}


def none_at_all(handler, body):
    return (416, b"", {}) if handler.headers["Range"] else (200, body, {})


@pytest.mark.parametrize("answer", [of_another_content, from_another_byte, of_another_length, from_nowhere, none_at_all])
def test_a_rest_that_does_not_fit_is_not_added(hub, cache, answer):
    hub.faults["GET", WEIGHTS] = breaks_off(200_000, answer=answer, times=1)
    with Server(*arguments(hub, cache)) as server:
        assert_serves(server)
    assert blob(hub, cache, WEIGHTS) == hub.files[WEIGHTS]
    assert starts(hub.ranges)[-3:] == [0, 200_000, 0], "it comes anew"


def test_a_whole_file_that_calls_itself_a_rest_is_not_added(hub, cache):
    """Only the status says that the file begins again."""
    def whole_with_range(handler, body):
        _, _, headers = rest(handler, body)
        return 200, body, headers

    hub.faults["GET", WEIGHTS] = breaks_off(200_000, answer=whole_with_range, times=1)
    with Server(*arguments(hub, cache)) as server:
        assert_serves(server)
    assert blob(hub, cache, WEIGHTS) == hub.files[WEIGHTS]
    assert starts(hub.ranges)[-2:] == [0, 200_000]


def test_content_without_a_strong_tag_comes_anew(hub, cache):
    """Another content with the same weak tag would not be noticed."""
    hub.faults["GET", WEIGHTS] = breaks_off(200_000, answer=lambda handler, body: (200, body, {"ETag": 'W/"1"'}), times=1)
    with Server(*arguments(hub, cache)) as server:
        assert_serves(server)
    assert not any(hub.ranges)


@pytest.mark.parametrize("answer, part, requests", [(rest, 100, 7), (whole, 200_000, 4)])
def test_attempts_without_progress_and_restarts_are_bounded(hub, cache, answer, part, requests):
    """A connection that always breaks: after too few bytes, or with a hub that begins again each time."""
    hub.faults["GET", WEIGHTS] = breaks_off(part, answer=answer)
    output, _ = refused(*arguments(hub, cache))
    assert f"cannot get {WEIGHTS} of `{NAME}`" in output and "error decoding response body" in output, output
    assert hub.requests.count(("GET", WEIGHTS)) == requests
    assert not list(cache.rglob("*.incomplete"))


def test_a_size_holds_for_all_attempts_together(hub, cache):
    def with_more(handler, body):
        code, content, headers = rest(handler, body)
        return code, content + b" " * (code == 206), headers

    hub.faults["GET", WEIGHTS] = breaks_off(200_000, answer=with_more, times=1)
    output, _ = refused(*arguments(hub, cache))
    assert f"cannot get {WEIGHTS}" in output and str(len(hub.files[WEIGHTS])) in output, output
    assert not list(cache.rglob("*.incomplete"))


def test_the_least_rate_holds_for_all_attempts_together(hub, cache):
    """Each attempt brings some bytes, and breaks off before it could be found too slow by itself."""
    def slow_and_broken(handler, body):
        code, content, headers = rest(handler, body)
        send(handler, b"", status=code, length=len(content), **headers)
        for start in range(0, 50, 10):
            time.sleep(0.1)
            handler.wfile.write(content[start:start + 10])
        handler.close_connection = True

    hub.faults["GET", WEIGHTS] = slow_and_broken
    output, _ = refused(*arguments(hub, cache, timeout=1))
    assert f"cannot get {WEIGHTS}" in output and "--download-timeout" in output and "decoding" not in output, output


@pytest.mark.parametrize("method, file, fault", [
    ("GET", LISTING, later(6)), ("GET", LISTING, later(6, as_date)), ("HEAD", CONFIG, later(6, code=503)), ("GET", WEIGHTS, later(6))],
    ids=["seconds", "date", "503", "weights"])
def test_the_wait_that_a_hub_asks_for_is_kept(hub, cache, method, file, fault):
    """Longer than all attempts take otherwise. The wait itself does not count as silence."""
    hub.faults[method, file] = fault
    with Server(*arguments(hub, cache, timeout=7)) as server:
        assert_serves(server)
    assert hub.requests.count((method, file)) == 2


@pytest.mark.parametrize("form", [in_seconds, as_date])
def test_a_longer_wait_than_a_download_may_be_silent_is_not_begun(hub, cache, form):
    hub.faults["GET", LISTING] = status(429, **{"Retry-After": form(3600)})
    output, _ = refused(*arguments(hub, cache))
    assert "Rate limited" in output and "not today" in output and "--download-timeout" in output, output
    # A date has whole seconds.
    assert re.search("asks to wait (3599|360[0-9]) s", output), output
    assert hub.requests == [("GET", LISTING)]


def verdict(code, name):
    return status(code, **{"X-Error-Code": name, "X-Error-Message": "so it is"})


@pytest.mark.parametrize("fault, words", [
    (status(401, **{"X-Error-Message": "User Access Token is expired"}), "User Access Token is expired"),
    (status(403), "HTTP status 403"),
    (status(404), "no such repository"),
    (status(407), "HTTP status 407"),
    (status(500), "HTTP status 500"),
    (status(503), "HTTP status 503"),
    (status(429, **{"Retry-After": "3600"}), "Rate limited"),
    (close, "HTTP request error"),
    (page, LISTING),
    (lambda handler, _: send(handler, json.dumps({"sha": "main", "siblings": []}).encode()), "commit"),
], ids=["expired", "403", "404", "407", "500", "503", "429", "close", "page", "commit"])
def test_a_cached_model_is_served_where_the_hub_does_not_say_that_it_is_gone(hub, cache, fault, words):
    with Server(*arguments(hub, cache)):
        pass
    hub.faults["GET", LISTING] = fault
    with Server(*arguments(hub, cache), env={"HF_TOKEN": "hf_expired"}) as server:
        assert_serves(server)
        (warning,) = [line for line in server.log().splitlines() if " WARN " in line]
    assert words in warning and COMMIT in warning and "instead" in warning, warning


@pytest.mark.parametrize("fault", [
    verdict(401, "RepoNotFound"), verdict(404, "RepoNotFound"), verdict(403, "GatedRepo"), verdict(404, "RevisionNotFound"),
    status(403, **{"X-Error-Message": "Access to this resource is disabled."})],
    ids=["hidden", "gone", "gated", "revision", "disabled"])
def test_what_the_hub_itself_withholds_is_not_served_from_the_cache(hub, cache, fault):
    with Server(*arguments(hub, cache)):
        pass
    hub.faults["GET", LISTING] = fault
    output, _ = refused(*arguments(hub, cache))
    assert f"cannot get {LISTING} of `{NAME}`" in output and "--offline" in output, output
    with Server(*arguments(hub, cache), "--offline") as server:
        assert_serves(server)


def commits(hub):
    """A new commit of the branch, with another file."""
    hub.commit = NEW
    hub.files[CONFIG] = json.dumps({**json.loads(hub.files[CONFIG]), "note": "new"}).encode()


@pytest.mark.parametrize("method, file, fault", [
    ("HEAD", CONFIG, status(503)), ("GET", CONFIG, status(403)), ("GET", CONFIG, page), ("HEAD", WEIGHTS, status(500))],
    ids=["503", "403", "page", "weights"])
def test_the_old_commit_is_served_where_the_new_one_cannot_be_had(hub, cache, method, file, fault):
    with Server(*arguments(hub, cache)):
        pass
    commits(hub)
    hub.faults[method, file] = fault
    with Server(*arguments(hub, cache)) as server:
        assert_serves(server)
        assert server.get("/info").json()["model_sha"] == COMMIT
        (warning,) = [line for line in server.log().splitlines() if " WARN " in line]
    assert f"cannot get {file}" in warning and COMMIT in warning, warning
    main = cache / REPOSITORY / "refs" / "main"
    assert main.read_text() == COMMIT
    hub.heal()
    with Server(*arguments(hub, cache)) as server:
        assert_serves(server)
        # The new commit's config has a field that no model reads.
        (warning,) = [line for line in server.log().splitlines() if " WARN " in line]
        assert "`note`: \"new\" is ignored" in warning, warning
    assert main.read_text() == NEW


def test_a_new_commit_that_is_gated_or_lacks_a_file_is_not_passed_over(hub, cache):
    with Server(*arguments(hub, cache)):
        pass
    commits(hub)
    hub.faults["HEAD", CONFIG] = verdict(403, "GatedRepo")
    output, _ = refused(*arguments(hub, cache))
    assert f"cannot get {CONFIG}" in output and "access denied" in output and "so it is" in output, output
    hub.heal()
    del hub.files[TOKENIZER]
    output, _ = refused(*arguments(hub, cache))
    assert f"cannot get {TOKENIZER}" in output and "no such file" in output, output


@pytest.mark.parametrize("file", [CONFIG, TOKENIZER, WEIGHTS])
@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_half_a_model_in_the_cache_is_not_served(hub, cache, file, damage):
    with Server(*arguments(hub, cache)):
        pass
    path = cache / REPOSITORY / "snapshots" / COMMIT / file
    if damage == "missing":
        path.unlink()
    else:
        path.resolve().write_bytes(path.read_bytes()[:100])
    hub.faults["GET", LISTING] = status(503)
    output, _ = refused(*arguments(hub, cache))
    assert "the hub cannot be reached" in output and "no complete copy" in output and file in output, output


def test_the_cache_is_where_the_tools_of_the_hub_have_it(hub, tmp_path):
    """`HF_HUB_CACHE` comes before the older name, `~` and variables are expanded; a flag comes before both."""
    model = ["--model-id", NAME, "--hf-endpoint", hub.url]
    variables = {"HOME": str(tmp_path / "home"), "MINE": "models", "HUGGINGFACE_HUB_CACHE": str(tmp_path / "older")}
    for name in "home", "older", "flag":
        (tmp_path / name).mkdir()
    with Server(*model, env={**variables, "HF_HUB_CACHE": "~/$MINE"}) as server:
        assert_serves(server)
    assert (tmp_path / "home" / "models" / REPOSITORY).is_dir()
    shutil.rmtree(tmp_path / "home" / "models")
    with Server(*model, env=variables) as server:
        assert_serves(server)
    assert (tmp_path / "older" / REPOSITORY).is_dir()
    with Server(*model, "--huggingface-hub-cache", tmp_path / "flag", env={**variables, "HF_HUB_CACHE": "~/$MINE"}) as server:
        assert_serves(server)
    assert (tmp_path / "flag" / REPOSITORY).is_dir() and not (tmp_path / "home" / "models").exists()
