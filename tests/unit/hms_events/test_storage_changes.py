"""Where a table lies and how its files are read, changed in the metastore: what is taken over, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.hms_events.tables import TableFollowing
from catalog_ext.metastore.hive.mapping.hive_text import LAZY
from catalog_ext.metastore.hive.mapping.model import MANAGED_TABLE, HivePartition, HiveStorage, HiveTable
from catalog_ext.metastore.model.alterations import ChangeType
from catalog_ext.metastore.model.tables import Column
from catalog_ext.sync.definitions import check_partitions
from tests.kit.repair_cases import indexed, write
from tests.kit.writes import begin, insert
from tests.unit.hms_events.test_following import PARQUET, add, counts, followed, hive_table
from tests.unit.hms_events.test_following import catalog as catalog
from tests.unit.hms_events.test_following import root as root
from tests.unit.hms_events.test_following import server as server

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore_log import LoggingMetastore

TEXT = HiveStorage(
    "org.apache.hadoop.mapred.TextInputFormat",
    "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
    LAZY,
    {"field.delim": "|", "serialization.format": "|"},
)
COMMAS = replace(TEXT, serde_parameters={"field.delim": ",", "serialization.format": ","})
ONE = {"one": 1}


def delimited(catalog: Catalog, server: LoggingMetastore, root: Path, *partitions: str) -> HiveTable:
    """An imported table of delimited text, ``s.d``; partitioned where it has partitions."""
    table = replace(hive_table(root, "d", ("ds",) if partitions else ()), storage=TEXT)
    server.create_table(table)
    server.add_partitions(
        "s", "d", [HivePartition((name,), f"file:{root}/ds={name}", storage=TEXT) for name in partitions]
    ) if partitions else None
    catalog.import_table("s.d")
    catalog.follower.look()
    return table


def options(catalog: Catalog) -> tuple[str, str | None]:
    definition = catalog.load_table("s.d").definition
    return definition.format, definition.options.get("sep")


def states(catalog: Catalog) -> dict[str, str]:
    """What ``status`` says of tables that are not followed."""
    return {entry.table: entry.detail for entry in catalog.status() if entry.kind == "suspect"}


def test_settings_of_a_table_without_partitions_are_its_files(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path
) -> None:
    write(tmp_path / "d", "one")
    table = delimited(catalog, server, tmp_path / "d")
    server.alter_table(replace(table, storage=COMMAS))
    assert followed(catalog, "s.d").altered
    assert options(catalog) == ("csv", ",")
    server.alter_table(replace(table, storage=PARQUET))
    assert followed(catalog, "s.d").altered
    assert options(catalog) == ("parquet", None)
    assert catalog.index.outbox.count() == 0
    assert states(catalog) == {}


def test_partitions_keep_their_own_settings_until_they_are_altered_too(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path
) -> None:
    write(tmp_path / "d", "ds=a/one", "ds=b/one")
    table = delimited(catalog, server, tmp_path / "d", "a", "b")
    server.alter_table(replace(table, storage=COMMAS, parameters={**table.parameters, "p": "1"}))
    outcome = followed(catalog, "s.d")
    assert outcome.action == "refused"
    assert options(catalog) == ("csv", "|")
    assert "partitions that are there keep their own: of 'ds=a' its option sep" in states(catalog)["s.d"]
    server.insert("s", "d", "ds=a")
    followed(catalog, "s.d")
    assert "s.d" in states(catalog), "an event of a partition changes nothing about that"
    for name in "ab":
        (there,) = server.partitions_by_names("s", "d", [f"ds={name}"])
        server.alter_partitions("s", "d", [replace(there, storage=COMMAS)])
    server.alter_table(replace(server.get_table("s", "d"), parameters={**table.parameters, "p": "1", "q": "1"}))
    assert followed(catalog, "s.d").altered
    assert options(catalog) == ("csv", ",")
    assert catalog.load_table("s.d").definition.properties["p"] == "1", "what was refused with it comes, too"
    assert states(catalog) == {}


def test_partitions_that_come_after_a_refused_format_are_read_by_it(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path
) -> None:
    """Each by its own descriptor: what is refused is only that it is the table's, in which we write."""
    write(tmp_path / "d", "ds=a/one", "ds=b/one")
    table = delimited(catalog, server, tmp_path / "d", "a")
    server.alter_table(replace(table, storage=COMMAS))
    assert followed(catalog, "s.d").action == "refused"
    server.add_partitions("s", "d", [HivePartition(("b",), f"file:{tmp_path}/d/ds=b", storage=COMMAS)])
    assert counts(followed(catalog, "s.d")) == (1, 0, 0)
    assert options(catalog) == ("csv", "|")
    (descriptor,) = catalog.index.descriptors.of_table(catalog.load_table("s.d")).values()
    assert descriptor.options["sep"] == ","
    assert list(catalog.index.descriptors.formats(catalog.load_table("s.d"))) == ["ds=b"]


