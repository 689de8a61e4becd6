"""SET SERDE and SERDEPROPERTIES: what becomes of the reader's options and the metastore, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore import errors
from catalog_ext.metastore.hive.mapping.formats import SERDE_FORMATS, storage_of
from catalog_ext.metastore.hive.mapping.hive_text import LAZY, OPEN_CSV
from catalog_ext.tables.alter import TableAlterations
from tests.kit.repair_cases import local_catalog
from tests.kit.writes import insert
from tests.unit.partitions.test_partition_commands import external, managed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore

TEXT = {"quote": "", "sep": "\x01", "nullValue": "\\N", "serde": LAZY}
PARQUET = next(name for name, found in SERDE_FORMATS.items() if found == "parquet")


def text(catalog: Catalog, tmp_path: Path, name: str = "t") -> None:
    """A table of Hive's text, as it is imported or made by ROW FORMAT DELIMITED."""
    (tmp_path / name).mkdir()
    catalog.register_table(
        f"s.{name}", location=str(tmp_path / name), format="csv", schema="x INT", partition_columns={}, options=TEXT
    )


def options(catalog: Catalog) -> dict[str, str]:
    return dict(catalog.load_table("s.t").definition.options)


def test_settings_of_text_are_options_of_the_reader(catalog: Catalog, tmp_path: Path) -> None:
    text(catalog, tmp_path)
    catalog.alterations.set_serde("s.t", None, {"field.delim": ";"})
    assert options(catalog) == {**TEXT, "sep": ";"}
    catalog.alterations.set_serde("s.t", LAZY, {"serialization.null.format": ""})
    assert options(catalog) == {**TEXT, "sep": ";", "nullValue": ""}
    catalog.alterations.set_serde("s.t", None, {"field.delim": "9"})
    assert options(catalog)["sep"] == "\t"


def test_names_of_a_serdes_options_have_no_case(catalog: Catalog, tmp_path: Path) -> None:
    """Spark and the connector read the files by these options whatever the case of their names."""
    given = {"QUOTE": "", "Sep": ";", "nullvalue": "NIL", "SerDe": LAZY, "SKIP.header.line.count": "2"}
    catalog.register_table(
        "s.t", location=str(tmp_path), format="csv", schema="x INT", partition_columns={}, options=given
    )
    found = options(catalog)
    assert found == {"quote": "", "sep": ";", "nullValue": "NIL", "serde": LAZY, "skip.header.line.count": "2"}
    storage = storage_of("csv", found, str(tmp_path))
    assert (storage.serde, storage.serde_parameters["field.delim"]) == (LAZY, ";")
    with pytest.raises(errors.UnsupportedFormatError, match=r"'serde' = 'org\.example\.Other'.*OpenCSVSerde"):
        catalog.register_table(
            "s.u", location=str(tmp_path), format="csv", schema="x INT", options={"serde": "org.example.Other"}
        )


def test_settings_of_quoted_text(catalog: Catalog, tmp_path: Path) -> None:
    external(catalog, tmp_path, keys={})
    catalog.alterations.set_serde("s.t", OPEN_CSV, {"separatorChar": ";", "quoteChar": "'"})
    assert options(catalog) == {"sep": ";", "quote": "'"}


def test_other_formats_keep_what_is_no_delimiter(catalog: Catalog) -> None:
    managed(catalog, kind="parquet")
    catalog.alterations.set_serde("s.t", PARQUET, {"field.delim": ";", "serialization.format": "1"})
    assert options(catalog) == {}
    catalog.alterations.set_serde("s.t", None, {"mergeSchema": "true"})
    assert options(catalog) == {"mergeSchema": "true"}


@pytest.mark.parametrize(
    ("kind", "serde", "given", "error"),
    [
        ("parquet", OPEN_CSV, {}, errors.InvalidAlterationError),
        ("csv", LAZY, {}, errors.InvalidAlterationError),
        ("csv", PARQUET, {}, errors.InvalidAlterationError),
        ("csv", None, {"no.such": "1"}, errors.InvalidAlterationError),
        ("csv", "org.example.Own", {}, errors.UnsupportedFormatError),
        ("parquet", None, {"fs.s3a.secret.key": "1"}, errors.InvalidConfigurationError),
    ],
)
def test_what_could_not_be_read_is_refused(
    catalog: Catalog, kind: str, serde: str | None, given: dict[str, str], error: type[Exception]
) -> None:
    managed(catalog, kind=kind)
    before = options(catalog)
    with pytest.raises(error):
        catalog.alterations.set_serde("s.t", serde, given)
    assert options(catalog) == before


def test_settings_that_only_hive_has_are_kept(catalog: Catalog, tmp_path: Path) -> None:
    text(catalog, tmp_path)
    catalog.alterations.set_serde("s.t", None, {"escape.delim": "\\"})
    catalog.alterations.set_serde("s.t", None, {"timestamp.formats": "millis"})
    assert options(catalog) == {**TEXT, "escape.delim": "\\", "timestamp.formats": "millis"}


def test_text_registered_without_a_serde_is_read_by_the_named_one(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    before = {name: value for name, value in TEXT.items() if name != "serde"}
    catalog.register_table(
        "s.t", location=str(tmp_path / "t"), format="csv", schema="x INT", partition_columns={}, options=before
    )
    catalog.alterations.set_serde("s.t", LAZY, {})
    assert options(catalog) == TEXT


def test_partitions_keep_how_they_were_written(catalog: Catalog) -> None:
    managed(catalog)
    catalog.alterations.set_serde("s.t", None, {"separatorChar": ";"})
    insert(catalog, "k=1")
    catalog.alterations.set_serde("s.t", None, {"separatorChar": ";"})
    with pytest.raises(errors.InvalidAlterationError, match=r"partitions of table s\.t keep"):
        catalog.alterations.set_serde("s.t", None, {"separatorChar": "|"})
    assert options(catalog)["sep"] == ";"


def test_the_metastore_gets_the_settings(tmp_path: Path, metastore: FakeMetastore) -> None:
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog:
        text(catalog, tmp_path)
        before = dict(metastore.get_table("s", "t").storage.serde_parameters)
        catalog.alterations.set_serde("s.t", None, {"field.delim": ";", "serialization.format": "1"})
        after = dict(metastore.get_table("s", "t").storage.serde_parameters)
    assert after == {**before, "field.delim": ";", "serialization.format": ";"}


def meanwhile(monkeypatch: pytest.MonkeyPatch, done: Callable[[], object]) -> None:
    """Another writer's change, once, between the reading of a table and its alteration."""
    looked, left = TableAlterations._check_metastore, [done]

    def check(self: TableAlterations, *args: Any) -> None:
        looked(self, *args)
        if left:
            left.pop()()

    monkeypatch.setattr(TableAlterations, "_check_metastore", check)


def test_settings_changed_meanwhile_stay(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text(catalog, tmp_path)
    meanwhile(monkeypatch, lambda: catalog.alterations.set_serde("s.t", None, {"field.delim": ";"}))
    catalog.alterations.set_serde("s.t", None, {"serialization.null.format": "nil"})
    assert options(catalog) == {**TEXT, "sep": ";", "nullValue": "nil"}


def test_a_partition_that_is_committed_meanwhile_keeps_how_it_was_written(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed(catalog)
    before = options(catalog)
    meanwhile(monkeypatch, lambda: insert(catalog, "k=1"))
    with pytest.raises(errors.InvalidAlterationError, match=r"partitions of table s\.t keep"):
        catalog.alterations.set_serde("s.t", None, {"separatorChar": "|"})
    assert options(catalog) == before
