"""Mistyped keys of a session's catalog, and of the environment: refused, with the name that is near."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.conf.key_suggestions import check_catalog_keys, check_variables
from catalog_ext.conf.keys import SETTINGS
from catalog_ext.conf.resolution import Given, Use, resolve
from catalog_ext.conf.resolved import Settings
from catalog_ext.conf.setting import Scope
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.service.messages.core import Request
from catalog_ext.service.messages.settings import given_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("max-stalenes", "max-staleness"),
        ("follow.database", "follow.databases"),
        ("followDatabases", "follow.databases"),
        ("token_fil", "token-file"),
        ("write.max-filesize", "write.max-file-size"),
        ("missing_file", "missing-files"),
    ],
)
def test_a_key_that_is_nearly_a_setting_is_refused(key: str, meant: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=f"Did you mean 'spark.sql.catalog.lake.{meant}'"):
        check_catalog_keys([key], "lake")


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("index", "the argument index of catalog_ext.configure or the environment variable CATALOG_EXT_INDEX"),
        ("warehouse", "environment variable CATALOG_EXT_WAREHOUSE"),
        ("repair.batch-partitions", "table property or environment variable CATALOG_EXT_REPAIR_BATCH_PARTITIONS"),
        ("use_hive_partitioning", "`SET` in the session"),
        ("txn-app-id", "option of a write"),
    ],
)
def test_a_setting_that_is_given_elsewhere_says_where(key: str, where: str) -> None:
    with pytest.raises(InvalidConfigurationError, match="would change nothing") as error:
        check_catalog_keys([key], "lake")
    assert where in error.value.message


def test_every_setting_of_a_session_passes_in_any_case() -> None:
    names = [name for s in SETTINGS if Scope.SESSION in s.scopes for name in s.names]
    check_catalog_keys([*names, *map(str.upper, names)], "lake")
    check_catalog_keys(["defaultDatabase"], "spark_catalog")


def test_what_is_near_to_nothing_is_warned_of_where_a_session_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Settings.resolve(spark={"spark.sql.catalog.lake.io-impl": "x", "spark.sql.catalog.other.max-stalenes": "1s"})
    assert "'spark.sql.catalog.lake.io-impl' is no setting" in caplog.text
    with pytest.raises(InvalidConfigurationError, match="max-staleness"):
        Settings.resolve(spark={"spark.sql.catalog.lake.max-stalenes": "1s"})


def test_a_key_of_the_builder_counts_in_any_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings.resolve(spark={"spark.sql.catalog.lake.Follow.Databases": "sales"})
    assert settings.conf["follow.databases"] == "sales"


def test_the_service_refuses_what_a_session_has_set_meanwhile() -> None:
    keys = ["follow.interval", "max-stalenes"]
    asked = Request({"use": "read", "table": "s.t", "catalog": "lake", "other_catalog_keys": keys})
    assert asked.text("use") == "read"
    given = given_of(asked, {})
    asked.finish()
    with pytest.raises(InvalidConfigurationError, match="max-staleness"):
        resolve(Use.READ, given)
    resolve(Use.READ, Given(catalog="lake", others_of_catalog=["follow.interval"]))


@pytest.mark.parametrize(
    ("variable", "meant"),
    [("CATALOG_EXT_METASTOR", "METASTORE"), ("CATALOG_EXT_INDX", "INDEX"), ("CATALOG_EXT_WAREHOSE", "WAREHOUSE")],
)
def test_a_variable_that_is_nearly_one_of_ours_is_refused(
    variable: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "x")
    with pytest.raises(InvalidConfigurationError, match=f"Did you mean CATALOG_EXT_{meant}\\?"):
        Settings.resolve()


def test_variables_of_others_pass() -> None:
    others = ("CATALOG_EXT_TEST_CHROMIUM", "CATALOG_EXT_BUCKET", "_CATALOG_EXT_COMPLETE", "INDX")
    check_variables({**{s.variable: s.default or "" for s in SETTINGS}, **dict.fromkeys(others, "x")})


def test_value_that_does_not_fit_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_EXT_LISTING_THREADS", "many")
    with pytest.raises(InvalidConfigurationError, match=r"CATALOG_EXT_LISTING_THREADS is not valid\. .*'many'"):
        Settings.resolve()