def test_what_is_refused_is_possible_when_the_partitions_are_gone(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path
) -> None:
    write(tmp_path / "d", "ds=a/one")
    table = delimited(catalog, server, tmp_path / "d", "a")
    server.alter_table(replace(table, storage=PARQUET))
    assert "its format is parquet, and ours csv" in (followed(catalog, "s.d").error or "")
    server.drop_partitions("s", "d", ["ds=a"])
    first = followed(catalog, "s.d")
    server.alter_table(replace(server.get_table("s", "d"), parameters={**table.parameters, "q": "1"}))
    followed(catalog, "s.d")
    assert counts(first) == (0, 1, 0)
    assert options(catalog) == ("parquet", None)
    assert states(catalog) == {}


def test_a_partition_that_the_metastore_lacks_keeps_its_format(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path
) -> None:
    write(tmp_path / "d", "ds=a/one", "ds=b/one")
    table = delimited(catalog, server, tmp_path / "d", "a")
    server.drop_partitions("s", "d", ["ds=a"])
    followed(catalog, "s.d")
    server.down = True
    catalog.repair_partitions("s.d", where="ds = 'b'")
    server.down = False
    server.alter_table(replace(table, storage=COMMAS))
    assert "partitions of ours that the metastore does not have" in (followed(catalog, "s.d").error or "")
    assert options(catalog) == ("csv", "|")


def test_what_hive_changes_of_a_table_of_sparks_is_said(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path
) -> None:
    """Spark goes on reading by its own options; only Hive engines would read it otherwise."""
    catalog.create_namespace("s")
    place = tmp_path / "own"
    place.mkdir()
    catalog.register_table("s.d", location=str(place), schema="x INT", format="csv", partition_columns={})
    catalog.deliver()
    catalog.follower.look()
    there = server.get_table("s", "d")
    settings = {**there.storage.serde_parameters, "field.delim": "|"}
    server.alter_table(replace(there, storage=replace(there.storage, serde_parameters=settings)))
    assert "than Spark, whose own table it is" in (followed(catalog, "s.d").error or "")
    settings = {**there.storage.serde_parameters, "field.delim": "|", "sep": "|"}
    server.alter_table(replace(there, storage=replace(there.storage, serde_parameters=settings)))
    assert followed(catalog, "s.d").altered
    assert options(catalog) == ("csv", "|")
    assert states(catalog) == {}


def test_how_files_are_read_does_not_change_under_a_writer(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path
) -> None:
    write(tmp_path / "d", "one")
    table = delimited(catalog, server, tmp_path / "d")
    begun = begin(catalog, table="s.d")
    server.alter_table(replace(table, storage=COMMAS))
    assert followed(catalog, "s.d").action == "left"
    assert options(catalog) == ("csv", "|")
    assert "cannot change while a write to it is open" in states(catalog)["s.d"]
    catalog.writes.transactions.abort(begun.transaction_id, "test")
    server.alter_table(replace(server.get_table("s", "d"), parameters={**table.parameters, "q": "1"}))
    assert followed(catalog, "s.d").altered
    assert options(catalog) == ("csv", ",")


