"""HTTPS: the same answers, certificates that change, and clients that stall inside TLS."""

import json
import shutil
import signal
import socket
import ssl
import warnings

import pytest

from harness import comparable, eventually, run_to_end
from https import CERTIFICATES, HttpsServer, copy
from raw import Vitals

TEXTS = [f"text {i}" for i in range(20)]


@pytest.fixture
def folder(tmp_path):
    copy("first", tmp_path)
    return tmp_path


@pytest.fixture
def https(folder):
    with HttpsServer(folder, "--client-timeout", "2") as server:
        yield server


def test_answers_are_those_of_http(https, builtin):
    for path, body in [("/embed", {"inputs": TEXTS}), ("/v1/embeddings", {"input": TEXTS, "model": "m"})]:
        plain, inside = builtin.post(path, body), https.post(path, body)
        assert (inside.status, comparable(inside.body)) == (plain.status, comparable(plain.body))
    connection = https.connection()
    for _ in range(3):
        connection.request("POST", "/embed", json.dumps({"inputs": TEXTS}))
        assert len(json.loads(connection.getresponse().read())) == len(TEXTS)


def test_a_client_without_tls_is_in_the_log(https):
    with socket.create_connection(("127.0.0.1", https.port), timeout=20) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n")
        client.recv(100)
    eventually(lambda: "http:// instead of https://" in https.whole_log(), "a line once a minute")


def expiry(name):
    end = ssl._ssl._test_decode_cert(str(CERTIFICATES / f"{name}.cert.pem"))["notAfter"]
    return ssl.cert_time_to_seconds(end)


def test_the_certificate_changes_while_the_server_runs(https, folder):
    reloaded = lambda: https.metric("prefold_last_reload_successful", files="tls")
    eventually(lambda: reloaded() == 1, "the files have been read again")
    shutil.copy(CERTIFICATES / "second.key.pem", folder / "key")
    https.process.send_signal(signal.SIGHUP)
    eventually(lambda: "does not fit" in https.log(), "the half replaced certificate is named")
    assert https.get("/health").status == 200
    eventually(lambda: reloaded() == 0, "the metrics say that the files do not fit")
    copy("second", folder)
    https.trusted = "second"

    def is_new():
        try:
            return https.get("/health").status == 200
        except ssl.SSLCertVerificationError:
            return False

    eventually(is_new, "the new certificate is shown")
    eventually(lambda: reloaded() == 1, "the metrics say that the files fit")
    assert https.metric("prefold_tls_certificate_expiry_timestamp_seconds") == expiry("second")


def test_clients_without_tls_or_with_an_old_one_harm_nobody(https):
    with socket.create_connection(("127.0.0.1", https.port), timeout=60) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n")
        assert b"200" not in plain.recv(1000)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own deprecation of these versions.
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", https.port), timeout=60) as stream, pytest.raises((ssl.SSLError, ConnectionError)):
        old.wrap_socket(stream)
    assert https.get("/health").status == 200


def test_stalled_clients_are_disconnected(https):
    """In the handshake, between requests, and while a response waits inside TLS."""
    with socket.create_connection(("127.0.0.1", https.port), timeout=60) as silent:
        assert silent.recv(1) == b""
    connection = https.connection()
    connection.request("GET", "/health")
    connection.getresponse().read()
    assert connection.sock.recv(1) == b""
    vitals = Vitals(https.process.pid)
    eventually(lambda: https.metric("prefold_http_requests_in_flight") <= 1, "the server is idle")
    idle = vitals.descriptors()
    readers = []
    # Answers of 50 to 500 kB: their rest waits in the system, in TLS or in the server.
    for words in range(10, 120, 5):
        reader = https.connection()
        reader.connect()
        reader.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.request("POST", "/embed_all", json.dumps({"inputs": ["word " * words]}))
        readers.append(reader)
    eventually(lambda: "did not read its answer" in https.log(), "slow readers are disconnected")
    eventually(lambda: vitals.descriptors() <= idle, "no connection waits for its reader")
    assert https.get("/health").status == 200


def test_files_that_do_not_fit_end_the_start(folder):
    shutil.copy(CERTIFICATES / "second.key.pem", folder / "key")
    for flags, named in [(("--tls-cert", folder / "cert", "--tls-key", folder / "key"), "does not fit"),
                         (("--tls-cert", folder / "cert"), "--tls-key")]:
        status, output = run_to_end(*flags)
        assert status == 2 and named in output, output
