"""Listening addresses of the service, IPv4 and IPv6, and their form in a URI."""

from __future__ import annotations

import ipaddress
import socket

_ANY = "::"


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; a name with addresses of both versions uses its IPv4 address.

    Args:
        host: An address, with or without brackets, or a name. ``::`` is every address, IPv4 as well.
        port: The port, 0 for a free one.

    Raises:
        OSError: The address does not belong to this machine, or the port is taken.
    """
    bare = without_brackets(host)
    found = socket.getaddrinfo(bare or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    both = bare == _ANY and socket.has_dualstack_ipv6()
    # An IPv6 address tuple has two more numbers than an IPv4 one; the last number is the network interface.
    return socket.create_server(address, family=family, backlog=128, dualstack_ipv6=both)


def authority(host: str, port: int) -> str:
    """Return host and port in the form of a URI: an IPv6 address is put into brackets."""
    bare = without_brackets(host)
    return f"[{bare}]:{port}" if is_version_6(bare) else f"{bare}:{port}"


def without_brackets(host: str) -> str:
    """Return a host in the operating system's form, without the brackets that an IPv6 address has in a URI."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a host."""
    bare = without_brackets(host)
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return bare.lower() == "localhost"


def is_wildcard(host: str) -> bool:
    """Return whether a host means all addresses of this machine, which a client cannot use as an address."""
    bare = without_brackets(host)
    try:
        return ipaddress.ip_address(bare).is_unspecified
    except ValueError:
        return not bare


def is_version_6(host: str) -> bool:
    """Return whether a host, without brackets, is an IPv6 address; ``%`` and a network interface may follow."""
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False
