"""A TLS connection to a metastore, and what its failures mean."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from thrift.transport.TSocket import TSocket

from catalog_ext.metastore.hive.thrift.uris import denied

if TYPE_CHECKING:
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
    """A socket whose server has shown a certificate for its host name before a byte of a call is sent."""

    handle: Any

    def __init__(self, address: Address, context: ssl.SSLContext) -> None:
        super().__init__(address.host, address.port, socket_keepalive=True)
        self._server = address
        self._context = context

    def open(self) -> None:
        """Connect, and shake hands within the same time.

        Raises:
            MetastoreAccessError: The certificate is not to be believed, or the server does not speak TLS.
            TTransportException: No connection.
        """
        super().open()
        try:
            self.handle = self._context.wrap_socket(self.handle, server_hostname=self.host)
        except (OSError, ValueError) as error:
            self.close()
            raise self._failed(error) from error

    def isOpen(self) -> bool:
        """Return whether the connection stands; asked between calls, when nothing is to be read."""
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
            pass  # it has gone, which is the answer
        self.close()
        return False

    def _failed(self, error: Exception) -> MetastoreAccessError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return denied(self._server, f"its certificate is refused ({error.verify_message.rstrip('.')})", _TRUST)
        if isinstance(error, TimeoutError):
            return denied(self._server, "it does not answer a TLS handshake in time", _NOT_TLS)
        reason = getattr(error, "reason", None) or error
        return denied(self._server, f"the TLS handshake failed ({reason})", _NOT_TLS)
