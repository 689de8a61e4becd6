"""Who a metastore is to Kerberos, and who we are."""

from __future__ import annotations

from dataclasses import dataclass

from catalog_ext.metastore.errors import InvalidConfigurationError


@dataclass(frozen=True, slots=True)
class Kerberos:
    """Whose ticket is shown, and to whom.

    Attributes:
        server: The metastore's principal, ``hive/_HOST@REALM``; ``_HOST`` stands for the host of its URI.
        client: Our own principal; None for the one that the ticket cache or the keytab has.
        keytab: The keytab with its key; None for the ticket cache that ``kinit`` fills.
    """

    server: str
    client: str | None = None
    keytab: str | None = None

    def __post_init__(self) -> None:
        service, slash, rest = self.server.partition("/")
        host, at, realm = rest.partition("@")
        if not (service and slash and host and at and realm):
            raise InvalidConfigurationError(
                f"The metastore's Kerberos principal cannot be {self.server[:200]!r}: write hive/_HOST@REALM "
                "(hive.metastore.kerberos.principal).",
                {"principal": self.server[:200]},
            )
