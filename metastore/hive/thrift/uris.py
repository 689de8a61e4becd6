"""Addresses and Kerberos principals of metastores, and the errors for servers that do not answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from catalog_ext.metastore.errors import InvalidConfigurationError, MetastoreAccessError, MetastoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_PORT = 9083


@dataclass(frozen=True, slots=True)
class Address:
    """The host and port of one metastore."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"thrift://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Kerberos:
    """The Kerberos principals of a connection.

    Attributes:
        server: The metastore's principal, ``hive/_HOST@REALM``; ``_HOST`` stands for the host of its URI.
        client: The client's principal; None for that of the ticket cache or the keytab.
        keytab: The keytab with the client's key; None for the ticket cache that ``kinit`` fills.
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


def parse_uris(text: str) -> tuple[Address, ...]:
    """Return the addresses in a comma-separated list, in its order; ``thrift://`` and the port may be left out.

    Raises:
        InvalidConfigurationError: The list is empty or an entry is not ``thrift://host:port``.
    """
    addresses = tuple(_parse_uri(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise InvalidConfigurationError("No metastore URI is given. Write for example thrift://host:9083.")
    return addresses


def _parse_uri(text: str) -> Address:
    refused = InvalidConfigurationError(
        f"{text[:200]!r} is not a metastore URI. Write thrift://host:port, several with commas between them.",
        {"uri": text[:200]},
    )
    try:
        parts = urlsplit(text if "://" in text else f"thrift://{text}")
        port = parts.port
    except ValueError as error:
        raise refused from error
    if parts.scheme != "thrift" or not parts.hostname or parts.path.strip("/") or parts.username:
        raise refused
    return Address(parts.hostname, DEFAULT_PORT if port is None else port)


def unavailable(addresses: Sequence[Address], problem: str, *, request_sent: bool) -> MetastoreUnavailableError:
    """Return the error for servers that do not answer.

    ``request_sent`` says whether a server may have carried the call out.
    """
    uris = ", ".join(map(str, addresses))
    remedy = (
        "It may have done what it was asked for all the same. Look whether it runs; where it is only slow, give it "
        "longer (metastore.call-timeout)"
        if request_sent
        else "Check that it runs and that hive.metastore.uris names it"
    )
    return MetastoreUnavailableError(
        f"The Hive Metastore at {uris} cannot be used: {problem}. {remedy}; metastore=None (on the command line "
        "--metastore none) works on the index alone.",
        {"uris": uris, _SENT: "maybe" if request_sent else "no"},
    )


def not_sent(parameters: dict[str, str]) -> dict[str, str]:
    """Return an error's parameters with the mark that no server can have carried out the failed call."""
    return {**parameters, _SENT: "no"}


def denied(address: Address, problem: str, remedy: str) -> MetastoreAccessError:
    """Return the error for a server that was reached but does not accept calls."""
    return MetastoreAccessError(
        f"The Hive Metastore at {address} was reached and cannot be used: {problem}. {remedy}",
        not_sent({"uris": str(address)}),
    )


_SENT = "request_sent"


def was_request_sent(error: MetastoreUnavailableError) -> bool:
    """Return whether a server may have carried out the failed call."""
    return error.parameters.get(_SENT) != "no"
