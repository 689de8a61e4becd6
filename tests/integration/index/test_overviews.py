"""What pages show of an index, against its partitions and files one by one, on each database."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.errors import InvalidPredicateError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.read.partition_map import ISO, Axis, Unit
from catalog_ext.metastore.index.read.table_list import Pending, TableOrder
from catalog_ext.metastore.index.write.repairs import RepairRecord
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.model.typed_values import sort_key, typed_values
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.predicates.tree import And, Comparison, In, IsNull, Match, Operator, StringMatch
from tests.kit.index_cases import create, local_index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate

KEYS = {"ds": "date", "region": "string", "n": "int"}
FIRST = date(2024, 11, 20)
PREDICATES: tuple[Predicate | None, ...] = (
    None,
    Comparison(Operator.GE, "ds", date(2025, 1, 6)),
    And((Comparison(Operator.LT, "ds", date(2025, 1, 9)), In("region", ("eu", "ü<")))),
    IsNull("region"),
    Comparison(Operator.EQ, "n", 3),
)


@pytest.fixture(scope="module", params=["sqlite", "postgres", "mariadb"])
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Index, list[Table]]]:
    """An index, and a table of it at three versions."""
    if request.param == "sqlite":
        with local_index(tmp_path_factory.mktemp("overviews")) as index:
            yield index, _fill(index)
        return
    server = request.getfixturevalue(f"{request.param}_server")
    url = server.create_index()
    with Index.open(url) as index:
        yield index, _fill(index)
    server.drop_database(url)


def _fill(index: Index) -> list[Table]:
    rng, table, versions = random.Random(11), create(index, keys=KEYS), []
    names: list[str] = []
    for step in range(3):
        changes: list[AddPartition | DropPartition] = [DropPartition(name) for name in names[step::7]]
        gone = {change.name for change in changes}
        for _ in range(150):
            day = FIRST + timedelta(rng.randint(0, 80))
            region = rng.choice(("eu", "us", "%C3%BC%3C", "__HIVE_DEFAULT_PARTITION__"))
            name = f"ds={day}/region={region}/n={rng.randint(-2, 4)}"
            if name in names or name in gone:
                continue
            names.append(name)
            files = tuple(
                DataFile(f"part-{i}", rng.randint(0, 2**27), 1, rng.choice((None, 10, 20)))
                for i in range(rng.randint(0, 3))
            )
            changes.append(AddPartition(name, files))
        names = [name for name in names if name not in gone]
        index.commits.apply_changes(
            table.table_id, changes, operation=f"step {step % 2}", deliver=step == 2, summary={"user": "ada"}
        )
        versions.append(index.tables.load(table.identifier))
    return versions


def _rows(index: Index, table: Table, predicate: Predicate | None) -> list[dict[str, Any]]:
    rows = index.partitions.all(table, None).read_all().to_pylist()
    keys = table.definition.keys
    evaluator = None if predicate is None else Evaluator(predicate, keys)
    return [row for row in rows if evaluator is None or evaluator.matches(typed_values(row["partition"], keys))]


def _expected(index: Index, table: Table, predicate: Predicate | None, axes: list[Axis]) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0] * 5)
    keys = table.definition.keys
    for row in _rows(index, table, predicate):
        encoded = sort_key(typed_values(row["partition"], keys), keys)
        at = [encoded[axis.key.position] for axis in axes]
        if any(
            each < axis.first or (axis.beyond is not None and each >= axis.beyond)
            for each, axis in zip(at, axes, strict=True)
        ):
            continue
        place = tuple(each[: axis.unit.length] if axis.unit else each for each, axis in zip(at, axes, strict=True))
        sums = found[place]
        for i, n in enumerate(
            (1, row["files"], row["bytes"], row["rows"] or 0, int(row["files"] and row["rows"] is None))
        ):
            sums[i] += n
    return {place: tuple(sums) for place, sums in found.items()}


@pytest.mark.parametrize("unit", [*Unit, None])
def test_a_map_is_what_the_partitions_come_to(filled: tuple[Index, list[Table]], unit: Unit | None) -> None:
    index, versions = filled
    for table in versions:
        ds, region, n = table.definition.keys
        days = Axis(ds, unit, "2024-12", "2025-01-20")
        for axes in (
            [days],
            [days, Axis(region, None, "", None)],
            [Axis(n, None, "", "p013"), days],
            [Axis(region, None, "a", "v")],
        ):
            for predicate in PREDICATES:
                found = index.overviews.partitions.partition_map(table, predicate, axes, 10_000)
                counted = {
                    place: (cell.partitions, cell.files, cell.bytes, cell.rows, cell.uncounted)
                    for place, cell in found.items()
                }
                assert counted == _expected(index, table, predicate, axes)


def test_a_map_says_when_a_place_last_changed(filled: tuple[Index, list[Table]]) -> None:
    index, (*_, table) = filled
    times = {v.version: v.committed_at_ms for v in index.tables.history(table.identifier)}
    ds, region, _ = table.definition.keys
    whole = index.overviews.partitions.partition_map(table, None, [Axis(region, None, "", None)], 100)
    assert {cell.changed_at_ms for cell in whole.values()} == {times[3]}
    by_day = index.overviews.partitions.partition_map(
        table, None, [Axis(ds, Unit.DAY, "", None), Axis(region, None, "", None)], 9999
    )
    assert {cell.changed_at_ms for cell in by_day.values()} <= set(times.values())
    assert len({cell.changed_at_ms for cell in by_day.values()}) == 3


def test_the_ends_and_the_values_of_keys(filled: tuple[Index, list[Table]]) -> None:
    index, versions = filled
    for table in versions:
        keys = table.definition.keys
        for predicate in PREDICATES:
            encoded = [sort_key(typed_values(r["partition"], keys), keys) for r in _rows(index, table, predicate)]
            for key, bounds in zip(keys, index.overviews.partitions.key_bounds(table, predicate, keys), strict=True):
                values = sorted({each[key.position] for each in encoded})
                filled_in = [value for value in values if value]
                assert (bounds.least, bounds.greatest) == ((filled_in[0], filled_in[-1]) if filled_in else (None, None))
                read = index.overviews.partitions.key_values(table, predicate, key, after=None, limit=3)
                while read and len(
                    more := index.overviews.partitions.key_values(table, predicate, key, after=read[-1], limit=3)
                ):
                    read += more
                assert read == values
            assert index.overviews.partitions.days_of(table, predicate, keys[0], ISO, 999) == sorted(
                {each[0] for each in encoded}
            )
            assert index.overviews.partitions.combinations(table, predicate, keys, 999) == sorted(
                {tuple(each) for each in encoded}
            )
            nulls = [sum(not each[key.position] for each in encoded) for key in keys]
            assert index.overviews.partitions.count_nulls(table, predicate, keys) == nulls
        assert index.overviews.partitions.key_bounds(table, None, keys)[0].are_days
        assert not index.overviews.partitions.key_bounds(table, None, keys)[1].are_days


@pytest.mark.parametrize(("kind", "written"), [("date", "{}"), ("string", "{}"), ("string", "{}T05"), ("int", "{}")])
def test_dates_are_cut_however_they_are_written(filled: tuple[Index, list[Table]], kind: str, written: str) -> None:
    index, _ = filled
    dash = "" if kind == "int" else "-"
    table = create(index, f"{kind}{len(written)}", {"d": kind, "r": "string"}, "other")
    days = ("2024-12-30", "2024-12-31", "2025-01-01", "9999-12-31")
    names = [f"d={written.format(day.replace('-', dash))}/r={r}" for day in days[1:3] for r in "ab"]
    names += [f"d={day.replace('-', dash)}/r=a" for day in (days[0], days[3])] + ["d=__HIVE_DEFAULT_PARTITION__/r=a"]
    index.commits.apply_changes(
        table.table_id, [AddPartition(name, ()) for name in names], operation="INSERT", deliver=False
    )
    table = index.tables.load(table.identifier)
    key, other = table.definition.keys
    (bounds,) = index.overviews.partitions.key_bounds(table, None, [key])
    assert (bounds.least, bounds.newest, bounds.greatest) == ("2024-12-30", "2025-01-01", "9999-12-31")
    assert bounds.form is not None
    for predicate in (None, Comparison(Operator.GE, "r", "a")):
        assert index.overviews.partitions.days_of(table, predicate, key, bounds.form, 99) == list(days)
        for unit, places in (
            (Unit.DAY, days[1:3]),
            (Unit.MONTH, ("2024-12", "2025-01")),
            (Unit.YEAR, ("2024", "2025")),
        ):
            first = Axis(key, unit, "2024-12-31"[: unit.length], "2025-12", bounds.form)
            for axes in ([first], [first, Axis(other, None, "", None)]):
                found = index.overviews.partitions.partition_map(table, predicate, axes, 99)
                assert sorted({place[0] for place in found}) == list(places)
                assert sum(cell.partitions for cell in found.values()) == (4 if unit is Unit.DAY else 5)
    index.tables.drop(table.identifier, deliver=False)


def test_what_the_index_cannot_decide_is_refused(filled: tuple[Index, list[Table]]) -> None:
    index, (*_, table) = filled
    with pytest.raises(InvalidPredicateError, match="cannot count partitions by this condition"):
        index.overviews.partitions.key_bounds(table, StringMatch(Match.LIKE, "region", "%u%"), table.definition.keys)


def test_a_table_grows_with_its_versions(filled: tuple[Index, list[Table]]) -> None:
    index, versions = filled
    for table in versions:
        (*_, last) = index.overviews.growth(table, 1)
        totals = table.totals
        expected = (totals.partitions, totals.files, totals.bytes, totals.rows)
        assert (last.partitions, last.files, last.bytes, last.rows) == expected
    table, history = versions[-1], index.tables.history(versions[-1].identifier)
    events, _ = index.overviews.recent_events(table, before=None, limit=100)
    assert len(events) >= len(history)
    assert index.overviews.history_span(table) == (events[-1].at_ms, events[0].at_ms)
    sizes = {size.at_ms: size.partitions for size in index.overviews.growth(table, 1)}
    assert sizes == {v.committed_at_ms: t.totals.partitions for v, t in zip(history[-2::-1], versions, strict=True)}


def test_events_come_the_newest_first_and_repairs_with_what_they_made(filled: tuple[Index, list[Table]]) -> None:
    index, (*_, table) = filled

    def counted() -> dict[tuple[int, str], int]:
        return {(each.at_ms, each.operation): each.commits for each in index.overviews.commit_counts(table, 10**15)}

    commits = {(0, "create"): 1, (0, "step 0"): 2, (0, "step 1"): 1}
    assert counted() == commits
    record = RepairRecord(table.table_id, 40, "sync", "n = 1", 0, "ada@host:1", 0, 0, 0, 2, 3, 3, "denied")
    index.repairs.add(record)
    events, rest = index.overviews.recent_events(table, before=None, limit=10)
    assert rest is None
    assert [(e.kind, e.operation, e.version, e.who) for e in events[:3]] == [
        ("repair", "sync", None, "ada@host:1"), ("commit", "step 0", 3, "ada"), ("commit", "step 1", 2, "ada"),
    ]  # fmt: skip
    assert (events[0].error, events[0].summary["where"], events[0].duration_ms) == ("denied", "n = 1", 40)
    reported, place = index.overviews.recent_events(table, before=None, limit=1)
    while place is not None:
        more, place = index.overviews.recent_events(table, before=place, limit=1)
        reported += more
    assert reported == events
    assert counted() == {**commits, (0, "repair that changed nothing"): 1}


def test_files_are_counted_by_their_size(filled: tuple[Index, list[Table]]) -> None:
    index, versions = filled
    edges = (2**10, 2**24, 2**26)
    for table in versions:
        sizes = index.files.plan(table, None).read_all()["size"].to_pylist()
        found = index.overviews.count_sizes(table, edges)
        assert [(each.least, each.below) for each in found] == [
            (0, 2**10),
            (2**10, 2**24),
            (2**24, 2**26),
            (2**26, None),
        ]
        for each in found:
            mine = [s for s in sizes if s >= each.least and (each.below is None or s < each.below)]
            assert (each.files, each.bytes) == (len(mine), sum(mine))
        partly = index.overviews.count_sizes(table, edges, every=3)
        assert 0 < sum(each.files for each in partly) < len(sizes)
        small = index.overviews.small_file_partitions(table, 2**25, 1000)
        expected = {r["partition"] for r in _rows(index, table, None) if r["files"] and r["bytes"] < r["files"] * 2**25}
        assert {each.partition for each in small} == expected
        assert [each.files for each in small] == sorted((each.files for each in small), reverse=True)


def test_tables_are_listed_in_every_order(filled: tuple[Index, list[Table]]) -> None:
    index, (*_, table) = filled
    other = create(index, "other_1", {}, "z")

    def listed(**asked: Any) -> list[str]:
        return [str(each.table.identifier) for each in index.overviews.tables.find(**asked).page]

    assert listed() == ["s.t", "z.other_1"]
    for order in TableOrder:
        assert sorted(listed(order=order)) == ["s.t", "z.other_1"]
    assert listed(order=TableOrder.BYTES, descending=True) == ["s.t", "z.other_1"]
    assert listed(order=TableOrder.BYTES) == ["z.other_1", "s.t"]
    assert listed(pending=Pending.SOME) == ["s.t"]
    assert listed(pending=Pending.FAILED) == []
    assert listed(search="other_") == ["z.other_1"]
    assert listed(search="r_") == ["z.other_1"]
    assert listed(search="s.") == ["s.t"]
    assert listed(limit=1, offset=1) == ["z.other_1"]
    listing = index.overviews.tables.find()
    totals = table.totals
    assert (listing.tables, listing.partitions, listing.files, listing.bytes) == (
        2, totals.partitions, totals.files, totals.bytes,
    )  # fmt: skip
    assert (
        listing.pending == index.overviews.count_deliveries(table)[0] == index.overviews.count_deliveries(None)[0] > 0
    )
    mine = index.overviews.tables.load(table.table_id)
    assert mine == listing.page[0]
    assert mine.pending == listing.pending
    assert mine.pending_since_ms is not None
    assert index.overviews.tables.load(other.table_id + 1) is None
