"""Secrets are neither shown nor kept: those of the index's URL, and those given as options and properties."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.engine import make_url

from catalog_ext.conf.resolved import Settings
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import IndexUnavailableError, InvalidConfigurationError
from catalog_ext.metastore.hive.mapping.conversion import to_hive, to_hive_database
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database.urls import shown_index, shown_url
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.secrets import is_secret
from catalog_ext.metastore.model.tables import Column, Namespace, TableDefinition, TableType
from catalog_ext.writes.writes import Batch
from tests.kit.fakes_metastore import FakeMetastore, serving
from tests.kit.repair_cases import local_catalog, register, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

SECRETS = (
    "password", "javax.jdo.option.ConnectionPassword", "fs.s3a.access.key", "fs.s3a.secret.key",
    "fs.s3a.bucket.mine.session.token", "access_key", "secret_key", "session_token", "secretKey",
    "AWS_SECRET_ACCESS_KEY", "s3.access-key-id", "fs.azure.account.key.mine.blob.core.windows.net", "sslpassword",
)  # fmt: skip
NO_SECRETS = (
    "fs.s3a.endpoint", "fs.s3a.aws.credentials.provider", "hadoop.security.credential.provider.path", "token-file",
    "primary.key", "team", "header", "sslmode", "sslkey", "passfile", "secretary", "compass", "txn-app-id",
)  # fmt: skip
HUSH = "hush-hush"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        register(catalog, tmp_path / "t")
        yield catalog


def test_a_secret_is_known_by_its_name() -> None:
    assert [name for name in SECRETS if not is_secret(name)] == []
    assert [name for name in NO_SECRETS if is_secret(name)] == []


@pytest.mark.parametrize("url", [
    f"postgresql+psycopg://me:{HUSH}@h/db",
    f"postgresql+psycopg://h/db?user=me&password={HUSH}&sslmode=require",
    f"postgresql+psycopg://h/db?sslpassword={HUSH}&password=x{HUSH}",
    f"mysql+pymysql://h/db?passwd={HUSH}",
])  # fmt: skip
def test_no_password_of_the_index_is_shown(url: str) -> None:
    for shown in (shown_url(make_url(url)), shown_index(url), repr(Settings.resolve(index=url))):
        assert HUSH not in shown
        assert "***" in shown
    assert "sslmode=require" in shown_url(make_url(f"{url}{'&' if '?' in url else '?'}sslmode=require"))


def test_an_index_that_is_no_url_and_one_that_is_wrong() -> None:
    assert shown_index("some/index.db") == "some/index.db"
    assert shown_index(f"postgresql://me:{HUSH}@h:port/db") == "***"


def test_error_of_an_unreachable_index_hides_its_password() -> None:
    with pytest.raises(IndexUnavailableError) as raised:
        Index.connect(
            f"postgresql+psycopg://127.0.0.1:1/db?user=me&password={HUSH}&connect_timeout=2"
        ).current_revision()
    assert HUSH not in f"{raised.value.message} {raised.value.parameters}"
    assert "password=***" in raised.value.message


def test_settings_are_shown_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_EXT_TOKEN", HUSH)
    monkeypatch.setenv("CATALOG_EXT_STORAGE", f"secret_key={HUSH}")
    monkeypatch.setenv("CATALOG_EXT_INDEX", f"mysql+pymysql://h/db?password={HUSH}")
    settings = Settings.resolve(storage={"fs.s3a.secret.key": HUSH, "endpoint": "http://h:1"})
    assert HUSH not in repr(settings)
    assert "http://h:1" in repr(settings)


@pytest.mark.parametrize("key", ["fs.s3a.secret.key", "session_token", "Password"])
def test_no_table_namespace_or_view_keeps_a_secret(catalog: Catalog, tmp_path: Path, key: str) -> None:
    definition = catalog.load_table("s.t").definition
    secret = {key: HUSH}

    for what, make in (
        ("properties", lambda: catalog.register_table("s.n", location=str(tmp_path / "t"), properties=secret)),
        ("options", lambda: catalog.register_table("s.n", location=str(tmp_path / "t"), options=secret)),
        ("properties", lambda: catalog.create_table(named(definition, properties=secret), str(tmp_path / "n"))),
        ("options", lambda: catalog.create_table(named(definition, options=secret), str(tmp_path / "n"))),
        ("properties", lambda: catalog.alter_table_properties("s.t", secret)),
        ("properties", lambda: catalog.create_namespace("n", properties=secret)),
        ("properties", lambda: catalog.alter_namespace("s", secret)),
    ):
        with pytest.raises(InvalidConfigurationError) as raised:
            make()
        assert f"The {what} cannot hold {key!r}" in raised.value.message
        assert "CATALOG_EXT_STORAGE" in raised.value.message
        assert HUSH not in f"{raised.value.message} {raised.value.parameters}"
    assert catalog.list_tables("s") == ["t"]


def named(definition: TableDefinition, **changes: dict[str, str]) -> TableDefinition:
    return replace(definition, identifier=TableIdentifier.of("s", "n"), **changes)  # type: ignore[arg-type]


def test_a_write_keeps_no_secret_of_its_options(catalog: Catalog) -> None:
    table = catalog.load_table("s.t")
    batch = Batch("INSERT", "me", options={"fs.s3a.secret.key": HUSH, "quoteAll": "true"})
    catalog.writes.begin(WriteKind.APPEND, table.table_id, table.version, batch)
    (kept,) = catalog.list_transactions("s.t")
    assert HUSH not in repr(kept)


def test_an_import_leaves_secrets_in_the_metastore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeMetastore()
    monkeypatch.setattr("catalog_ext.conf.resolved.Settings.connect_metastore", serving(lambda _: fake))
    write(tmp_path / "t", "1.csv")
    definition = TableDefinition(
        TableIdentifier.of("s", "t"), TableType.EXTERNAL, "csv", f"file://{tmp_path}/t", (Column("x", "int"),),
        options={"fs.s3a.secret.key": HUSH, "sep": ";"}, properties={"password": HUSH, "team": "ours"},
    )  # fmt: skip
    fake.create_database(to_hive_database(Namespace("s")))
    fake.create_table(to_hive(definition))
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog, caplog.at_level(logging.WARNING):
        taken = catalog.import_table("s.t").definition
    assert HUSH not in repr(taken)
    assert (taken.options["sep"], taken.properties["team"]) == (";", "ours")
    assert "password" in caplog.text
    assert HUSH not in caplog.text
