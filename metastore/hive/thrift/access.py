"""Access to a metastore: plain or TLS connections, and a user name or Kerberos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

if TYPE_CHECKING:
    import ssl

    from thrift.transport.TTransport import TTransportBase

    from catalog_ext.metastore.hive.thrift.uris import Address, Kerberos


_READ_BUFFER_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Access:
    """The connection security of one metastore's servers; by default plain, and without a user name.

    Attributes:
        tls: The trusted certificates; None for no TLS.
        kerberos: The Kerberos principals for SASL; None for no SASL.
        user: The user name for the call ``set_ugi``, for connections without SASL; None to leave the call out.
        shuffled: Whether the servers are tried in a random order rather than in the given one.
    """

    tls: ssl.SSLContext | None = None
    kerberos: Kerberos | None = None
    user: str | None = None
    shuffled: bool = False

    def __post_init__(self) -> None:
        if self.kerberos is not None:
            # Load the Kerberos library now: if it is missing, the user should learn this at configuration and not at
            # the first delivery.
            from catalog_ext.metastore.hive.thrift.gssapi import gssapi

            gssapi()

    def socket(self, address: Address) -> TSocket:
        """Return an unopened socket to the server."""
        if self.tls is None:
            return TSocket(address.host, address.port, socket_keepalive=True)
        from catalog_ext.metastore.hive.thrift.tls import TlsSocket

        return TlsSocket(address, self.tls)

    def transport(self, socket: TSocket, address: Address) -> TTransportBase:
        """Return the transport over the socket; opening it opens the socket, and authenticates."""
        if self.kerberos is None:
            return TBufferedTransport(socket, rbuf_size=_READ_BUFFER_BYTES)
        from catalog_ext.metastore.hive.thrift.sasl import SaslTransport

        return SaslTransport(socket, self.kerberos, address)

    @property
    def hint(self) -> str:
        """The likely reasons if a server closes the connection at the first call; empty with Kerberos."""
        if self.kerberos is not None:
            return ""
        wanted = "" if self.tls is not None else "TLS (hive.metastore.use.SSL) or "
        return (
            f". A server that wants {wanted}Kerberos (hive.metastore.sasl.enabled), or that is no metastore "
            "(HiveServer2 on port 10000, a web server), answers like this: ask what it wants, and set the same here"
        )


PLAIN = Access()
