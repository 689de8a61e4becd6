"""Truststores that Java's own tool has made."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.hive.thrift.tls import TlsSocket, tls_context
from catalog_ext.metastore.hive.thrift.uris import Address
from catalog_ext.metastore.runtime.java import find_java
from tests.servers.certificates import PASSWORD, Authority, shaking_hands

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder)


@pytest.fixture(scope="module", params=("PKCS12", "JKS"))
def truststore(request: pytest.FixtureRequest, authority: Authority, folder: Path) -> Path:
    """A store as Java's own tool makes it, with the authority and another one."""
    path = folder / f"trust.{request.param.lower()}"
    for alias, pem in (("second", Authority(folder, "second").pem), ("ours", authority.pem)):
        _keytool(path, request.param, "-importcert", "-noprompt", "-alias", alias, "-file", str(pem))
    return path


def _keytool(store: Path, kind: str, *arguments: str) -> None:
    command = [str(find_java().with_name("keytool")), *arguments, "-keystore", str(store), "-storetype", kind]
    subprocess.run([*command, "-storepass", PASSWORD], check=True, capture_output=True, timeout=60)


def test_each_kind_is_believed(truststore: Path, authority: Authority) -> None:
    context = tls_context(truststore, PASSWORD)
    assert context.cert_store_stats()["x509_ca"] == 2
    with shaking_hands(authority.server_context("localhost")) as (port, _connections):
        one = TlsSocket(Address("localhost", port), context)
        one.open()
        one.close()


def test_a_jks_store_is_read_without_its_password_and_checked_with_it(folder: Path, authority: Authority) -> None:
    path = folder / "checked.jks"
    _keytool(path, "JKS", "-importcert", "-noprompt", "-alias", "ours", "-file", str(authority.pem))
    assert tls_context(path).cert_store_stats()["x509_ca"] == 1
    with pytest.raises(InvalidConfigurationError, match=r"checked\.jks.*password is not its own"):
        tls_context(path, "another")


def test_the_chain_of_a_private_key_is_no_authority(folder: Path, authority: Authority) -> None:
    path = folder / "keys.jks"
    _keytool(path, "JKS", "-genkeypair", "-alias", "own", "-keyalg", "EC", "-dname", "CN=x", "-keypass", PASSWORD)
    with pytest.raises(InvalidConfigurationError, match="no certificate of an authority"):
        tls_context(path, PASSWORD)
    _keytool(path, "JKS", "-importcert", "-noprompt", "-alias", "ours", "-file", str(authority.pem))
    assert tls_context(path, PASSWORD).cert_store_stats()["x509"] == 1
