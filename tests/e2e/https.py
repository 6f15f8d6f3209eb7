"""A server with `--tls-cert`, and the certificates of the tests."""

import http.client
import shutil
import ssl

from harness import FIXTURES, Server

CERTIFICATES = FIXTURES / "tls"


def copy(name, folder):
    """The certificate and key of a name, as the files that a server reads."""
    for kind in ("key", "cert"):
        replacement = folder / "replacement"
        shutil.copy(CERTIFICATES / f"{name}.{kind}.pem", replacement)
        replacement.rename(folder / kind)


class HttpsServer(Server):
    """A server whose clients trust one certificate."""

    def __init__(self, folder, *flags):
        self.trusted = "first"
        super().__init__("--tls-cert", folder / "cert", "--tls-key", folder / "key", *flags)

    def connection(self):
        context = ssl.create_default_context(cafile=CERTIFICATES / f"{self.trusted}.cert.pem")
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
