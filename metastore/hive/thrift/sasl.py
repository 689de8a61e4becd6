"""Thrift's SASL transport with Kerberos (GSSAPI, RFC 4752), with signing or encryption if the server offers it."""

from __future__ import annotations

import hashlib
import socket as sockets
import struct
from ctypes import c_void_p
from enum import IntEnum
from io import BytesIO
from typing import TYPE_CHECKING

from thrift.transport.TTransport import CReadableTransport, TTransportBase, TTransportException

from catalog_ext.metastore.hive.thrift.gssapi import GssError, SecurityContext, gssapi
from catalog_ext.metastore.hive.thrift.uris import denied

if TYPE_CHECKING:
    from thrift.transport.TSocket import TSocket

    from catalog_ext.metastore.errors import MetastoreAccessError
    from catalog_ext.metastore.hive.thrift.uris import Address, Kerberos

_MECHANISM = b"GSSAPI"
_MOST_BYTES = 1 << 30
_MOST_NEGOTIATED_BYTES = 1 << 20
_RECEIVED_AT_ONCE = 0xFFFFFF
"""The largest wrapped message that the client accepts, sent in the handshake in three bytes."""

_SILENT = (
    "A server without Kerberos is silent or hangs up like this: set hive.metastore.sasl.enabled to false here, or to "
    "true there; one with TLS needs hive.metastore.use.SSL as well."
)
_BY_KEYTAB = "See that the keytab {} can be read and has the key of {}, that the KDC answers, and"
_BY_CACHE = "Get a ticket with kinit (klist lists the tickets), or name a keytab (metastore.client-keytab); see"
_AND_THE_SERVER = " that hive.metastore.kerberos.principal is the server's own."
_REFUSED = (
    "Compare hive.metastore.kerberos.principal with the server's own, and the clocks of both; the server's log says "
    "more."
)


class _Status(IntEnum):
    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


class _Layer(IntEnum):
    """The protection of messages: none, a signature, or encryption."""

    NONE = 1
    SIGNED = 2
    ENCRYPTED = 4


