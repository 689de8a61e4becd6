"""Dropping partitions by a condition or by age, and other types of partition columns; the procedures that do it."""

from __future__ import annotations

import shutil
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore import errors
from catalog_ext.metastore.predicates.tree import Comparison, In, IsNull, Not, Operator
from catalog_ext.procedures.registry import find_procedure
from catalog_ext.service.server import Service
from tests.kit.repair_cases import catalog_of_files, indexed, register, skipped, write
from tests.kit.service_client import Client
from tests.kit.writes import insert
from tests.unit.partitions.test_partition_commands import external, managed, names, state

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog


def call(catalog: Catalog, procedure: str, **arguments: object) -> list[dict[str, Any]]:
    result = find_procedure(procedure).call(catalog, arguments)
    return [row for batch in result.batches for row in batch.to_pylist()]


def days_ago(*days: int) -> list[str]:
    now = datetime.now(timezone.utc)
    return [(now - timedelta(days=n)).date().isoformat() for n in days]


def test_drop_partitions_by_a_condition(catalog: Catalog, tmp_path: Path) -> None:
    root = managed(catalog, keys={"k": "int", "r": "string"})
    insert(catalog, "k=1/r=a", "k=2/r=a", "k=3/r=b")
    write(tmp_path / "own", "a.csv")
    catalog.partition_commands.add("s.t", [({"k": "4", "r": "z"}, f"file://{tmp_path}/own")])
    where = "k >= 2 AND (r LIKE 'a%' OR r IN ('z', NULL)) AND NOT k = 9 AND r IS NOT NULL"
    preview = call(catalog, "drop_partitions", table="s.t", where=where, dry_run=True)
    assert [(row["action"], row["partition"], row["files"], row["reason"]) for row in preview] == [
        ("drop", "k=2/r=a", 1, "dropped"), ("drop", "k=4/r=z", 1, "dropped; its files stay"),
    ]  # fmt: skip
    assert len(names(catalog)) == 4
    assert call(catalog, "drop_partitions", table="s.t", where=where) == preview
    assert names(catalog) == ["k=1/r=a", "k=3/r=b"]
    assert not (root / "k=2").exists()
    assert (tmp_path / "own" / "a.csv").exists()
    before = state(catalog)
    assert call(catalog, "drop_partitions", table="s.t", where="k = 77") == []
    for where, error in (("x = 1", errors.InvalidPredicateError), ("k = 'x'", errors.InvalidValueError)):
        with pytest.raises(error):
            call(catalog, "drop_partitions", table="s.t", where=where)
    with pytest.raises(errors.InvalidPartitionSpecError, match="give a condition"):
        catalog.partition_maintenance.drop("s.t", None)
    assert state(catalog) == before


def test_partitions_expire_by_their_values(catalog: Catalog, tmp_path: Path) -> None:
    old, older, young = days_ago(10, 400, 3)
    root = external(catalog, tmp_path, keys={"r": "STRING", "ds": "DATE"})
    default = "__HIVE_DEFAULT_PARTITION__"
    write(root, *(f"r=x/ds={day}/a.csv" for day in (old, older, young, default)))
    catalog.repair_partitions("s.t")
    with pytest.raises(errors.InvalidInputError, match=r"no property 'partition\.retention\.period'"):
        call(catalog, "expire_partitions", table="s.t")
    with pytest.raises(errors.InvalidConfigurationError, match="'soon'"):
        call(catalog, "expire_partitions", table="s.t", retention="soon")
    preview = call(catalog, "expire_partitions", table="s.t", retention="7d", dry_run=True)
    assert [row["partition"] for row in preview] == [f"r=x/ds={older}", f"r=x/ds={old}"]
    assert "longer ago than 7d" in preview[0]["reason"]
    assert preview[0]["reason"].endswith(
        "its files stay, and the next repair registers it again: the table has no partition.retention.period"
    )
    assert len(names(catalog)) == 4
    catalog.alter_table_properties("s.t", {"partition.retention.period": "30d"})
    preview = call(catalog, "expire_partitions", table="s.t", retention="7d", dry_run=True)
    assert ["registers it again: the table has a longer" in row["reason"] for row in preview] == [False, True]
    assert len(call(catalog, "expire_partitions", table="s.t")) == 1
    assert names(catalog) == [f"r=x/ds={default}", f"r=x/ds={old}", f"r=x/ds={young}"]
    report = catalog.repair_partitions("s.t")
    assert "not registered again, expired" in skipped(report)[f"r=x/ds={older}"]
    assert [(entry.files, entry.bytes) for entry in report.skipped] == [(1, 1)]
    assert len(names(catalog)) == 3
    assert (root / f"r=x/ds={older}" / "a.csv").exists()
    catalog.alter_table_properties("s.t", {}, ["partition.retention.period"])
    catalog.repair_partitions("s.t")
    assert len(names(catalog)) == 4


