"""Metastores that want TLS, Kerberos or rights: real servers, a real KDC, certificates made here."""

from __future__ import annotations

import getpass
import os
import struct
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.errors import MetastoreAccessError, MetastoreRefusedError, MetastoreUnavailableError
from catalog_ext.metastore.hive.mapping.model import HiveDatabase, HivePartition, HiveStorage, HiveTable
from catalog_ext.metastore.hive.thrift.access import PLAIN, Access
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.hive.thrift.gssapi import gssapi
from catalog_ext.metastore.hive.thrift.tls import tls_context
from catalog_ext.metastore.hive.thrift.uris import Kerberos
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.runtime.java import jar_folder
from tests.integration.thrift_proxy import ThriftProxy
from tests.servers.certificates import PASSWORD, Authority
from tests.servers.hive_releases import RELEASE_3, RELEASE_4
from tests.servers.kdc import REALM, Kdc
from tests.servers.secured_metastore import SecuredMetastore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.hive import HiveMetastore
    from tests.servers.hive_releases import Release

PRINCIPAL = f"hive/_HOST@{REALM}"
ALICE = f"alice@{REALM}"
_SECURITY = "org.apache.hadoop.hive.ql.security"
_COLUMNS, _KEYS = (Column("id", "bigint"),), (Column("k", "string"),)
_TEXT = HiveStorage(
    "org.apache.hadoop.mapred.TextInputFormat",
    "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
)
# What a user may do is asked of the store, as that user.
BY_STORAGE = {
    "hive.metastore.pre.event.listeners": f"{_SECURITY}.authorization.AuthorizationPreEventListener",
    "hive.security.metastore.authorization.manager": (f"{_SECURITY}.authorization.StorageBasedAuthorizationProvider"),
    "hive.security.metastore.authenticator.manager": f"{_SECURITY}.HadoopDefaultMetastoreAuthenticator",
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls(authority: Authority) -> dict[str, str]:
    """A server's settings for TLS, with a certificate for ``localhost``."""
    return {
        "hive.metastore.use.SSL": "true",
        "hive.metastore.keystore.path": str(authority.key_store("localhost")),
        "hive.metastore.keystore.password": PASSWORD,
    }


@pytest.fixture(scope="module")
def tls_metastore(
    tls: dict[str, str], authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredMetastore]:
    """One with TLS, that acts as the user whom it is given."""
    folder = tmp_path_factory.mktemp("metastore") / "tls"
    server = SecuredMetastore(folder, tls | BY_STORAGE, Access(tls_context(authority.pem)))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A KDC that this process asks, too; there is no ticket yet."""
    folder = tmp_path_factory.mktemp("kdc")
    server = Kdc(folder, "hive/localhost", "alice", "bob")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KRB5_CONFIG", str(server.krb5_conf))
        environment.setenv("KRB5CCNAME", f"FILE:{folder}/tickets")
        yield server
    server.stop()


def _sasl(kdc: Kdc, protection: str) -> dict[str, str]:
    """A server's settings for Kerberos."""
    return {
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": PRINCIPAL,
        "hive.metastore.kerberos.keytab.file": str(kdc.keytab),
        "hadoop.security.authentication": "kerberos",
        "hadoop.rpc.protection": protection,
    }


def _java(kdc: Kdc) -> list[str]:
    return [f"-Djava.security.krb5.conf={kdc.krb5_conf}"]


@pytest.fixture(scope="module")
def kerberos_metastore(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredMetastore]:
    """One with Kerberos (release 2.3 has either that or TLS), that does as the user whom Kerberos names."""
    folder = tmp_path_factory.mktemp("metastore") / "kerberos"
    access = Access(kerberos=Kerberos(PRINCIPAL, ALICE, str(kdc.keytab)))
    settings = _sasl(kdc, "authentication") | BY_STORAGE
    server = SecuredMetastore(folder, settings, access, java_options=_java(kdc))
    yield server
    server.stop()


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Access:
    """Access by a ticket cache of the test's own, which is empty."""
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    return Access(kerberos=Kerberos(PRINCIPAL))


def _kinit(kdc: Kdc, principal: str) -> Path:
    """Put a new ticket into the cache, as the command does."""
    kind, _, path = os.environ["KRB5CCNAME"].partition(":")
    store = {"client_keytab": str(kdc.keytab), "ccache": f"{kind}:{path}"}
    gssapi().release("gss_release_cred", gssapi().credential(principal, store))
    return Path(path)


def _expire(cache: Path) -> None:
    """Set the time back at which the tickets of a cache (MIT's format 4) end."""
    data = bytearray(cache.read_bytes())

    def skip(position: int, *, kind: int = 0) -> int:
        """Where a counted piece of data ends, which has a kind of so many bytes before its length."""
        (size,) = struct.unpack_from(">I", data, position + kind)
        return position + kind + 4 + int(size)

    def skip_principal(position: int) -> int:
        (count,) = struct.unpack_from(">I", data, position + 4)
        position += 8
        for _ in range(count + 1):
            position = skip(position)
        return position

    assert data[:2] == b"\5\4"
    position = skip_principal(4 + int.from_bytes(data[2:4]))
    while position < len(data):
        position = skip(skip_principal(skip_principal(position)), kind=2)
        hours_ago = [int(time.time()) - 3600 * hours for hours in (3, 3, 1, 1)]
        struct.pack_into(">4I", data, position, *hours_ago)
        position += 16 + 1 + 4
        for _ in range(2):
            (count,) = struct.unpack_from(">I", data, position)
            position += 4
            for _ in range(count):
                position = skip(position, kind=2)
        position = skip(skip(position))
    cache.write_bytes(data)


def _asked(server: SecuredMetastore | str, access: Access, connect_timeout: float = 5.0) -> list[str]:
    uri = server if isinstance(server, str) else server.uri
    client = connect(uri, access=access, connect_timeout=connect_timeout)
    try:
        return client.list_databases()
    finally:
        client.close()


def _made(server: SecuredMetastore, access: Access, folder: Path) -> HiveDatabase:
    """A database that the server has made in a folder, as the user that it takes us for."""
    client = connect(server.uri, access=access)
    database = HiveDatabase(f"of_{folder.name}", (folder / "database").as_uri())
    try:
        client.create_database(database)
        return client.get_database(database.name)
    finally:
        client.close()


def test_hive_site_says_how_it_is_spoken_to(
    tls_metastore: SecuredMetastore, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "hive.metastore.uris": tls_metastore.uri,
        "hive.metastore.use.SSL": "true",
        "hive.metastore.truststore.path": str(authority.pem),
    }
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (tmp_path / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
    for name in ("SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HIVE_CONF_DIR", str(tmp_path))
    with catalog_ext.connect(index=str(tmp_path / "i.db"), warehouse=str(tmp_path / "wh")) as catalog:
        catalog.create_namespace("by_site")
        assert not catalog.deliver().pending
    assert "by_site" in _asked(tls_metastore, Access(tls_context(authority.pem)))


def test_what_could_not_be_delivered_is_when_the_authority_is_named(
    tls_metastore: SecuredMetastore, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, warehouse = str(tmp_path / "i.db"), str(tmp_path / "wh")
    monkeypatch.setenv("CATALOG_EXT_METASTORE_TLS", "true")
    monkeypatch.setenv("CATALOG_EXT_METASTORE_TRUSTSTORE", str(Authority(tmp_path, "other").pem))
    with catalog_ext.connect(index=index, metastore=tls_metastore.uri, warehouse=warehouse) as catalog:
        catalog.create_namespace("late")
        report = catalog.deliver()
        assert report.pending == 1
        assert "certificate is refused" in str(report.error)
    monkeypatch.setenv("CATALOG_EXT_METASTORE_TRUSTSTORE", str(authority.pem))
    with catalog_ext.connect(index=index, warehouse=warehouse) as catalog:
        catalog.outbox("retry")
        assert not catalog.deliver().pending
    assert "late" in _asked(tls_metastore, Access(tls_context(authority.pem)))


def test_a_plain_client_of_a_server_with_tls(tls_metastore: SecuredMetastore) -> None:
    begun = time.monotonic()
    for access in (PLAIN, Access(user="alice")):
        with pytest.raises(MetastoreUnavailableError, match=r"wants TLS \(hive\.metastore\.use\.SSL\)"):
            _asked(tls_metastore, access)
    assert time.monotonic() - begun < 5


def test_a_client_with_tls_or_kerberos_of_a_plain_server(
    hive_metastore: HiveMetastore, authority: Authority, cached: Access, kdc: Kdc
) -> None:
    with pytest.raises(MetastoreAccessError, match=r"set hive\.metastore\.use\.SSL to false"):
        _asked(hive_metastore.uri, Access(tls_context(authority.pem)), 2)
    _kinit(kdc, ALICE)
    begun = time.monotonic()
    with pytest.raises(MetastoreAccessError, match=r"set hive\.metastore\.sasl\.enabled to false"):
        _asked(hive_metastore.uri, cached, 2)
    assert time.monotonic() - begun < 4


def test_who_the_store_is_asked_for(tls_metastore: SecuredMetastore, authority: Authority, tmp_path: Path) -> None:
    access = Access(tls_context(authority.pem))
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    with pytest.raises(MetastoreRefusedError, match="Permission denied: user=alice"):
        _made(tls_metastore, replace(access, user="alice"), mine)
    assert _made(tls_metastore, replace(access, user=getpass.getuser()), mine).name == "of_mine"


def test_release_3_gets_our_user_name_over_tls(tls: dict[str, str], authority: Authority, tmp_path: Path) -> None:
    """It has no classes that ask the store: its audit log says whom it works for."""
    access = Access(tls_context(authority.pem), user="alice")
    folder = tmp_path / "metastore"
    logging = [jar for name in ("slf4j-api-2*.jar", "log4j-slf4j2-impl-*.jar") for jar in jar_folder().glob(name)]
    (tmp_path / "log4j2.properties").write_text(
        "appender.c.type=Console\nappender.c.name=c\nrootLogger.level=info\nrootLogger.appenderRef.c.ref=c\n"
    )
    options = [f"-Dlog4j2.configurationFile={tmp_path}/log4j2.properties"]
    server = SecuredMetastore(folder, tls, access, java_options=options, jars=logging, release=RELEASE_3)
    try:
        assert _asked(server, replace(access, user="bob")) == ["default"]
        assert _made(server, access, tmp_path / "of_alice").name == "of_of_alice"
        with pytest.raises(MetastoreUnavailableError, match=r"wants TLS \(hive\.metastore\.use\.SSL\)"):
            _asked(server, PLAIN)
    finally:
        server.stop()
    audit = [line for line in (folder / "log").read_text().splitlines() if "ugi=" in line]
    assert any("ugi=bob" in line for line in audit)
    assert any("ugi=alice" in line and "create_database" in line for line in audit)
    assert not any("ugi=bob" in line and "create_database" in line for line in audit)


def test_kerberos_says_who_the_store_is_asked_for(
    kerberos_metastore: SecuredMetastore, kdc: Kdc, tmp_path: Path
) -> None:
    mine = tmp_path / "closed"
    mine.mkdir(mode=0o700)
    access = Access(None, Kerberos(PRINCIPAL, f"bob@{REALM}", str(kdc.keytab)), getpass.getuser())
    with pytest.raises(MetastoreRefusedError, match="Permission denied: user=bob"):
        _made(kerberos_metastore, access, mine)
    mine.chmod(0o777)
    assert _made(kerberos_metastore, access, mine).name == "of_closed"


def test_the_tickets_of_a_cache(kerberos_metastore: SecuredMetastore, cached: Access, kdc: Kdc) -> None:
    with pytest.raises(MetastoreAccessError, match=r"no Kerberos ticket.*\bkinit\b") as caught:
        _asked(kerberos_metastore, cached)
    assert not caught.value.retryable
    cache = _kinit(kdc, ALICE)
    client = connect(kerberos_metastore.uri, access=cached)
    assert "default" in client.list_databases()
    _expire(cache)
    assert "default" in client.list_databases(), "a connection that stands goes on"
    client.close()
    with pytest.raises(MetastoreAccessError, match=r"(?i)expired.*\bkinit\b"):
        client.list_databases()
    _kinit(kdc, ALICE)
    assert "default" in client.list_databases(), "the next connection takes the ticket that there is then"
    client.close()


def test_who_cannot_prove_its_name(kerberos_metastore: SecuredMetastore, cached: Access, kdc: Kdc) -> None:
    _kinit(kdc, ALICE)
    for server, said in ((f"hive/other@{REALM}", "hive/other"), (f"alice/localhost@{REALM}", "alice/localhost")):
        with pytest.raises(MetastoreAccessError, match=rf"{said}.*hive\.metastore\.kerberos\.principal"):
            _asked(kerberos_metastore, replace(cached, kerberos=Kerberos(server)))
    keytab = Access(None, Kerberos(PRINCIPAL, f"carol@{REALM}", str(kdc.keytab)))
    with pytest.raises(MetastoreAccessError, match=rf"keytab .* has the key of carol@{REALM}"):
        _asked(kerberos_metastore, keytab)


def test_a_client_without_kerberos_of_a_server_with_it(
    kerberos_metastore: SecuredMetastore,
) -> None:
    begun = time.monotonic()
    with pytest.raises(MetastoreUnavailableError, match=r"or Kerberos \(hive\.metastore\.sasl\.enabled\)"):
        _asked(kerberos_metastore, Access(user="alice"))
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("release", "protection", "readable"),
    [(None, "integrity", True), (RELEASE_3, "privacy", False), (RELEASE_4, "privacy", False)],
    ids=["2.3", "3.1", "4.0"],
)
def test_what_passes_is_protected_as_the_server_asks(
    release: Release | None, protection: str, readable: bool, kdc: Kdc, tmp_path: Path
) -> None:
    access = Access(kerberos=Kerberos(PRINCIPAL, ALICE, str(kdc.keytab)))
    server = SecuredMetastore(
        tmp_path / "metastore", _sasl(kdc, protection), access, java_options=_java(kdc), release=release
    )
    try:
        with ThriftProxy("localhost", server.port) as proxy:
            client = connect(proxy.uri, access=access)
            client.create_database(HiveDatabase("d"))
            table = HiveTable("d", "t", "EXTERNAL_TABLE", f"{tmp_path.as_uri()}/t", _COLUMNS, _KEYS, _TEXT)
            client.create_table(table)
            added = [HivePartition((f"k{i}",), tmp_path.as_uri(), {"note": f"{i}" * 100}) for i in range(1000)]
            client.add_partitions("d", "t", added)
            found = {p.values: p.parameters["note"] for p in client.partitions("d", "t")}
            client.close()
            assert found == {p.values: p.parameters["note"] for p in added}
            assert (proxy.calls["create_table"] > 0) is readable
    finally:
        server.stop()


@pytest.mark.parametrize("release", [RELEASE_3, RELEASE_4], ids=["3.1", "4.0"])
def test_tls_and_kerberos_at_once(
    release: Release, kdc: Kdc, tls: dict[str, str], authority: Authority, tmp_path: Path
) -> None:
    """What releases 3 and 4 have, and 2.3 has not."""
    access = Access(tls_context(authority.pem), Kerberos(PRINCIPAL, ALICE, str(kdc.keytab)))
    settings = _sasl(kdc, "integrity") | tls
    server = SecuredMetastore(tmp_path / "metastore", settings, access, java_options=_java(kdc), release=release)
    try:
        assert _asked(server, access) == ["default"]
        with pytest.raises(MetastoreAccessError, match=r"one with TLS needs hive\.metastore\.use\.SSL"):
            _asked(server, replace(access, tls=None))
    finally:
        server.stop()
