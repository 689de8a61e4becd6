"""What ``serve`` says of the address that it listens on."""

from __future__ import annotations

import socket

import pytest

from catalog_ext.cli.serve import what_to_mind


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost"])
def test_an_address_of_this_machine_alone_needs_no_word(host: str) -> None:
    assert list(what_to_mind(host, 8765)) == []


@pytest.mark.parametrize("host", ["10.0.0.1", "lake.example", "2001:db8::1"])
def test_an_address_that_others_reach_is_warned_of(host: str) -> None:
    (said,) = what_to_mind(host, 8765)
    assert said == f"{host} can be reached from other machines; the token travels unencrypted."


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]"])
def test_wildcard_address_is_reported_as_unusable_by_clients(host: str) -> None:
    _, said = what_to_mind(host, 8799)
    assert said.endswith(f"such as http://{socket.gethostname()}:8799")