@pytest.mark.parametrize("days", [-300, 300])
def test_a_hosts_clock_that_is_wrong_leaves_no_partition_out(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    old, young = days_ago(100, 3)
    root = external(catalog, tmp_path, keys={"ds": "DATE"})
    catalog.alter_table_properties("s.t", {"partition.retention.period": "30d"})
    write(root, f"ds={old}/a.csv", f"ds={young}/a.csv")
    right = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right() + days * 86_400 * 1_000_000_000)
    assert list(skipped(catalog.repair_partitions("s.t"))) == [f"ds={old}"]
    assert names(catalog) == [f"ds={young}"]


def test_strings_expire_by_a_pattern_of_several_keys(catalog: Catalog) -> None:
    (old,) = days_ago(40)
    root = managed(catalog, keys={"y": "string", "m": "string", "d": "string"})
    year, month, day = old.split("-")
    today = datetime.now(timezone.utc).date()
    young = f"y={today.year}/m={today.month:02d}/d={today.day:02d}"
    insert(catalog, f"y={year}/m={month}/d={day}", "y=once/m=1/d=1", "y=2020/m=13/d=1", young)
    with pytest.raises(errors.InvalidInputError, match="have no time"):
        call(catalog, "expire_partitions", table="s.t", retention="7d")
    catalog.alter_table_properties("s.t", {"partition.time-extractor.timestamp-pattern": "$y-$m-$d"})
    gone = call(catalog, "expire_partitions", table="s.t", retention="7d")
    assert [row["partition"] for row in gone] == [f"y={year}/m={month}/d={day}"]
    assert sorted(names(catalog)) == sorted(["y=once/m=1/d=1", "y=2020/m=13/d=1", young])
    assert not (root / f"y={year}" / f"m={month}" / f"d={day}").exists(), "a managed table's data goes"


def test_the_mode_of_partition_columns(catalog: Catalog, tmp_path: Path) -> None:
    external(catalog, tmp_path)
    (row,) = call(catalog, "set_partition_columns", table="s.t", mode="declared")
    assert row == {"table": "s.t", "partition_columns": "k INT", "mode": "declared"}
    with pytest.raises(errors.InvalidInputError):
        call(catalog, "set_partition_columns", table="s.t", mode="hidden")
    with pytest.raises(errors.InvalidInputError, match="Give the change of the partition columns"):
        call(catalog, "set_partition_columns", table="s.t")


def test_other_types_of_partition_columns(catalog: Catalog, tmp_path: Path) -> None:
    root = tmp_path / "t"
    register(catalog, root, {"k": "STRING", "r": "STRING"})
    write(root, *(f"k={k}/r=a/1.csv" for k in ("9", "10", "007")))
    catalog.repair_partitions("s.t")
    assert names(catalog) == ["k=007/r=a", "k=10/r=a", "k=9/r=a"]
    old = catalog.load_table("s.t")
    (row,) = call(catalog, "set_partition_columns", table="s.t", types={"K": "int"})
    assert row["partition_columns"] == "k INT, r STRING"
    assert names(catalog) == ["k=007/r=a", "k=9/r=a", "k=10/r=a"], "in the order of numbers"
    assert catalog.partitions("s.t", "k < 10").num_rows == 2
    assert catalog.partitions("s.t", {"k": "7"}).num_rows == 1
    assert catalog.history("s.t")[0].operation == "SET PARTITION COLUMNS"
    with pytest.raises(errors.VersionExpiredError):
        catalog.index.partitions.all(old, None).read_all()
    insert(catalog, "k=9/r=a")
    catalog.partition_commands.drop("s.t", [Comparison(Operator.EQ, "k", "7")])
    assert sorted(indexed(catalog)) == ["k=10/r=a", "k=9/r=a"]
    with pytest.raises(errors.ConflictError):
        catalog.writes.delete(old.table_id, old.version, Not(IsNull("r")), truncate=False)


