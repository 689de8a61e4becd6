"""Views without Spark: names, partition columns, partitions, and those that come by themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from catalog_ext.cli.main import main
from catalog_ext.metastore import errors
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.model.views import Dependency, ViewQuery
from catalog_ext.procedures.registry import find_procedure
from catalog_ext.views.automatic import parse_requirements
from catalog_ext.views.views import NewViewPartition, ViewRequest
from tests.kit.repair_cases import register, write

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog

COLUMNS = (Column("x", "int"), Column("ds", "date"), Column("region", "string"))


def request(
    name: str = "v", *on: str, columns: tuple[Column, ...] = COLUMNS, tables: tuple[str, ...] = (), **properties: str
) -> ViewRequest:
    query = ViewQuery("SELECT x, ds, region FROM t", "lake", ("s",), tables=tables)
    dotted = {key.replace("__", "."): value for key, value in properties.items()}
    return ViewRequest(TableIdentifier.of("s", name), query, columns, on, dotted)


def add(catalog: Catalog, *days: str, view: str = "s.v", if_not_exists: bool = False) -> None:
    catalog.views.add_partitions(view, [NewViewPartition({"ds": day}) for day in days], if_not_exists=if_not_exists)


def test_the_life_of_a_view(catalog: Catalog) -> None:
    made = catalog.views.create(request("V", "DS", "Region", note="a"))
    assert (str(made.identifier), [c.name for c in made.columns]) == ("s.v", ["x", "ds", "region"])
    assert [c.name for c in made.definition.partition_columns] == ["ds", "region"]
    assert (catalog.views.list_names("s"), catalog.list_tables("s")) == (["v"], [])
    assert catalog.views.load("lake.s.v").query == request().query
    with pytest.raises(errors.ViewAlreadyExistsError, match=r"s\.v exists already"):
        catalog.views.create(request())
    changed = catalog.views.create(request("v", note="b"), or_replace=True)
    assert (changed.definition.properties, changed.definition.partition_columns) == ({"note": "b"}, ())
    renamed = catalog.views.rename("s.v", "s.w")
    assert renamed == catalog.views.load("s.w")
    catalog.views.drop("s.w")
    for call in (catalog.views.drop, catalog.views.load, lambda view: catalog.views.rename(view, "s.x")):
        with pytest.raises(errors.ViewNotFoundError, match=r"s\.w does not exist"):
            call("s.w")
    with pytest.raises(errors.NamespaceNotFoundError):
        catalog.views.create(ViewRequest(TableIdentifier.of("nowhere", "v"), ViewQuery("SELECT 1"), COLUMNS))


def test_command_line_lists_views_and_writes_to_them_are_refused(
    catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = catalog.views.create(request("seen", "ds", "region"))
    options = ["--index", str(tmp_path / "index.db"), "--metastore", "none"]
    assert main([*options, "tables", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["tables"]
    assert (listed["name"], listed["table_type"]) == ("seen", "VIEW")
    with pytest.raises(errors.TableNotFoundError, match="is a view, and cannot be written"):
        catalog.writes.delete(view.table.table_id, 0, None, truncate=True)


def test_tables_and_views_share_their_names(catalog: Catalog, tmp_path: Path) -> None:
    register(catalog, tmp_path / "t")
    catalog.views.create(request())
    with pytest.raises(errors.TableAlreadyExistsError, match="is a table"):
        catalog.views.create(request("t"))
    with pytest.raises(errors.TableAlreadyExistsError, match="is a table"):
        catalog.views.rename("s.v", "s.t")
    with pytest.raises(errors.ViewNotFoundError, match="is a table and no view"):
        catalog.views.drop("s.t")
    with pytest.raises(errors.TableAlreadyExistsError, match="is a view"):
        register(catalog, tmp_path / "u", table="s.v")
    managed = TableDefinition(TableIdentifier.of("s", "v"), TableType.MANAGED, "orc", "", COLUMNS[:1])
    with pytest.raises(errors.TableAlreadyExistsError, match="is a view"):
        catalog.create_table(managed)
    for call in (catalog.load_table, catalog.drop_table, catalog.unregister_table, catalog.repair_partitions):
        with pytest.raises(errors.TableNotFoundError, match="is a view and no table"):
            call("s.v")
    assert catalog.find_table(TableIdentifier.of("s", "v")) is None
    with pytest.raises(errors.NamespaceNotEmptyError):
        catalog.drop_namespace("s")
    catalog.drop_namespace("s", cascade=True)
    assert catalog.list_namespaces() == []


@pytest.mark.parametrize(
    ("on", "error", "message"),
    [
        (("day",), errors.ViewPartitionColumnNotFoundError, "no column 'day'"),
        (("region", "region"), errors.ViewPartitionColumnDuplicateError, "named twice"),
        (("x", "ds"), errors.ViewPartitionColumnsNotLastError, "last columns, which are ds, region"),
        (("ds",), errors.ViewPartitionColumnsNotLastError, "which are region"),
        (("region", "ds"), errors.ViewPartitionColumnOrderError, r"Write PARTITIONED ON \(ds, region\)"),
        (("x", "ds", "region"), errors.ViewOnlyPartitionColumnsError, "all its columns"),
    ],
)
def test_partition_columns_are_the_last_ones(
    catalog: Catalog, on: tuple[str, ...], error: type[errors.CatalogExtError], message: str
) -> None:
    with pytest.raises(error, match=message):
        catalog.views.create(request("v", *on))
    assert catalog.views.list_names("s") == []


def test_partitions_are_added_and_dropped_all_or_none(catalog: Catalog) -> None:
    catalog.views.create(request("v", "ds", columns=(COLUMNS[0], COLUMNS[1])))
    add(catalog, "2025-01-02", "2025-1-1")
    assert catalog.views.partitions("s.v") == ["ds=2025-01-01", "ds=2025-01-02"]
    with pytest.raises(errors.PartitionAlreadyExistsError, match="ds=2025-01-02"):
        add(catalog, "2025-01-03", "2025-01-02")
    add(catalog, "2025-01-03", "2025-01-02", if_not_exists=True)
    with pytest.raises(errors.PartitionNotFoundError, match="2026"):
        catalog.views.drop_partitions("s.v", [{"ds": "2025-01-01"}, {"ds": "2026-01-01"}])
    assert len(catalog.views.partitions("s.v")) == 3
    catalog.views.drop_partitions("s.v", [{"DS": "2025-01-01"}, {"ds": "2026-01-01"}], if_exists=True)
    add(catalog, "2025-01-01")
    catalog.views.drop_partitions("s.v", [{"ds": "2025-01-01"}])
    assert catalog.views.partitions("s.v") == ["ds=2025-01-02", "ds=2025-01-03"]
    catalog.views.drop("s.v")
    catalog.views.create(request("v", "ds", columns=(COLUMNS[0], COLUMNS[1])))
    assert catalog.views.partitions("s.v") == []


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ({"ds": "2025-01-01"}, errors.InvalidPartitionSpecError, "no value for region"),
        ({"day": "1"}, errors.InvalidPartitionSpecError, "'day', which is no partition column"),
        ({"ds": "2025-01-01", "DS": "2025-01-01"}, errors.InvalidPartitionSpecError, "two values"),
        ({"ds": "2025-01-01", "region": ""}, errors.InvalidPartitionSpecError, "an empty value"),
        ({"ds": "tomorrow", "region": "eu"}, errors.InvalidValueError, "tomorrow"),
    ],
)
def test_specifications_are_checked(
    catalog: Catalog, spec: dict[str, str | None], error: type[errors.CatalogExtError], message: str
) -> None:
    catalog.views.create(request("v", "ds", "region"))
    with pytest.raises(error, match=message):
        catalog.views.add_partitions("s.v", [NewViewPartition(spec)])
    good = {"ds": "2025-01-01", "region": None}
    with pytest.raises(errors.InvalidPartitionSpecError, match="twice"):
        catalog.views.add_partitions("s.v", [NewViewPartition(good), NewViewPartition(good)])
    with pytest.raises(errors.ViewPartitionLocationError, match="no LOCATION"):
        catalog.views.add_partitions("s.v", [NewViewPartition(good, location="/x")])
    catalog.views.create(request("plain"))
    for call in (catalog.views.partitions, lambda view: catalog.views.add_partitions(view, [])):
        with pytest.raises(errors.InvalidPartitionSpecError, match="PARTITIONED ON"):
            call("s.plain")


def test_partial_specifications_and_null_drop_what_they_match(catalog: Catalog) -> None:
    catalog.views.create(request("v", "ds", "region"))
    specs: list[dict[str, str | None]] = [
        {"ds": d, "region": r} for d in ("2025-01-01", "2025-01-02") for r in ("a/b", None)
    ]
    catalog.views.add_partitions("s.v", [NewViewPartition(spec) for spec in specs])
    assert catalog.views.partitions("s.v")[:2] == [
        "ds=2025-01-01/region=__HIVE_DEFAULT_PARTITION__", "ds=2025-01-01/region=a%2Fb",
    ]  # fmt: skip
    catalog.views.drop_partitions("s.v", [{"region": "__HIVE_DEFAULT_PARTITION__"}])
    catalog.views.drop_partitions("s.v", [{"ds": "2025-01-02"}])
    assert catalog.views.partitions("s.v") == ["ds=2025-01-01/region=a%2Fb"]


def test_replacing_keeps_partitions_while_their_columns_stay(catalog: Catalog) -> None:
    catalog.views.create(request("v", "ds", "region"))
    catalog.views.add_partitions("s.v", [NewViewPartition({"ds": "2025-01-01", "region": "eu"})])
    catalog.views.create(request("v", "ds", "region", columns=(Column("y", "string"), *COLUMNS)), or_replace=True)
    assert catalog.views.partitions("s.v") == ["ds=2025-01-01/region=eu"]
    others = [request("v"), request("v", "region")]
    others.append(request("v", "ds", "region", columns=(COLUMNS[0], Column("ds", "string"), COLUMNS[2])))
    for other in others:
        with pytest.raises(errors.ViewPartitionColumnsChangedError, match=r"1 partitions by \(ds DATE, region STRING"):
            catalog.views.create(other, or_replace=True)
    catalog.views.drop_partitions("s.v", [{}])
    for other in others:
        catalog.views.create(other, or_replace=True)
    assert catalog.views.partitions("s.v") == []


def test_dependencies_are_kept_with_their_partition(catalog: Catalog) -> None:
    catalog.views.create(request("v", "ds", columns=(COLUMNS[0], COLUMNS[1])))
    parts = (Dependency("lake.s.t", ("ds=2025-01-01/hr=00",)), Dependency("other.u"))
    catalog.views.add_partitions(
        "s.v", [NewViewPartition({"ds": "2025-01-01"}, parts), NewViewPartition({"ds": "2025-01-02"})]
    )
    found = catalog.views.dependencies("s.v")
    assert [(d.partition, d.dependency) for d in found] == [("ds=2025-01-01", p) for p in parts]
    assert catalog.views.dependencies("s.v", {"ds": "2025-01-02"}) == []
    catalog.views.drop_partitions("s.v", [{"ds": "2025-01-01"}])
    assert catalog.views.dependencies("s.v") == []


# Automatic partitions

HOURS = {"ds": "DATE", "hr": "STRING"}


def hourly(root: Path, day: str, hours: int) -> None:
    write(root, *(f"ds={day}/hr={hour:02d}/1.csv" for hour in range(hours)))


def test_a_day_appears_when_its_hours_are_there_and_goes_with_one_of_them(catalog: Catalog, tmp_path: Path) -> None:
    root = tmp_path / "t"
    hourly(root, "2025-01-01", 24)
    hourly(root, "2025-01-02", 23)
    register(catalog, root, HOURS)
    days = (COLUMNS[0], COLUMNS[1])
    wanted = {"partition__auto": "true", "partition__auto__requires": "hr=00..23"}
    catalog.views.create(request("v", "ds", columns=days, tables=("s.t",), **wanted))
    assert catalog.index.views.load(TableIdentifier.of("s", "v")).table.totals.partitions == 0
    catalog.repair_partitions("s.t")
    # The repair has brought it, not this question.
    assert catalog.index.views.load(TableIdentifier.of("s", "v")).table.totals.partitions == 1
    assert catalog.views.partitions("s.v") == ["ds=2025-01-01"]
    hourly(root, "2025-01-02", 24)
    catalog.repair_partitions("s.t")
    assert catalog.views.partitions("s.v") == ["ds=2025-01-01", "ds=2025-01-02"]
    (first,) = catalog.views.dependencies("s.v", {"ds": "2025-01-01"})
    assert (first.dependency.relation, len(first.dependency.partitions)) == ("lake.s.t", 24)
    (root / "ds=2025-01-01/hr=07/1.csv").unlink()
    (root / "ds=2025-01-01/hr=07").rmdir()
    catalog.repair_partitions("s.t")
    assert catalog.views.partitions("s.v") == ["ds=2025-01-02"]
    with pytest.raises(errors.ViewPartitionsAutomaticError, match="come and go"):
        add(catalog, "2025-01-03")
    with pytest.raises(errors.ViewPartitionsAutomaticError):
        catalog.views.drop_partitions("s.v", [{"ds": "2025-01-02"}])
    catalog.drop_table("s.t")
    assert catalog.views.load("s.v").table.totals.partitions == 0
    register(catalog, root, HOURS)
    catalog.repair_partitions("s.t")
    assert catalog.views.partitions("s.v") == ["ds=2025-01-02"]


def test_a_count_and_names_of_their_own_do_as_well(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", *(f"day=2025-01-01/hr={h}/1.csv" for h in (1, 2)), "day=2025-01-02/hr=1/1.csv")
    write(tmp_path / "t", "day=soon/hr=1/1.csv", "day=__HIVE_DEFAULT_PARTITION__/hr=1/1.csv")
    register(catalog, tmp_path / "t", {"day": "STRING", "hr": "INT"})
    catalog.repair_partitions("s.t")
    wanted = {"partition__auto": "TRUE", "partition__auto__requires": "hr:2", "partition__auto__keys__s__t": "day=ds"}
    catalog.views.create(request("v", "ds", columns=(COLUMNS[0], COLUMNS[1]), tables=("s.t",), **wanted))
    assert catalog.views.load("s.v").table.totals.partitions == 1
    assert catalog.views.partitions("s.v") == ["ds=2025-01-01"]


def test_a_join_appears_when_all_its_tables_have_it(catalog: Catalog, tmp_path: Path) -> None:
    keys = {"t": {"ds": "DATE", "region": "STRING"}, "u": {"ds": "STRING"}, "w": {"region": "STRING"}, "d": {}}
    for name, columns in keys.items():
        register(catalog, tmp_path / name, columns, table=f"s.{name}")
    tables = ("s.t", "s.u", "s.w", "s.d")
    catalog.views.create(request("v", "ds", "region", tables=tables, partition__auto="true"))
    write(tmp_path / "t", *(f"ds=2025-01-0{d}/region={r}/1.csv" for d in (1, 2, 3) for r in ("eu", "us")))
    write(tmp_path / "u", "ds=2025-01-01/1.csv", "ds=2025-01-2/1.csv")
    write(tmp_path / "w", "region=eu/1.csv", "region=asia/1.csv")
    for name in ("t", "u"):
        catalog.repair_partitions(f"s.{name}")
        assert catalog.views.partitions("s.v") == []
    catalog.repair_partitions("s.w")
    assert catalog.views.load("s.v").table.totals.partitions == 2
    assert catalog.views.partitions("s.v") == ["ds=2025-01-01/region=eu", "ds=2025-01-02/region=eu"]
    found = [
        (d.dependency.relation, d.dependency.partitions)
        for d in catalog.views.dependencies("s.v", {"ds": "2025-01-02"})
    ]
    assert found == [
        ("lake.s.t", ("ds=2025-01-02/region=eu",)), ("lake.s.u", ("ds=2025-01-2",)), ("lake.s.w", ("region=eu",)),
    ]  # fmt: skip
    assert catalog.index.views.stale() == []


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"partition__auto__requires": "hr"}, "hr=00..23"),
        ({"partition__auto__requires": "hr=23..00"}, "hr=00..23"),
        ({"partition__auto__requires": "region=eu"}, "'region'.*none of its own"),
        ({"partition__auto__requires": "hr=x"}, "does not fit"),
        ({"partition__auto__keys__s__t": "hour=ds"}, "key=column"),
        ({"partition__auto__keys__s__u": "ds=ds"}, r"names a table that it does not read.*s\.t"),
        ({"partition__auto__keys__s__t": "ds=region"}, "partitioned by ds"),
    ],
)
def test_properties_that_say_nothing_sensible_are_refused(
    catalog: Catalog, tmp_path: Path, properties: dict[str, str], message: str
) -> None:
    register(catalog, tmp_path / "t", {"ds": "DATE", "region": "STRING", "hr": "INT"})
    with pytest.raises(errors.InvalidInputError, match=message):
        catalog.views.create(request("v", "ds", "region", tables=("s.t",), partition__auto="true", **properties))
    assert catalog.views.list_names("s") == []


def test_requirements_are_lists_ranges_and_counts() -> None:
    hours, regions, count = parse_requirements("hr=8..10; region = eu|us|01..02 ;n:3")
    assert (hours.key, hours.values) == ("hr", ("8", "9", "10"))
    assert (regions.key, regions.values) == ("region", ("eu", "us", "01", "02"))
    assert (count.key, count.count) == ("n", 3)


def test_partitions_without_a_parser_of_ours(catalog: Catalog) -> None:
    catalog.views.create(request("v", "ds", columns=(COLUMNS[0], COLUMNS[1])))
    for procedure, listed in (("add_view_partition", ["ds=2025-01-01"]), ("drop_view_partition", [])):
        arguments = {"view": "s.v", "partition": {"ds": "2025-01-01"}}
        result = find_procedure(procedure).call(catalog, arguments)
        assert [row["partition"] for batch in result.batches for row in batch.to_pylist()] == listed