def test_another_location_is_for_partitions_that_are_to_come(
    catalog: Catalog, server: LoggingMetastore, root: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new"
    server.alter_table(replace(server.get_table("s", "t"), location=f"file:{new}"))
    assert followed(catalog).altered
    write(root, "ds=a/two")
    server.insert("s", "t", "ds=a")
    write(new, "ds=b/one")
    add(server, new, "b")
    assert counts(followed(catalog)) == (1, 0, 1)
    assert indexed(catalog) == {"ds=a": {"one": 1, "two": 1}, "ds=b": ONE}
    table = catalog.load_table("s.t")
    assert table.definition.location == f"file://{new}"
    assert catalog.index.partitions.located(table) == {"ds=a": f"file://{root}/ds=a"}
    assert catalog.index.outbox.count() == 0
    server.alter_table(replace(server.get_table("s", "t"), location=f"file:{tmp_path}/x"))
    server.alter_table(replace(server.get_table("s", "t"), location=f"file:{root}"))
    followed(catalog)
    assert indexed(catalog) == {"ds=a": {"one": 1, "two": 1}, "ds=b": ONE}


def test_a_new_location_of_an_unpartitioned_table_has_other_files(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "d", "one")
    table = delimited(catalog, server, tmp_path / "d")
    write(tmp_path / "new", "two", "three")
    server.alter_table(replace(table, location=f"file:{tmp_path}/new"))

    class Killed(BaseException):
        pass

    move = TableFollowing._move

    def killed(*arguments: object) -> None:
        move(*arguments)  # type: ignore[arg-type]
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(TableFollowing, "_move", killed)
        with pytest.raises(Killed):
            catalog.follower.look()
    followed(catalog, "s.d")
    assert indexed(catalog, "s.d") == {"": {"two": 1, "three": 1}}
    server.alter_table(replace(table, location=f"file:{tmp_path}/nothing"))
    followed(catalog, "s.d")
    assert states(catalog) == {}
    assert indexed(catalog, "s.d") == {"": {}}


def test_the_location_of_a_managed_table_is_refused(catalog: Catalog, server: LoggingMetastore, tmp_path: Path) -> None:
    write(tmp_path / "d", "one")
    table = replace(hive_table(tmp_path / "d", "d", ()), table_type=MANAGED_TABLE, parameters={})
    server.create_table(table)
    catalog.import_table("s.d")
    catalog.follower.look()
    server.alter_table(replace(table, location=f"file:{tmp_path}/new"))
    assert "it is a managed table" in (followed(catalog, "s.d").error or "")
    assert catalog.load_table("s.d").definition.location == f"file://{tmp_path}/d"
    server.alter_table(replace(table, location=f"file:{tmp_path}/d"))
    assert followed(catalog, "s.d").action == "followed"
    assert states(catalog) == {}


def test_partitions_that_are_read_so_already_are_the_tables_from_then_on(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path
) -> None:
    """Else rows could not be added to them, and drift would find them ever after."""
    write(tmp_path / "d", "ds=a/one", "ds=b/one")
    table = delimited(catalog, server, tmp_path / "d", "a", "b")
    for name in "ab":
        (there,) = server.partitions_by_names("s", "d", [f"ds={name}"])
        server.alter_partitions("s", "d", [replace(there, storage=COMMAS)])
    followed(catalog, "s.d")
    assert catalog.index.descriptors.formats(catalog.load_table("s.d")) == {"ds=a": "csv", "ds=b": "csv"}
    server.alter_table(replace(table, storage=COMMAS))
    assert followed(catalog, "s.d").altered
    assert options(catalog) == ("csv", ",")
    assert catalog.index.descriptors.formats(catalog.load_table("s.d")) == {}
    assert list(catalog.drift("s.d")) == []
    assert catalog.index.outbox.count() == 0
    insert(catalog, "ds=a", table="s.d")


def test_what_is_kept_of_tables_is_read_once_for_all_of_them(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "d", "one")
    table = delimited(catalog, server, tmp_path / "d")
    for name in ("e", "f"):
        server.create_table(replace(table, name=name, location=f"file://{tmp_path}/{name}"))
        write(tmp_path / name, "one")
        catalog.import_table(f"s.{name}")
    followed_tables, suspects = type(catalog.index.followed), type(catalog.index.followed).suspects
    calls: list[object] = []

    def counted(self: object) -> object:
        calls.append(self)
        return suspects(self)  # type: ignore[arg-type]

    monkeypatch.setattr(followed_tables, "suspects", counted)
    catalog.follower.look()
    calls.clear()
    asked: list[int] = []
    for names in ("d", "def"):
        for name in names:
            there = server.get_table("s", name)
            server.alter_table(replace(there, parameters={**there.parameters, "q": str(len(names))}))
        assert [each.altered for each in catalog.follower.look().tables] == [True] * len(names)
        asked.append(len(calls))
        calls.clear()
    assert asked == [asked[0]] * 2


def test_a_pending_type_change_makes_no_descriptor_of_the_old_type(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path
) -> None:
    write(tmp_path / "d", "ds=a/one")
    delimited(catalog, server, tmp_path / "d", "a")
    (there,) = server.partitions_by_names("s", "d", ["ds=a"])
    server.alter_partitions("s", "d", [replace(there, columns=(Column("x", "int"),))])
    followed(catalog, "s.d")
    server.down = True
    catalog.alterations.alter("s.d", [ChangeType(("x",), "string")])
    server.down = False
    server.insert("s", "d", "ds=a")
    assert followed(catalog, "s.d").action == "left"
    assert catalog.index.descriptors.of_table(catalog.load_table("s.d")) == {}
    catalog.index.outbox.retry()
    assert catalog.deliver().pending == 0
    # A metastore gives the type to its partitions with the table.
    server.alter_partitions("s", "d", [replace(there, columns=(Column("x", "string"),))])
    catalog.follower.look()
    assert catalog.index.descriptors.of_table(catalog.load_table("s.d")) == {}
    assert states(catalog) == {}


def test_a_partition_committed_after_the_comparison_keeps_its_format(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "d", "ds=a/one")
    table = delimited(catalog, server, tmp_path / "d", "a")
    (there,) = server.partitions_by_names("s", "d", ["ds=a"])
    server.alter_partitions("s", "d", [replace(there, storage=COMMAS)])
    server.alter_table(replace(table, storage=COMMAS))

    def compared_then_committed(*args: Any) -> None:
        check_partitions(*args)
        insert(catalog, "ds=b", table="s.d")

    monkeypatch.setattr("catalog_ext.hms_events.tables.check_partitions", compared_then_committed)
    outcome = followed(catalog, "s.d")
    assert (outcome.action, outcome.altered) == ("left", False)
    assert options(catalog) == ("csv", "|")