def test_types_that_do_not_fit_change_nothing(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path, keys={"k": "STRING"})
    write(root, *(f"k={k}/1.csv" for k in ("1", "x", "y")))
    catalog.repair_partitions("s.t")
    before = state(catalog), catalog.load_table("s.t").definition
    with pytest.raises(errors.InvalidValueError, match=r"2 of its partitions .* do not fit, such as 'k=x'"):
        call(catalog, "set_partition_columns", table="s.t", types={"k": "int"}, mode="declared")
    with pytest.raises(errors.InvalidPartitionSpecError, match="'q' is no partition column"):
        call(catalog, "set_partition_columns", table="s.t", types={"q": "int"})
    with pytest.raises(errors.InvalidTypeError):
        call(catalog, "set_partition_columns", table="s.t", types={"k": "array<int>"})
    assert (state(catalog), catalog.load_table("s.t").definition) == before
    catalog.partition_commands.drop("s.t", [In("k", ("x", "y"))])
    call(catalog, "set_partition_columns", table="s.t", types={"k": "int"})
    assert names(catalog) == ["k=1"], "what was dropped does not have to fit"


def test_commands_that_need_no_parser_of_ours(catalog: Catalog, tmp_path: Path) -> None:
    managed(catalog)
    managed(catalog, "o")
    insert(catalog, "k=1")
    (row,) = call(catalog, "exchange_partitions", table="s.o", source="s.t", partition={"k": "1"})
    assert (row["operation"], row["partitions_added"]) == ("EXCHANGE PARTITION", 1)
    assert (names(catalog), names(catalog, "s.o")) == ([], ["k=1"])
    write(tmp_path / "elsewhere", "b.csv", "c.csv")
    (row,) = call(
        catalog, "set_partition_location", table="s.o", partition={"k": "01"}, location=f"file://{tmp_path}/elsewhere"
    )
    assert row["files_added"] == 2


@pytest.mark.slow
def test_statement_that_read_the_old_types_gets_an_error(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path, keys={"k": "STRING"})
    write(root, *(f"k={k}/1.csv" for k in ("9", "10")))
    catalog.repair_partitions("s.t")
    with Service(catalog) as service:
        client = Client(service)
        read = client.load()
        pinned = {"table_id": read["table_id"], "version": read["version"]}
        condition = {"op": "<", "column": "k", "value": "5"}
        assert client.call("tables/plan", **pinned, predicate=condition).status == 200
        call(catalog, "set_partition_columns", table="s.t", types={"k": "int"})
        late = client.call("tables/plan", **pinned, predicate=condition)
        assert (late.status, late.error["code"]) == (409, "CATALOG_EXT_VERSION_EXPIRED")
        with Service(catalog) as other:
            late = Client(other).call("tables/plan", **pinned, predicate=condition)
        assert (late.status, late.error["code"]) == (409, "CATALOG_EXT_VERSION_EXPIRED"), "one that has not seen it"
        now = client.load()
        assert now["partition_columns"][0]["type"] == "int"
        fresh = client.call("partitions/list", table_id=now["table_id"], version=now["version"], predicate=condition)
        assert fresh.status == 200


