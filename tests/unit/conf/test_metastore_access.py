"""How a metastore is spoken to: what Hive's own names say, what ours say, and what is refused at once."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.conf.metastore_keys import METASTORE_SETTINGS, metastore_access
from catalog_ext.conf.resolved import Settings, hive_site
from catalog_ext.metastore.errors import EnvironmentSetupError, InvalidConfigurationError
from catalog_ext.metastore.hive.thrift import gssapi
from catalog_ext.metastore.hive.thrift.access import PLAIN, Access
from catalog_ext.metastore.hive.thrift.uris import Kerberos
from tests.servers.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PRINCIPAL = "hive/_HOST@EXAMPLE.COM"
SASL = {"hive.metastore.sasl.enabled": "true", "hive.metastore.kerberos.principal": PRINCIPAL}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HADOOP_USER_NAME", *(setting.variable for setting in METASTORE_SETTINGS)):
        monkeypatch.delenv(variable, raising=False)


def _access(site: Mapping[str, str] | None = None, spark: Mapping[str, str] | None = None) -> Access:
    return metastore_access(Settings.resolve(metastore="thrift://a:1", site=site, spark=spark).conf)


def test_nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _access() == Access(user=getpass.getuser())
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")
    assert _access() == Access(user="etl")
    assert _access({"hive.metastore.execute.setugi": "false"}) == PLAIN
    assert _access({"metastore.execute.setugi": "FALSE"}) == PLAIN


def test_the_nearest_place_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    def shuffled(spark: Mapping[str, str]) -> bool:
        return _access({"hive.metastore.uri.selection": "RANDOM"}, spark).shuffled

    of_spark = {"spark.hadoop.hive.metastore.uri.selection": "SEQUENTIAL"}
    own = {"spark.sql.catalog.lake.metastore.uri-selection": "sequential"}
    assert shuffled({})
    assert not shuffled(of_spark)
    assert not shuffled({"spark.hive.metastore.uri.selection": "SEQUENTIAL"})
    monkeypatch.setenv("CATALOG_EXT_METASTORE_URI_SELECTION", "random")
    assert shuffled(of_spark)
    assert not shuffled(own)


def test_tls_and_its_truststore(tmp_path: Path) -> None:
    pem = Authority(tmp_path).pem
    site = {"hive.metastore.use.SSL": "true", "hive.metastore.truststore.path": str(pem)}
    found = _access(site).tls
    assert found is not None
    assert found.cert_store_stats()["x509_ca"] == 1
    assert _access({**site, "metastore.use.SSL": "false"}).tls is not None, "Hive's older name is the one that counts"
    assert _access(site, {"spark.hadoop.hive.metastore.use.SSL": "false"}).tls is None
    with pytest.raises(InvalidConfigurationError, match=r"metastore\.truststore-type.*'bcfks'"):
        _access({**site, "hive.metastore.truststore.type": "bcfks"})


def test_a_truststore_that_is_not_there_is_heard_of_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_EXT_METASTORE_TLS", "true")
    monkeypatch.setenv("CATALOG_EXT_METASTORE_TRUSTSTORE", str(tmp_path / "absent.jks"))
    with pytest.raises(InvalidConfigurationError, match=r"absent\.jks"):
        catalog_ext.connect(index=str(tmp_path / "i.db"), metastore="thrift://localhost:1", warehouse=str(tmp_path))


def test_kerberos(tmp_path: Path) -> None:
    assert _access(SASL) == Access(kerberos=Kerberos(PRINCIPAL)), "Kerberos says who we are, and set_ugi does not"
    keytab = tmp_path / "keys"
    keytab.touch()
    spark = {"spark.kerberos.principal": "etl@EXAMPLE.COM", "spark.kerberos.keytab": str(keytab)}
    assert _access(SASL, spark).kerberos == Kerberos(PRINCIPAL, "etl@EXAMPLE.COM", str(keytab))
    keytab.unlink()
    with pytest.raises(InvalidConfigurationError, match="keys is not there"):
        _access(SASL, spark)


@pytest.mark.parametrize("principal", ["", "hive", "hive/_HOST", "hive@EXAMPLE.COM", "/h@R", "hive/@R"])
def test_malformed_principal_is_refused(principal: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=r"hive\.metastore\.kerberos\.principal"):
        _access({**SASL, "hive.metastore.kerberos.principal": principal})


def test_without_the_library_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gssapi.ctypes.util, "find_library", lambda _: "libabsent.so.9")
    gssapi.gssapi.cache_clear()
    try:
        with pytest.raises(EnvironmentSetupError, match=r"libabsent.*apt-get install libgssapi-krb5-2"):
            _access(SASL)
    finally:
        gssapi.gssapi.cache_clear()


def test_a_site_file_is_read_where_there_may_be_a_metastore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "hive-site.xml").write_text("<configuration>")
    assert hive_site(None) == hive_site("none") == hive_site("embedded") == {}
    with pytest.raises(InvalidConfigurationError, match=r"hive-site\.xml"):
        hive_site("thrift://a:1")


def test_the_embedded_one_is_spoken_to_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}
    monkeypatch.setattr("catalog_ext.metastore.hive.thrift.connect.connect", lambda *_, **more: given.update(more))
    for metastore, access in (("embedded", PLAIN), ("thrift://a:1", Access(kerberos=Kerberos(PRINCIPAL)))):
        Settings.resolve(metastore=metastore, site=SASL).connect_metastore("thrift://127.0.0.1:1")
        assert given["access"] == access


def test_the_password_is_a_secret() -> None:
    settings = Settings.resolve(metastore=None, site={"hive.metastore.truststore.password": "opensesame"})
    assert settings.conf["metastore.truststore-password"] == "opensesame"
    assert "opensesame" not in repr(settings)
