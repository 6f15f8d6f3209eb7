"""Despite faults of the hub or the cache's disk, a server starts with the complete model or names what is missing."""

import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from fake_hub import CHUNKS, COMMIT, LISTING, NAME, PLAN, TOKEN, close, cut_off, half_as_whole, hang, hang_halfway, page, short_page, slow, status
from harness import Address, Server, eventually
from hub_fixtures import WEIGHTS, arguments, assert_serves, cache, hub, xet_hub
from loading import Loading, refused


def assert_starts(hub, cache):
    """Once the hub works again, the same cache is usable."""
    hub.heal()
    with Server(*arguments(hub, cache)) as server:
        assert_serves(server)
    assert not list(cache.rglob("*.incomplete")), "half a file is left"


@pytest.mark.parametrize("method, file, fault, words", [
    ("GET", LISTING, status(500), ["the hub cannot be reached", "500"]),
    ("GET", LISTING, status(429, **{"Retry-After": "1"}), ["the hub cannot be reached", "Rate limited"]),
    ("GET", LISTING, status(404), ["there is no such repository"]),
    ("GET", LISTING, page, ["the list of files"]),
    ("GET", LISTING, close, ["the list of files"]),
    ("HEAD", "config.json", status(429), ["Rate limited"]),
    ("HEAD", "tokenizer.json", status(404), ["no such file"]),
    ("GET", WEIGHTS, status(500), ["500", "not today"]),
    ("GET", WEIGHTS, page, ["is not valid", "<html>Please sign in.</html>"]),
    ("GET", WEIGHTS, short_page, ["were announced", "<html>Please sign in.</html>"]),
    ("GET", WEIGHTS, cut_off, ["error decoding response body"]),
    ("GET", WEIGHTS, half_as_whole, ["were announced"]),
    ("GET", WEIGHTS, close, ["HTTP request error"]),
    ("GET", "config.json", short_page, ["were announced"]),
    ("GET", "1_Pooling/config.json", page, ["is not valid"]),
], ids=lambda value: getattr(value, "__name__", None) or (value if isinstance(value, str) else ""))
def test_a_hub_that_fails_is_refused_and_nothing_of_it_is_kept(hub, cache, method, file, fault, words):
    hub.faults[method, file] = fault
    output, _ = refused(*arguments(hub, cache))
    assert f"cannot get {file} of `{NAME}`" in output, output
    assert all(word in output for word in words), output
    assert_starts(hub, cache)


@pytest.mark.parametrize("method, file, fault", [
    ("GET", LISTING, hang), ("HEAD", "config.json", hang), ("GET", WEIGHTS, hang_halfway)])
def test_a_hub_that_hangs_is_given_up_and_the_server_lives_meanwhile(hub, cache, method, file, fault):
    hub.faults[method, file] = fault
    with Loading(*arguments(hub, cache, timeout=8)) as server:
        assert hub.reached.wait(60)
        assert server.status("/health") == 200
        answer = server.get("/ready")
        assert answer.status == 503 and b"loading" in answer.body
        assert server.wait() == 1
        output = server.log()
    assert f"cannot get {file} of `{NAME}`" in output, output
    assert "no data was received for 8 s" in output and "--download-timeout" in output, output
    assert_starts(hub, cache)


def test_metrics_have_an_answer_while_the_model_loads(hub, cache):
    hub.faults["GET", LISTING] = hang
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Loading(*arguments(hub, cache, timeout=3600), "--prometheus-port", port) as server:
        assert hub.reached.wait(60)
        for address in server, Address(port):
            answer = address.get("/metrics")
            assert answer.status == 503 and b"the model is loading" in answer.body, answer
        server.signal(signal.SIGTERM)
        assert server.wait() == 0, server.log()


