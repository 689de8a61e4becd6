"""Two indexes over one warehouse are noticed by the mark in it."""

from __future__ import annotations

import json
import os
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

import catalog_ext
from catalog_ext.cli.main import main
from catalog_ext.identity.record import INDEX_ID
from catalog_ext.identity.warehouse_mark import MARK_FILE, WarehouseSharedWarning, read_mark
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import StorageAccessDeniedError, StorageError, StorageUnavailableError
from catalog_ext.metastore.index.database.urls import parse_url, public_url
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.writes.writes import Batch
from tests.kit.repair_cases import local_catalog, write
from tests.unit.partitions.test_partition_commands import managed

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog


@pytest.fixture(autouse=True)
def _clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("INDEX", "WAREHOUSE", "STORAGE", "METASTORE"):
        monkeypatch.delenv(f"CATALOG_EXT_{name}", raising=False)


def another(folder: Path, name: str = "other.db") -> Catalog:
    return local_catalog(folder, index=str(folder / name))


def mark(warehouse: Path) -> dict[str, Any]:
    return json.loads((warehouse / MARK_FILE).read_text())  # type: ignore[no-any-return]


def doctor(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    """The exit code, and the state and text of the finding."""
    code = main([*options, "--metastore", "none", "doctor", "--quick", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    (found,) = (check for check in checks if check["check"] == "index of the warehouse")
    return code, found["state"], found["found"]


def test_the_first_managed_table_marks_the_warehouse(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", "k=1/a.csv")
    catalog.register_table("s.e", location=str(tmp_path / "elsewhere"), format="csv", schema="x INT",
                           partition_columns={"k": "INT"})  # fmt: skip
    assert not (tmp_path / "warehouse").exists()
    assert INDEX_ID not in catalog.index.properties.load()
    managed(catalog)
    found = mark(tmp_path / "warehouse")
    assert set(found) == {"index", "url", "host", "written_at_ms"}
    assert found["index"] == catalog.index.properties.load()[INDEX_ID]
    assert found["url"] == catalog.index.url
    assert sorted(os.listdir(tmp_path / "warehouse")) == [MARK_FILE, "s.db"]
    managed(catalog, "t2")
    with local_catalog(tmp_path) as again:
        managed(again, "t3")
    assert mark(tmp_path / "warehouse") == found


def test_a_second_index_is_warned_once(catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    managed(catalog)
    before = mark(tmp_path / "warehouse")
    with another(tmp_path) as other:
        with pytest.warns(WarehouseSharedWarning) as warned:
            managed(other, "t2")
        (text,) = (str(w.message) for w in warned)
        for word in (catalog.index.url, other.index.url, before["index"], other.index.properties.load()[INDEX_ID],
                     f"file://{tmp_path}/warehouse", "vacuum", "adopt"):  # fmt: skip
            assert word in text
        assert text in caplog.text
        managed(other, "t3")
    with another(tmp_path) as other, warnings.catch_warnings():
        warnings.simplefilter("error")
        managed(other, "t4")
    assert mark(tmp_path / "warehouse") == before


@pytest.mark.parametrize("kind", [WriteKind.CREATE, WriteKind.CREATE_OR_REPLACE])
def test_a_table_of_a_query_marks_it_too(catalog: Catalog, tmp_path: Path, kind: WriteKind) -> None:
    definition = TableDefinition(TableIdentifier("s", "made"), TableType.MANAGED, "csv", "", (Column("x", "int"),), ())
    catalog.writes.begin_creation(kind, definition, None, Batch("CTAS", "me"))
    assert mark(tmp_path / "warehouse")["index"] == catalog.index.properties.load()[INDEX_ID]
    with another(tmp_path) as other, pytest.warns(WarehouseSharedWarning):
        other.writes.begin_creation(kind, definition, None, Batch("CTAS", "me"))


def test_a_preview_marks_nothing(catalog: Catalog, tmp_path: Path) -> None:
    definition = TableDefinition(TableIdentifier("s", "made"), TableType.MANAGED, "csv", "", (Column("x", "int"),), ())
    catalog.complete_definition(definition)
    assert not (tmp_path / "warehouse").exists()


def test_an_external_table_in_anothers_warehouse(catalog: Catalog, tmp_path: Path) -> None:
    root = managed(catalog)
    write(root, "k=1/a.csv")
    keys: dict[str, Any] = {"format": "csv", "schema": "x INT", "partition_columns": {"k": "INT"}}
    with catalog_ext.connect(index="own.db", metastore=None, warehouse=str(tmp_path / "mine")) as other:
        other.create_namespace("s")
        with pytest.warns(WarehouseSharedWarning, match="of the index") as warned:
            other.register_table("s.t", location=str(root), **keys)
        assert f"lies in the warehouse file://{tmp_path}/warehouse of the index {catalog.index.url}" in str(
            warned[0].message
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            managed(other, "own")
    assert mark(tmp_path / "mine")["url"] == other.index.url
    assert sorted(os.listdir(root)) == ["k=1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        managed(catalog, "t2")


def test_what_was_only_looked_at_is_marked_later(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "warehouse" / "found", "k=1/a.csv")
    keys: dict[str, Any] = {"format": "csv", "schema": "x INT", "partition_columns": {"k": "INT"}}
    catalog.register_table("s.e", location=str(tmp_path / "warehouse" / "found"), **keys)
    assert not (tmp_path / "warehouse" / MARK_FILE).exists()
    managed(catalog)
    assert (tmp_path / "warehouse" / MARK_FILE).exists()


def test_mark_is_not_taken_for_data(catalog: Catalog, tmp_path: Path) -> None:
    managed(catalog)
    warehouse = tmp_path / "warehouse"
    write(warehouse, "k=1/a.csv", content=b"1\n")
    keys: dict[str, Any] = {"format": "csv", "schema": "x INT", "partition_columns": {"k": "INT"}}
    with catalog_ext.connect(index="own.db", metastore=None, warehouse=str(tmp_path / "mine")) as other:
        other.create_namespace("s")
        for name, location in (("t", warehouse), ("pattern", warehouse / "*"), ("any", warehouse / "**")):
            with pytest.warns(WarehouseSharedWarning) if name == "pattern" else nullcontext():
                other.register_table(f"s.{name}", location=str(location), **keys)
            report = other.repair_partitions(f"s.{name}", mode="sync")
            assert MARK_FILE not in str(report.to_arrow().to_pylist())
            assert other.partitions(f"s.{name}").column("partition").to_pylist() == ["k=1"]
            assert MARK_FILE not in str(other.files(f"s.{name}").to_pylist())
            other.unregister_table(f"s.{name}")
    catalog.drop_table("s.t")
    catalog.drop_namespace("s")
    assert (warehouse / MARK_FILE).exists()


def test_a_namespace_elsewhere_is_not_marked(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_namespace("far", location=str(tmp_path / "far"))
    definition = TableDefinition(TableIdentifier("far", "t"), TableType.MANAGED, "csv", "", (Column("x", "int"),), ())
    catalog.create_table(definition)
    assert os.listdir(tmp_path / "far") == ["t"]
    assert not (tmp_path / MARK_FILE).exists()


def test_two_at_once_make_one_mark(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = Storage.create_file

    def late(storage: Storage, location: Location, data: bytes) -> bool:
        monkeypatch.setattr(Storage, "create_file", create)
        managed(catalog)
        return create(storage, location, data)

    monkeypatch.setattr(Storage, "create_file", late)
    with another(tmp_path) as other, pytest.warns(WarehouseSharedWarning):
        managed(other, "t2")
    assert mark(tmp_path / "warehouse")["url"] == catalog.index.url
    assert sorted(os.listdir(tmp_path / "warehouse")) == [MARK_FILE, "s.db"]


@pytest.mark.parametrize("retryable", [False, True])
def test_a_store_that_refuses_the_mark_fails_no_statement(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, retryable: bool
) -> None:
    asked = []

    def refuse(storage: Storage, location: Location, data: bytes) -> bool:
        asked.append(location)
        raise (StorageUnavailableError if retryable else StorageAccessDeniedError)("not now")

    monkeypatch.setattr(Storage, "create_file", refuse)
    managed(catalog)
    managed(catalog, "t2")
    assert len(asked) == (2 if retryable else 1)
    assert caplog.text.count("not now") == len(asked)


def test_a_mark_that_cannot_be_rewritten_stops_no_adoption(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(storage: Storage, location: Location, data: bytes) -> None:
        raise StorageAccessDeniedError("not here")

    managed(catalog)
    monkeypatch.setattr(Storage, "write_file", refuse)
    other = str(tmp_path / "other.db")
    catalog_ext.connect(index=other, metastore=None, warehouse=str(tmp_path / "mine")).close()
    adopted = catalog_ext.adopt(index=other, warehouse=str(tmp_path / "warehouse"))
    assert [change.what for change in adopted] == ["warehouse"]
    assert "was not rewritten: not here" in caplog.text


@pytest.mark.parametrize("content", [b"", b"\xff", b"[1]", b'{"index": 1}', b"[" * 16384])
def test_what_is_no_mark_stays(
    catalog: Catalog, tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    write(tmp_path / "warehouse", MARK_FILE, content=content)
    managed(catalog)
    assert "adopt the warehouse" in caplog.text
    assert (tmp_path / "warehouse" / MARK_FILE).read_bytes() == content
    code, state, found = doctor(capsys, "--index", str(tmp_path / "index.db"))
    assert (code, state) == (0, "warning")
    assert "Remove it, or adopt" in found
    catalog_ext.adopt(index=str(tmp_path / "index.db"), warehouse=str(tmp_path / "warehouse"))
    assert mark(tmp_path / "warehouse")["url"] == catalog.index.url


def test_a_mark_of_a_later_release_and_its_text(tmp_path: Path) -> None:
    place = Location.parse(str(tmp_path))
    assert read_mark(Storage(), place) is None
    write(tmp_path, MARK_FILE, content=b'{"index": "a\\u001b[31m", "url": null, "more": [1], "written_at_ms": 1e400}')
    found = read_mark(Storage(), place)
    assert found is not None
    assert (found.index, found.url, found.written_at_ms) == ("a?[31m", "unknown", 0)
    (tmp_path / MARK_FILE).unlink()
    (tmp_path / MARK_FILE).mkdir()
    with pytest.raises(StorageError):
        read_mark(Storage(), place)


def test_the_url_of_a_mark_has_no_credentials() -> None:
    url = parse_url("sqlite:///x.db?timeout=5")
    assert public_url(url) == f"sqlite+pysqlite:///{os.getcwd()}/x.db"
    url = url.create("postgresql+psycopg", "alice", "secret", "db", 5433, "lake", {"sslpassword": "hidden"})
    assert public_url(url) == "postgresql+psycopg://db:5433/lake"


def test_adopting_a_warehouse_rewrites_its_mark(
    catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    managed(catalog)
    before, warehouse = mark(tmp_path / "warehouse"), tmp_path / "warehouse"
    options = ["--index", str(tmp_path / "other.db")]
    catalog_ext.connect(index=options[1], metastore=None, warehouse=str(tmp_path / "mine")).close()
    for dry_run in (["--dry-run"], []):
        assert main([*options, "--warehouse", str(warehouse), "adopt", "--json", *dry_run]) == 0
        taken, replaced = json.loads(capsys.readouterr().out)["changes"]
        assert (taken["what"], taken["after"]) == ("warehouse", f"file://{warehouse}")
        assert (replaced["what"], replaced["after"]) == ("mark", f"sqlite+pysqlite:///{options[1]}")
        assert before["index"] in replaced["before"]
        assert (mark(warehouse) == before) is bool(dry_run)
    assert doctor(capsys, *options)[:2] == (0, "ok")
    assert doctor(capsys, "--index", str(tmp_path / "index.db"))[:2] == (1, "wrong")
    adopted = catalog_ext.adopt(index=options[1], warehouse=str(tmp_path / "not yet"))
    assert [change.what for change in adopted] == ["warehouse"]
    assert not (tmp_path / "not yet").exists()


def test_doctor_says_whose_the_warehouse_is(
    catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, none = ["--index", str(tmp_path / "index.db")], ["--index", str(tmp_path / "none.db")]
    assert doctor(capsys, *own)[:2] == (0, "ok")
    managed(catalog)
    assert doctor(capsys, *own)[:2] == (0, "ok")
    another(tmp_path).close()
    code, state, found = doctor(capsys, "--index", str(tmp_path / "other.db"))
    assert (code, state) == (1, "wrong")
    assert catalog.index.url in found
    code, state, found = doctor(capsys, *none, "--warehouse", str(tmp_path / "warehouse"))
    assert (code, state) == (0, "warning")
    assert catalog.index.url in found
    assert main([*own, "--metastore", "none", "doctor", "--quick"]) == 0
    assert "index of the warehouse" in capsys.readouterr().out


def test_the_command_line_warns_once(
    catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = managed(catalog)
    write(root, "k=1/a.csv")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    own = ["--index", str(tmp_path / "own.db"), "--metastore", "none", "--warehouse", str(tmp_path / "mine")]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert (
            main([*own, "register", "s.t", str(root), "--schema", "x INT", "--key", "k=INT", "--create-namespace"]) == 0
        )
    assert capsys.readouterr().err.count("lies in the warehouse") == 1