def test_key_names_are_shown_as_declared_and_locations_as_they_are(tmp_path: Path) -> None:
    root = tmp_path / "t"
    mixed, plain = "DS=2025-01-01/Region=EU%20x", "ds=2025-01-02/region=us"
    shown = "ds=2025-01-01/region=EU%20x"
    with catalog_of_files(tmp_path, root, f"{mixed}/a.csv", f"{plain}/b.csv") as catalog:
        listed = catalog.partitions("s.t").to_pylist()
        assert [row["partition"] for row in listed] == [shown, plain]
        assert [row["location"] for row in listed] == [f"file://{root}/{mixed}", None]
        assert [row["partition"] for row in catalog.files("s.t").to_pylist()] == [shown, plain]
        table = catalog.load_table("s.t")
        of_service = catalog.reads.list_partitions(table.table_id, table.version).read_all().to_pylist()
        assert [row["partition"] for row in of_service] == [shown, plain]
        one = catalog.reads.partition(table.table_id, table.version, {"ds": "2025-01-01", "region": "EU x"})
        assert one.read_all().to_pylist() == listed[:1]
        for name, location in (("partitions", "location"), ("files", "path")):
            rows = catalog.metadata_tables.read(table.table_id, name).read_all().to_pylist()
            assert [row["partition"] for row in rows] == [shown, plain]
            assert rows[0][location].startswith(f"file://{root}/{mixed}")
        preview = catalog.partition_maintenance.drop("s.t", "region = 'EU x'", dry_run=True)
        assert [(entry.partition, entry.path) for entry in preview] == [(shown, mixed)]
        shutil.rmtree(root / "DS=2025-01-01")
        report = catalog.repair_partitions("s.t", dry_run=True)
        assert [(entry.partition, entry.path) for entry in report.dropped] == [(shown, mixed)]
        assert report.dropped[0].partition == shown
        dropped = catalog.partition_maintenance.drop("s.t", "region = 'EU x'")
        assert [entry.partition for entry in dropped] == [shown]
        assert [row["partition"] for row in catalog.partitions("s.t").to_pylist()] == [plain]


def aged(catalog: Catalog, old: int, young: int, **properties: str) -> Path:
    """Register a table of which ``old`` days are a year old, and ``young`` days are in the last month."""
    root = managed(catalog, keys={"ds": "date"})
    insert(catalog, *(f"ds={day}" for day in days_ago(*range(400, 400 + old), *range(young))))
    catalog.alter_table_properties("s.t", properties)
    return root


def test_period_without_a_unit_does_not_drop_every_partition(catalog: Catalog) -> None:
    """Hive reads 90 as seconds, and the user meant days."""
    aged(catalog, 2, 3, **{"partition.retention.period": "90"})
    before = state(catalog)
    with pytest.raises(
        errors.MassDropError,
        match=r"s\.t is refused: it would drop the 5 partitions of 5 that are older than 90s \(partition\.retention\."
        r"period\), that is before 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC, all of them\..*90 days is 90d.*--force",
    ) as refused:
        call(catalog, "expire_partitions", table="s.t")
    assert refused.value.parameters == {"table": "s.t", "partitions": "5", "registered": "5"}
    assert state(catalog) == before
    first, *others = call(catalog, "expire_partitions", table="s.t", dry_run=True)
    assert (first["action"], first["files"], len(others)) == ("refuse", 5, 5)
    assert first["reason"].startswith("the run would be refused: it would drop the 5 partitions of 5")
    assert "longer ago than 90s (partition.retention.period), that is before 20" in others[0]["reason"]
    catalog.alter_table_properties("s.t", {"partition.retention.period": "90d"})
    assert [row["action"] for row in call(catalog, "expire_partitions", table="s.t")] == ["drop", "drop"]


def test_expiry_drops_at_most_the_share_that_a_repair_may_drop(catalog: Catalog) -> None:
    aged(catalog, 12, 8)
    with pytest.raises(
        errors.MassDropError, match=r"12 partitions of 20 .* more than the 50 % that it may drop at once"
    ):
        call(catalog, "expire_partitions", table="s.t", retention="90d")
    preview = call(catalog, "expire_partitions", table="s.t", retention="90d", allow_mass_drop=True, dry_run=True)
    assert [row["action"] for row in preview] == ["drop"] * 12
    catalog.alter_table_properties("s.t", {"repair.mass-drop-percent": "60"})
    assert len(call(catalog, "expire_partitions", table="s.t", retention="90d")) == 12
    with pytest.raises(errors.MassDropError, match=r"8 partitions of 8 .* all of them"):
        call(catalog, "expire_partitions", table="s.t", retention="1s")
    catalog.alter_table_properties("s.t", {"repair.mass-drop-percent": "100"})
    assert len(call(catalog, "expire_partitions", table="s.t", retention="1s")) == 8
    assert names(catalog) == []


def test_period_longer_than_the_calendar_expires_nothing(catalog: Catalog) -> None:
    aged(catalog, 1, 1)
    assert call(catalog, "expire_partitions", table="s.t", retention="99999999999999") == []
