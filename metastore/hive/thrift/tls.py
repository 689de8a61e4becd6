"""A TLS connection to a metastore, and the reading of truststores in PEM, PKCS12 or Java's JKS."""

from __future__ import annotations

import hashlib
import hmac
import ssl
import struct
from typing import TYPE_CHECKING, Any

from thrift.transport.TSocket import TSocket

from catalog_ext.metastore.errors import EnvironmentSetupError, InvalidConfigurationError
from catalog_ext.metastore.hive.thrift.uris import denied

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.metastore.errors import MetastoreAccessError
    from catalog_ext.metastore.hive.thrift.uris import Address

_TRUST = (
    "Name the store that has the authority which signed it (hive.metastore.truststore.path), or have the server's "
    "certificate replaced."
)
_NOT_TLS = (
    "A server without TLS is silent or hangs up like this: set hive.metastore.use.SSL to false here, or to true there."
)


class TlsSocket(TSocket):  # type: ignore[misc]
    """A TLS socket that checks the server's certificate and host name before it sends any data."""

    handle: Any

    def __init__(self, address: Address, context: ssl.SSLContext) -> None:
        super().__init__(address.host, address.port, socket_keepalive=True)
        self._server = address
        self._context = context

    def open(self) -> None:
        """Connect, and do the TLS handshake within the same timeout.

        Raises:
            MetastoreAccessError: The certificate is not trusted, or the server does not use TLS.
            TTransportException: The connection could not be opened.
        """
        super().open()
        try:
            self.handle = self._context.wrap_socket(self.handle, server_hostname=self.host)
        except (OSError, ValueError) as error:
            self.close()
            raise self._failed(error) from error

    def isOpen(self) -> bool:
        """Return whether the connection is open; called between calls, when no data is expected from the server."""
        if self.handle is None:
            return False
        timeout = self.handle.gettimeout()
        try:
            self.handle.settimeout(0)
            self.handle.recv(1)
        except ssl.SSLWantReadError:
            self.handle.settimeout(timeout)
            return True
        except OSError:
            pass  # the connection is closed
        self.close()
        return False

    def _failed(self, error: Exception) -> MetastoreAccessError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return denied(self._server, f"its certificate is refused ({error.verify_message.rstrip('.')})", _TRUST)
        if isinstance(error, TimeoutError):
            return denied(self._server, "it does not answer a TLS handshake in time", _NOT_TLS)
        reason = getattr(error, "reason", None) or error
        return denied(self._server, f"the TLS handshake failed ({reason})", _NOT_TLS)


_PEM = b"-----BEGIN"
_JKS = b"\xfe\xed\xfe\xed"
_JCEKS = b"\xce\xce\xce\xce"
_DER = b"\x30"
_MAX_BYTES = 16 << 20
_DIGEST_BYTES = 20
# A constant of the JKS format: the store's digest is SHA-1 over password, this text and contents.
_JKS_SALT = b"Mighty Aphrodite"
_KEY, _CERTIFICATE = 1, 2


def tls_context(truststore: Path | None, password: str | None = None) -> ssl.SSLContext:
    """Return a context that trusts the certificates of a truststore, or the system's trusted certificates.

    A certificate must name the host, and be valid now. The file's format is detected from its contents and not from its
    name, as in Java.

    Args:
        truststore: A file with certificates in PEM, PKCS12 or JKS; None for the system's.
        password: The password of a PKCS12 or JKS store. Without a password a JKS store is read without an integrity
            check, as in Java.

    Raises:
        InvalidConfigurationError: The file cannot be read, has no certificate, or the password is wrong.
        EnvironmentSetupError: The file is PKCS12, and the package that reads it is missing.
    """
    context = ssl.create_default_context() if truststore is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if truststore is None:
        return context
    try:
        for certificate in _certificates(_bytes(truststore), password):
            context.load_verify_locations(cadata=certificate)
    except (OSError, ValueError, struct.error) as error:
        raise _unreadable(truststore, str(error)) from error
    if not context.cert_store_stats()["x509"]:
        raise _unreadable(truststore, "it has no certificate of an authority")
    return context


def _certificates(data: bytes, password: str | None) -> Iterator[bytes | str]:
    if data.startswith(_JKS):
        return _in_jks(data, password)
    if data.startswith(_DER):
        return _in_pkcs12(data, password)
    if _PEM in data:
        return iter([data.decode("ascii", "ignore")])
    what = "it is a JCEKS store" if data.startswith(_JCEKS) else "it is neither PEM nor PKCS12 nor JKS"
    raise ValueError(f"{what}, which is not read")


def _in_jks(data: bytes, password: str | None) -> Iterator[bytes]:
    """Yield the trusted certificates of a JKS store; certificates that belong to its private keys are left out."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password:
        found = hashlib.sha1(password.encode("utf-16-be") + _JKS_SALT + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(found, digest):
            raise ValueError("the password is not its own, or it was changed")
    version, entries = struct.unpack_from(">II", body, 4)
    if version not in (1, 2):
        raise ValueError(f"it is a JKS store of version {version}, which is not read")
    position = 12
    for _ in range(entries):
        (tag,) = struct.unpack_from(">I", body, position)
        _, position = _part(">H", body, position + 4)
        position += 8  # skip the entry's date
        if tag == _KEY:
            _, position = _part(">I", body, position)
            (length,) = struct.unpack_from(">I", body, position)
            position += 4
        elif tag == _CERTIFICATE:
            length = 1
        else:
            raise ValueError(f"it has an entry of the unknown kind {tag}")
        for _ in range(length):
            if version == 2:
                _, position = _part(">H", body, position)
            certificate, position = _part(">I", body, position)
            if tag == _CERTIFICATE:
                yield certificate


def _part(length: str, data: bytes, position: int) -> tuple[bytes, int]:
    """Read bytes that follow their length; return the bytes and the position after them."""
    (size,) = struct.unpack_from(length, data, position)
    begin = position + struct.calcsize(length)
    if begin + size > len(data):
        raise ValueError("it ends too early")
    return data[begin : begin + size], begin + size


def _in_pkcs12(data: bytes, password: str | None) -> Iterator[bytes]:
    try:
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError as error:
        raise EnvironmentSetupError(
            "A PKCS12 truststore is read by the package cryptography, which is missing. Run: pip install "
            "'catalog-ext[pkcs12]'. Or name one in PEM or JKS."
        ) from error
    store = load_pkcs12(data, password.encode() if password else None)
    for entry in store.additional_certs:
        yield entry.certificate.public_bytes(Encoding.DER)


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > _MAX_BYTES:
        raise ValueError(f"it has more than {_MAX_BYTES} bytes")
    return path.read_bytes()


def _unreadable(path: Path, reason: str) -> InvalidConfigurationError:
    return InvalidConfigurationError(
        f"The truststore {path} cannot be used: {reason.rstrip('.')}. Name a file with the authority's certificate in "
        "PEM, PKCS12 or JKS (hive.metastore.truststore.path), and its password (hive.metastore.truststore.password).",
        {"path": str(path)},
    )
