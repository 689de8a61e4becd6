"""Settings: how each is read, where it can be given, and that the page and the connector agree with the code."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from catalog_ext.catalog import connect
from catalog_ext.conf import keys, read_keys, write_keys
from catalog_ext.conf.keys import SETTINGS, check_properties, process_settings
from catalog_ext.conf.resolved import Settings
from catalog_ext.conf.setting import Scope, Setting
from catalog_ext.metastore import errors
from catalog_ext.metastore.commit import fault_points as faults
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.model.tables import PartitionMode
from catalog_ext.tables.partition_strategy import IN_DATA_FILE
from docs.tools import reference

PROJECT = Path(__file__).resolve().parents[3]


def test_the_nearest_source_wins() -> None:
    assert keys.MISSING_FILES.read({"missing-files": "skip"}, {"missing-files": "error"}) == "skip"
    assert keys.MISSING_FILES.read({}, {"missing-files": "skip"}) == "skip"
    assert keys.MISSING_FILES.read() == "error"


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        (keys.SAMPLE_FILES, "7", 7),
        (keys.SAMPLE_FILES, "All", None),
        (keys.PARTITION_COLUMNS, "declared", PartitionMode.DECLARED),
        (keys.LISTING_THREADS, " 32 ", 32),
        (keys.METASTORE_TIMEOUT, "500ms", 0.5),
        (keys.METASTORE_TIMEOUT, "2m", 120.0),
        (keys.METASTORE_TIMEOUT, "1.5 h", 5400.0),
        (keys.METASTORE_TIMEOUT, "15", 15.0),
        (keys.USE_HIVE_PARTITIONING, "TRUE", True),
        (keys.USE_HIVE_PARTITIONING, "0", False),
        (write_keys.VACUUM_RETENTION, "0s", 0.0),
        (write_keys.VACUUM_RETENTION, "7d", 604_800.0),
        (write_keys.PARTITION_COMMIT_DELAY, "1 hours", 3_600_000),
        (write_keys.STAGING_DIR, ".staging", ".staging"),
        (write_keys.OVERWRITE_MODE, "RELOCATE", "relocate"),
        (write_keys.WRITE_MAX_FILE_SIZE, "1 GiB", 2**30),
        (write_keys.WRITE_MAX_FILE_SIZE, "1p", 2**50),
        (read_keys.MAX_BYTES_PER_TRIGGER, "2 mb", 2**21),
        (write_keys.WRITE_MAX_FILE_SIZE, "1048576", 2**20),
        (write_keys.WRITE_MAX_OPEN_WRITERS, "0", 0),
        (write_keys.TXN_VERSION, "9223372036854775807", 2**63 - 1),
    ],
)
def test_values(setting: Setting[object], text: str, value: object) -> None:
    assert setting.value_of(text) == value


@pytest.mark.parametrize(
    ("setting", "text", "expected"),
    [
        (keys.SAMPLE_FILES, "0", "whole number from 1 to 1000000, or 'all'"),
        (keys.SAMPLE_FILES, "some", "whole number"),
        (keys.PARTITION_COLUMNS, "Declared", "'virtual' or 'declared'"),
        (keys.MISSING_FILES, "ignore", "'error' or 'skip'"),
        (keys.LISTING_THREADS, "-1", "whole number"),
        (keys.LISTING_THREADS, "٣", "whole number"),
        (keys.METASTORE_TIMEOUT, "0s", "above zero"),
        (keys.METASTORE_TIMEOUT, "soon", "500ms, 30s or 2m"),
        (keys.METASTORE_TIMEOUT, "-5s", "duration"),
        (keys.USE_HIVE_PARTITIONING, "yes", "1, 0, true or false"),
        (keys.URI, "", "empty"),
        (keys.MISSING_FILES, "x" * 10_000, "give"),
        (write_keys.TRANSACTION_LEASE, "0s", "above zero"),
        (write_keys.VACUUM_RETENTION, "never", "duration"),
        (write_keys.STAGING_DIR, "staging", "begins with '_' or '.'"),
        (write_keys.STAGING_DIR, "_a/b", "without '/'"),
        (write_keys.STAGING_DIR, "_a=b", "and '='"),
        (write_keys.STAGING_DIR, "..", "begins with"),
        (write_keys.WRITE_MAX_FILE_SIZE, "0", "above zero"),
        (write_keys.WRITE_MAX_FILE_SIZE, "1x", "a size"),
        (write_keys.TXN_VERSION, "9223372036854775808", "whole number from 0"),
        (write_keys.TXN_VERSION, "-1", "whole number from 0"),
    ],
)
def test_values_that_are_refused(setting: Setting[object], text: str, expected: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=re.escape(expected)) as caught:
        setting.value_of(text)
    assert setting.key in caught.value.message
    assert len(caught.value.message) < 300


def test_a_setting_without_default_must_be_given() -> None:
    with pytest.raises(InvalidConfigurationError, match="'uri' is missing"):
        keys.URI.read({})


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.default is not None], ids=lambda s: s.key)
def test_every_default_can_be_read(setting: Setting[object]) -> None:
    assert setting.value_of(str(setting.default)) == setting.read()


def test_an_alias_means_the_same_and_the_key_goes_first() -> None:
    setting = write_keys.STAGING_DIR
    assert setting.read({}, {"hive_staging_dir": "_a"}) == "_a"
    assert setting.read({"hive_staging_dir": "_a", "staging-dir": "_b"}) == "_b"
    assert setting.read({"hive_staging_dir": "_a"}, {"staging-dir": "_b"}) == "_a"
    spark = {"spark.sql.catalog.lake.hive_sink_max_file_size": "5m"}
    assert process_settings({}, spark, "lake") == {"write.max-file-size": "5m"}
    with pytest.raises(InvalidConfigurationError, match="staging-dir"):
        check_properties({"hive_staging_dir": "visible"})


@pytest.mark.parametrize("name", ["_catalog_ext_data", "_Catalog_Ext_Dropped_1", "_catalog_ext_index", ".catalog-ext"])
def test_a_staging_directory_gets_no_name_that_catalog_ext_uses(name: str) -> None:
    """Relocating writes failed in ``_catalog_ext_data``, the directory of their own files."""
    with pytest.raises(InvalidConfigurationError, match=r"staging-dir.*keeps other files under that name"):
        check_properties({"staging-dir": name})


def test_keys_are_found_without_regard_to_case() -> None:
    setting = write_keys.STAGING_DIR
    assert setting.read({}, {"Staging-Dir": "_a"}) == "_a"
    assert setting.read({"STAGING-DIR": "_a", "staging-dir": "_b"}) == "_b", "the very key goes first"
    assert setting.read({"Hive_Staging_Dir": "_a"}) == "_a"
    with pytest.raises(InvalidConfigurationError, match="staging-dir"):
        check_properties({"Staging-Dir": "visible"})
    assert write_keys.WRITE_MAX_FILE_SIZE.read({"WRITE.MAX-FILE-SIZE": "1 g"}) == 2**30


def test_keys_and_variables_are_unique() -> None:
    names = [name for s in SETTINGS for name in s.names]
    assert len(set(names)) == len(names)
    assert len({s.variable for s in SETTINGS}) == len(SETTINGS)
    assert keys.LISTING_THREADS.variable == "CATALOG_EXT_LISTING_THREADS"


def test_process_settings_take_spark_before_the_environment() -> None:
    environment = {
        "CATALOG_EXT_LISTING_THREADS": "8",
        "CATALOG_EXT_MISSING_FILES": "skip",
        "CATALOG_EXT_METASTORE_CALL_TIMEOUT": "",
    }
    spark = {"spark.sql.catalog.lake.listing.threads": "4", "spark.sql.catalog.other.listing.target-prefixes": "1"}
    assert process_settings(environment, spark, "lake") == {"listing.threads": "4"}


def test_table_properties_are_checked() -> None:
    check_properties({"schema.sample-files": "all", "listing.threads": "not for tables", "mine": "x"})
    with pytest.raises(InvalidConfigurationError, match=r"schema\.sample-files"):
        check_properties({"schema.sample-files": "many"})


def test_the_pages_are_those_of_the_code() -> None:
    assert (PROJECT / "docs" / "configuration.md").read_text() == reference.configuration_page()
    assert reference.main(["--check"]) == 0


def test_the_page_names_every_setting() -> None:
    page = reference.configuration_page()
    for setting in SETTINGS:
        meaning, _, default = setting.doc.partition(" Default: ")
        sentence, _, details = meaning.rstrip(".").partition(". ")
        assert f"| {sentence}. |" in page
        assert f"| {default.rstrip('.')} | {sentence}. |" in page or setting.default or not default
        _, _, section = page.partition(f"\n## `{setting.key}`\n")
        assert section.startswith(f"\n{details}")
        assert "Values: " in section


def test_every_option_of_the_connector_is_a_setting() -> None:
    names = ("CatalogOptions", "ReadOptions", "WriteSettings", "InsertRules", "ResolvedSettings", "AdHocFileIndex")
    folder = PROJECT / "catalog_ext/connector/src/main/scala/org/apache/spark/sql/catalogext"
    sources = "".join(path.read_text() for name in names for path in folder.rglob(f"{name}.scala"))
    named = set(re.findall(r'val \w+ = "([a-z][a-z_.-]+)"', sources))
    asked = set(re.findall(r'resolved\.(?:text|long|flag)\("([^"]+)"\)', sources))
    assert {"uri", "token-file", "missing-files", "use_hive_partitioning"} <= named
    assert {"write.distribution-mode", "write.max-file-size", IN_DATA_FILE} <= asked
    in_spark = {
        name
        for s in SETTINGS
        for name in s.names
        if {Scope.READ, Scope.WRITE, Scope.SESSION, Scope.SQL} & set(s.scopes)
    }
    assert named <= in_spark
    assert asked <= {s.key for s in SETTINGS}


def test_every_environment_variable_is_a_setting() -> None:
    folders = ("catalog_ext", "metastore")
    sources = [p for folder in folders for kind in ("py", "scala") for p in (PROJECT / folder).rglob(f"*.{kind}")]
    found = {name for path in sources for name in re.findall(r'"(CATALOG_EXT_[A-Z_]+)"', path.read_text())}
    kinds = (kind for kind in vars(errors).values() if isinstance(kind, type))
    codes = {kind.code for kind in kinds if issubclass(kind, errors.CatalogExtError)}
    variables = found - codes
    assert {"CATALOG_EXT_INDEX", "CATALOG_EXT_TOKEN"} <= variables
    assert variables - {"CATALOG_EXT_", faults.ENVIRONMENT} <= {s.variable for s in SETTINGS}


def test_settings_take_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_EXT_LISTING_THREADS", "3")
    monkeypatch.setenv("CATALOG_EXT_LISTING_TARGET_PREFIXES", "5")
    with connect(index=str(tmp_path / "index.db"), metastore=None, warehouse=str(tmp_path)) as catalog:
        assert (catalog.storage.listing_threads, catalog.storage.target_prefixes) == (3, 5)


def test_a_setting_that_does_not_fit_is_heard_of_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_EXT_METASTORE_CALL_TIMEOUT", "soon")
    with pytest.raises(InvalidConfigurationError, match=r"metastore\.call-timeout"):
        connect(index=str(tmp_path / "index.db"), metastore="thrift://127.0.0.1:1", warehouse=str(tmp_path))


def test_sparks_conf_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_EXT_LISTING_THREADS", "3")
    settings = Settings.resolve(spark={"spark.sql.catalog.lake.listing.threads": "4"})
    assert settings.open_storage().listing_threads == 4


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("overwrite-mod", "overwrite-mode"), ("Sink.Partition-Commit.Triger", "sink.partition-commit.trigger"),
        ("write.statistics-column", "write.statistics-columns"), ("external.table.purged", "external.table.purge"),
    ],
)  # fmt: skip
def test_a_property_that_is_nearly_one_of_ours_is_refused(key: str, meant: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=f"Did you mean '{meant}'"):
        check_properties({key: "x"})


def test_every_property_of_ours_and_those_of_others_pass() -> None:
    names = [name for setting in SETTINGS if Scope.TABLE in setting.scopes for name in setting.names]
    for name in names:
        close = difflib.get_close_matches(name, {*names} - {name}, 1, 0.92)
        assert not close, f"{name} would be taken for {close} where it is no key any more"
    others = (
        "comment", "auto.purge", "parquet.compress", "write.format.default", "delta.appendOnly", "EXTERNAL", "owner",
        "partition.auto.keys.sales.trips", "partition.auto.keys.s.t",
        "transient_lastDdlTime", "orc.compression", "discover.partitions",
        "write.parquet.compression-codec", "serialization.format", "numFiles", "spark.sql.sources.provider",
    )  # fmt: skip
    check_properties(dict.fromkeys(others, "x"))
