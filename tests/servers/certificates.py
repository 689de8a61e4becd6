"""Certificates for a test: an authority of its own, and what it signs."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PASSWORD = "changeit"
_DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates of servers.

    Attributes:
        pem: Its own certificate.
    """

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.certificate = (
            _begun(self._name, self._name, self._key.public_key(), _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = folder / f"{name}.pem"
        self.pem.write_bytes(self.certificate.public_bytes(Encoding.PEM))

    def key_store(self, host: str) -> Path:
        """A PKCS12 store with the key and the certificate of a server, for Java; ``PASSWORD`` opens it."""
        key, certificate = self._sign(host, _DAY)
        path = self._folder / f"{host}.p12"
        path.write_bytes(
            serialize_key_and_certificates(
                b"server", key, certificate, [self.certificate], BestAvailableEncryption(PASSWORD.encode())
            )
        )
        return path

    def trust_store(self) -> Path:
        """A PKCS12 store with the authority's own certificate, for Java; ``PASSWORD`` opens it."""
        path = self.pem.with_suffix(".trust.p12")
        trusted = [PKCS12Certificate(self.certificate, b"authority")]
        path.write_bytes(serialize_java_truststore(trusted, BestAvailableEncryption(PASSWORD.encode())))
        return path

    def server_context(self, host: str, lasts: datetime.timedelta = _DAY) -> ssl.SSLContext:
        """The context of a server in Python, with a certificate that lasts so long from now."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_pem(host, lasts))
        return context

    def server_pem(self, host: str, lasts: datetime.timedelta = _DAY) -> Path:
        """The key and the certificate of a server."""
        key, certificate = self._sign(host, lasts)
        path = self._folder / f"{host}-{lasts.days}.pem"
        path.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + certificate.public_bytes(Encoding.PEM)
        )
        return path

    def _sign(self, host: str, lasts: datetime.timedelta) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
        names = [x509.DNSName(host)]
        certificate = (
            _begun(subject, self._name, key.public_key(), lasts)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return key, certificate


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lasts: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number(), now - 3 * _DAY, now + lasts)


@contextmanager
def shaking_hands(context: ssl.SSLContext | None) -> Iterator[tuple[int, list[ssl.SSLSocket]]]:
    """The port of a server that shakes hands and says nothing more (None: not even that), and its connections."""
    connections: list[ssl.SSLSocket] = []
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                kept.append(plain)
                if context is not None:
                    try:
                        connections.append(context.wrap_socket(plain, server_side=True))
                    except OSError:
                        continue  # the client has refused the certificate

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], connections
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    for one in (*connections, *kept):
        one.close()