@pytest.mark.parametrize("number, exit_status", [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
@pytest.mark.parametrize("method, file, fault", [("GET", LISTING, hang), ("GET", WEIGHTS, hang_halfway)])
def test_a_download_can_be_ended_and_the_cache_stays_good(hub, cache, method, file, fault, number, exit_status):
    hub.faults[method, file] = fault
    with Loading(*arguments(hub, cache, timeout=3600)) as server:
        assert hub.reached.wait(60)
        if file == WEIGHTS:
            eventually(lambda: any(part.stat().st_size for part in cache.rglob("*.incomplete")), "something came")
        server.signal(number)
        assert server.wait() == exit_status, server.log()
    assert not list(cache.glob(f"models--*/snapshots/{COMMIT}/{WEIGHTS}"))
    assert_starts(hub, cache)


def test_two_servers_download_into_one_cache_at_the_same_time(hub, cache):
    hub.faults["GET", WEIGHTS] = slow
    with Loading(*arguments(hub, cache)) as first, Loading(*arguments(hub, cache)) as second:
        for server in first, second:
            eventually(server.is_ready, "ready", 120)
            assert_serves(server)
    assert_starts(hub, cache)


def test_who_waits_for_another_server_gets_its_file(hub, cache):
    """Stalls longer than the hub client's own timeout."""
    hub.faults["GET", WEIGHTS] = hang_halfway
    with Loading(*arguments(hub, cache, timeout=3600)) as first:
        assert hub.reached.wait(60)
        with Loading(*arguments(hub, cache, timeout=3600)) as second:
            eventually(lambda: "another process is downloading" in second.log(), "the second waits")
            assert second.status("/health") == 200 and second.status("/ready") == 503
            # Before the second server's turn.
            hub.faults = {}
            first.signal(signal.SIGKILL)
            first.wait()
            eventually(second.is_ready, "ready", 120)
            assert_serves(second)


def test_a_full_disk_is_named(hub, cache):
    """The partial file is a device that is always full."""
    part = cache / "models--owner--tiny" / "blobs" / f"{hub.tag(WEIGHTS)}.incomplete"
    part.parent.mkdir(parents=True)
    part.symlink_to("/dev/full")
    output, _ = refused(*arguments(hub, cache))
    assert f"cannot get {WEIGHTS}" in output and "No space left on device" in output, output
    assert str(cache) in output and "--huggingface-hub-cache" in output, output
    assert not part.is_symlink(), "half a file is left"
    assert_starts(hub, cache)


def test_a_small_disk_is_named_and_a_larger_one_will_do(hub, cache):
    """A real file system that fills up while the weights are written."""
    cache.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", cache]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting takes root")
    try:
        output, _ = refused(*arguments(hub, cache))
        assert f"cannot get {WEIGHTS}" in output and "No space left on device" in output, output
        subprocess.run(["mount", "-o", "remount,size=64m", cache], check=True)
        assert_starts(hub, cache)
    finally:
        subprocess.run(["umount", cache], check=True)


def test_a_cache_that_cannot_be_written_to_is_named(hub, tmp_path):
    (tmp_path / "file").write_text("")
    places = [tmp_path / "file" / "cache"]
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0o500)
        places.append(tmp_path / "closed")
    for place in places:
        output, _ = refused(*arguments(hub, place))
        assert "cannot get config.json" in output and "--huggingface-hub-cache" in output and str(place) in output, output


def test_a_silent_hub_does_not_keep_a_cached_model_from_being_served(hub, cache):
    assert_starts(hub, cache)
    hub.released.clear()
    hub.faults["GET", LISTING] = hang
    with Server(*arguments(hub, cache, timeout=1)) as server:
        assert "the hub cannot be reached" in server.log()
        assert_serves(server)


def test_a_signal_while_a_model_is_loading_ends_it_with_status_0():
    """Kills at several times; the real model, if present, takes longest to load."""
    gguf = os.environ.get("PREFOLD_SMOLLM2_GGUF")
    args = ["--model-id", gguf, "--pooling", "mean"] if gguf else []
    for delay in 0, 0.1, 0.3, 1:
        with Loading(*args) as server:
            threading.Event().wait(delay)
            asked = time.monotonic()
            server.signal(signal.SIGTERM)
            assert server.wait() == 0, server.log()
            print(f"stopped {time.monotonic() - asked:.2f} s after the signal")


def test_large_files_come_through_xet(xet_hub, cache):
    with Server(*arguments(xet_hub, cache)) as server:
        assert_serves(server)
    asked = [file for _, file in xet_hub.requests]
    assert {TOKEN, PLAN, CHUNKS} <= set(asked) and ("GET", WEIGHTS) not in xet_hub.requests
    xet_hub.requests.clear()
    assert_starts(xet_hub, cache)
    assert CHUNKS not in [file for _, file in xet_hub.requests], "it is in the cache"


def test_what_xet_needs_and_cannot_write_is_named(xet_hub, cache):
    nowhere = {"HOME": "/dev/null"}
    output, _ = refused(*arguments(xet_hub, cache), env=nowhere)
    assert "Xet download failed" in output and "HF_XET_CACHE" in output, output
    with Server(*arguments(xet_hub, cache), env={**nowhere, "HF_XET_CACHE": str(cache / "xet")}) as server:
        assert_serves(server)


@pytest.mark.parametrize("file, fault, words", [
    (PLAN, status(400), ["Xet download failed"]),
    (CHUNKS, page, ["no data was received for 8 s"]),  # The file is requested repeatedly.
    (CHUNKS, hang_halfway, ["no data was received for 8 s"]),
], ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""))
def test_a_xet_storage_that_fails_is_refused(xet_hub, cache, file, fault, words):
    xet_hub.faults["GET", file] = fault
    output, _ = refused(*arguments(xet_hub, cache, timeout=8))
    assert f"cannot get {WEIGHTS} of `{NAME}`" in output, output
    assert all(word in output for word in words), output
    assert_starts(xet_hub, cache)