class SaslTransport(TTransportBase, CReadableTransport):  # type: ignore[misc]
    """A transport with mutual authentication by Kerberos.

    Each connection uses the ticket that is in the cache when it is opened, so a renewed ticket is used. Of the
    protections that a server offers, the transport uses the strongest.

    Args:
        socket: The socket to the server; opening and closing the transport opens and closes the socket.
        kerberos: The principals of client and server.
        address: The server.
    """

    def __init__(self, socket: TSocket, kerberos: Kerberos, address: Address) -> None:
        self._socket = socket
        self._kerberos = kerberos
        self._address = address
        self._context: SecurityContext | None = None
        self._layer = _Layer.NONE
        self._written = BytesIO()
        self._read = BytesIO()

    def isOpen(self) -> bool:
        """Return whether the connection is open."""
        return bool(self._socket.isOpen())

    def open(self) -> None:
        """Connect, and authenticate client and server to each other.

        Raises:
            MetastoreAccessError: There is no ticket, the server refuses the ticket, or the server does not use
                Kerberos.
            TTransportException: The connection could not be opened.
        """
        self._socket.open()
        try:
            self._context = self._open_context()
            self._negotiate(self._context)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket and the security context."""
        self._socket.close()
        context, self._context = self._context, None
        if context is not None:
            context.close()

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes."""
        data = self._read.read(size)
        if data:
            return data
        self._read_frame()
        return self._read.read(size)

    def write(self, data: bytes) -> None:
        """Buffer the bytes until ``flush``."""
        self._written.write(data)

    def flush(self) -> None:
        """Send the buffered bytes as one message."""
        data, self._written = self._written.getvalue(), BytesIO()
        if self._layer is not _Layer.NONE:
            data = self._established().wrap(data, confidential=self._layer is _Layer.ENCRYPTED)
        self._socket.write(struct.pack(">I", len(data)) + data)
        self._socket.flush()

    @property
    def cstringio_buf(self) -> BytesIO:
        """The buffer of received bytes, for thrift's C reader."""
        return self._read

    def cstringio_refill(self, prefix: bytes, reqlen: int) -> BytesIO:
        """Return a buffer of at least ``reqlen`` bytes that starts with ``prefix``, the bytes not yet consumed."""
        while len(prefix) < reqlen:
            self._read_frame()
            prefix += self._read.getvalue()
        self._read = BytesIO(prefix)
        return self._read

    def _read_frame(self) -> None:
        (size,) = struct.unpack(">I", self._socket.readAll(4))
        data = self._socket.readAll(_checked(size, _MOST_BYTES))
        if self._layer is not _Layer.NONE:
            try:
                data = self._established().unwrap(data, confidential=self._layer is _Layer.ENCRYPTED)
            except GssError as error:
                raise TTransportException(message=f"Kerberos does not vouch for the answer: {error}") from error
        self._read = BytesIO(data)

    def _established(self) -> SecurityContext:
        if self._context is None:
            raise TTransportException(TTransportException.NOT_OPEN, "not open")
        return self._context

    def _open_context(self) -> SecurityContext:
        service, _, rest = self._kerberos.server.partition("/")
        host, _, realm = rest.partition("@")
        if host == "_HOST":
            # Use the canonical name that DNS has for the address, as Hive's client does: the principal contains that
            # name.
            host = sockets.getfqdn(self._address.host).lower()
        try:
            return SecurityContext(f"{service}/{host}@{realm}", _credential(self._kerberos))
        except GssError as error:
            raise self._no_ticket(error) from error

    def _negotiate(self, context: SecurityContext) -> None:
        try:
            token = context.step(b"")
        except GssError as error:
            raise self._no_ticket(error) from error
        try:
            self._send(_Status.START, _MECHANISM)
            while not context.established:
                token = context.step(self._exchange(token))
            self._layer = self._choose_layer(context, self._exchange(token))
            if self._receive()[0] is not _Status.COMPLETE:
                raise denied(self._address, "it goes on where the Kerberos handshake is at its end", _REFUSED)
        except GssError as error:
            raise denied(self._address, f"the Kerberos handshake failed ({error})", _REFUSED) from error
        except TTransportException as error:
            reason = error.inner or error.message
            raise denied(self._address, f"it breaks off the Kerberos handshake ({reason})", _SILENT) from error

    def _choose_layer(self, context: SecurityContext, offer: bytes) -> _Layer:
        """Choose one of the offered protections, send the choice to the server, and return it."""
        offered = context.unwrap(offer, confidential=False)
        layer = next((layer for layer in reversed(_Layer) if len(offered) == 4 and offered[0] & layer), None)
        if layer is None:
            raise denied(self._address, "it offers no protection of messages that is known", _REFUSED)
        most = 0 if layer is _Layer.NONE else _RECEIVED_AT_ONCE
        self._send(_Status.OK, context.wrap(bytes([layer]) + most.to_bytes(3, "big"), confidential=False))
        return layer

    def _exchange(self, token: bytes) -> bytes:
        self._send(_Status.OK, token)
        return self._receive()[1]

    def _send(self, status: _Status, data: bytes) -> None:
        self._socket.write(struct.pack(">BI", status, len(data)) + data)
        self._socket.flush()

    def _receive(self) -> tuple[_Status, bytes]:
        status, size = struct.unpack(">BI", self._socket.readAll(5))
        if status not in tuple(_Status):
            raise denied(self._address, "it does not answer a Kerberos handshake as a Kerberos server", _SILENT)
        data = self._socket.readAll(_checked(size, _MOST_NEGOTIATED_BYTES))
        if status in (_Status.BAD, _Status.ERROR):
            said = data.decode("utf-8", "replace").strip().rstrip(".")[:500] or "it says no more"
            raise denied(self._address, f"it refuses the Kerberos handshake ({said})", _REFUSED)
        return _Status(status), data

    def _no_ticket(self, error: GssError) -> MetastoreAccessError:
        keytab = self._kerberos.keytab
        remedy = _BY_CACHE
        if keytab is not None:
            remedy = _BY_KEYTAB.format(keytab, self._kerberos.client or "its first principal")
        problem = f"there is no Kerberos ticket for {self._kerberos.server} ({str(error).rstrip('.')})"
        return denied(self._address, problem, remedy + _AND_THE_SERVER)


def _credential(kerberos: Kerberos) -> c_void_p:
    """Return the credential for the connection; empty to use the present ticket cache."""
    if kerberos.keytab is None and kerberos.client is None:
        return c_void_p()
    store = {}
    if kerberos.keytab is not None:
        # Keep tickets from a keytab in a memory cache of their own: the library then renews them before they expire.
        key = hashlib.sha256(f"{kerberos.client}\0{kerberos.keytab}".encode()).hexdigest()[:32]
        store = {"client_keytab": kerberos.keytab, "ccache": f"MEMORY:catalog-ext-{key}"}
    return gssapi().credential(kerberos.client, store)


def _checked(size: int, most: int) -> int:
    if size > most:
        raise TTransportException(TTransportException.SIZE_LIMIT, f"a message of {size} bytes is announced")
    return size
