"""What a follower does when it finds many events at once, on real metastores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.catalog import connect
from catalog_ext.metastore.hive.mapping.model import EXTERNAL_TABLE, HiveDatabase, HivePartition, HiveStorage, HiveTable
from catalog_ext.metastore.hive.thrift.connect import connect as hive
from catalog_ext.metastore.model.tables import Column
from tests.benchmarks import trees
from tests.benchmarks.measure import Outcome, shown
from tests.benchmarks.processes import child, metastore
from tests.benchmarks.stand import NAMESPACE
from tests.servers.hive_releases import RELEASE_3
from tests.servers.metastores_on_postgres import copy_events, expire_events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from tests.benchmarks.stand import Stand
    from tests.servers.hive_releases import Release

RELEASES: dict[str, Release | None] = {"2.3": None, "3.1": RELEASE_3}
EVENTS = (10_000, 100_000)
ALTERED = 200
MOST_MB = 300
TABLE = f"{NAMESPACE}.t"
_QL = "org.apache.hadoop.hive.ql.io.parquet"
_PARQUET = HiveStorage(
    f"{_QL}.MapredParquetInputFormat", f"{_QL}.MapredParquetOutputFormat", f"{_QL}.serde.ParquetHiveSerDe"
)


def following(stand: Stand) -> Outcome:
    """What a follower does when it finds many events at once."""
    rows, peak = [], 0.0
    for name, release in RELEASES.items():
        for count, answer in _looks(stand, stand.folder / f"events-{name}", release):
            peak = max(peak, answer["peak_mb"])
            rows.append([
                f"{count:,}, Hive {name}", shown(answer["seconds"]), shown(answer["cpu"]),
                f"{count / answer['seconds']:,.0f}", f"{answer['peak_mb']:.0f} MB", f"{answer['imports_mb']:.0f} MB",
            ])  # fmt: skip
    return Outcome(
        "Many events at once",
        f"One look of a follower, in a process of its own, at ALTER_PARTITION events of {ALTERED:,} partitions, each "
        "of which has a new file. The metastore is on PostgreSQL, with a heap of 2 GB; it has made as many events as "
        "partitions, and its database has copied them. Local disk, SQLite index.",
        ["events", "time", "CPU time of the follower", "events a second", "peak memory", "of it before the look"],
        rows,
        [(f"following {EVENTS[-1]:,} events under {MOST_MB} MB", peak < MOST_MB, f"{peak:.0f} MB")],
    )


def _looks(stand: Stand, folder: Path, release: Release | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what each number of events has cost."""
    with metastore(folder, release) as (url, uri):
        root = trees.grow(folder / "t", stand.seed, range(ALTERED))
        client = _made(uri, folder, root)
        for count in EVENTS:
            index = str(folder / f"{count}.db")
            with connect(index=index, metastore=uri) as catalog:
                catalog.import_table(TABLE)
                before = catalog.follower.look().newest_id
            found = client.partitions_by_names(NAMESPACE, "t", [f"p={key}" for key in range(ALTERED)])
            client.alter_partitions(NAMESPACE, "t", found)
            expire_events(url, before or 0)
            copy_events(url, count // ALTERED - 1)
            trees.grow(root, stand.seed, range(ALTERED), f"part-{count}.parquet")
            answer = child("follow_process", index, uri)
            if (answer["events"], answer["changed"], answer["gap"]) != (count, ALTERED, None):
                raise AssertionError(f"{count} events came to {answer}")
            yield count, answer
        client.close()


def _made(uri: str, folder: Path, root: Path) -> HiveMetastore:
    client = hive(uri)
    # Release 3 makes the tables of its log when it is asked for it, and logs nothing before.
    client.newest_event_id()
    client.create_database(HiveDatabase(NAMESPACE, (folder / "database").as_uri()))
    columns, keys = (Column("x", "bigint"),), (Column("p", "int"),)
    client.create_table(
        HiveTable(NAMESPACE, "t", EXTERNAL_TABLE, root.as_uri(), columns, keys, _PARQUET, {"EXTERNAL": "TRUE"})
    )
    for start in range(0, ALTERED, 100):
        some = (HivePartition((str(key),), f"{root.as_uri()}/p={key}") for key in range(start, start + 100))
        client.add_partitions(NAMESPACE, "t", list(some))
    return client
