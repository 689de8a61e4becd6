"""Hive's engines and Spark's Hive catalog read and write the tables that we write, in turns with us."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from catalog_ext.spark import session as sessions
from tests.integration.spark_driver import HIVE
from tests.kit.engine_cases import (
    FORMATS,
    OF_NULL,
    THEIR_NOTE,
    THEIR_REMARK,
    Seen,
    SparksHiveCatalog,
    altered_values,
    filters_of,
    first_of_ours,
    first_of_theirs,
    fourth_of_ours,
    ids_after,
    looked,
    noted_values,
    second_of_ours,
    second_of_theirs,
    seen,
    seen_by_us,
    third_of_ours,
    third_of_theirs,
)
from tests.servers.hive import whole_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver
    from tests.kit.engine_cases import Engine, Value
    from tests.servers.hive import HiveMetastore

    Statements = Callable[[str, str], list[str]]

# By default; what a comparison sees of an INSERT into a partition that is there.
OF_HIVE_2 = {"hive.stats.autogather": "true"}
ENGINES = ("hive-2.3", "hive-4.0", "spark-hive")


@dataclass(frozen=True)
class Side:
    """Two at the same tables: a session with our catalog, and an engine."""

    spark: SparkSession
    engine: Engine
    database: str

    def ours(self, statements: Statements) -> None:
        for data_format in FORMATS:
            for statement in statements(f"lake.{self.database}.{data_format}", data_format):
                self.spark.sql(statement)
        assert sessions.active_catalog("lake").deliver().pending == 0

    def follow(self) -> None:
        """Take over what the engine has done."""
        assert sessions.active_catalog("lake").follower.look(at_once=True).gap is None
        if isinstance(self.engine, SparksHiveCatalog):
            # Its INSERT into a partition that is there changes nothing in the metastore, and here is no log of events.
            for data_format in FORMATS:
                table = f"{self.database}.{data_format}"
                self.spark.sql(f"CALL lake.system.repair_partitions(table => '{table}', mode => 'sync')")


@pytest.fixture(scope="module", params=ENGINES)
def side(
    request: pytest.FixtureRequest,
    driver: Driver,
    hive_metastore: HiveMetastore,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Side]:
    name: str = request.param
    root = tmp_path_factory.mktemp(name)
    uri = request.getfixturevalue("hive_4_metastore").uri if name == "hive-4.0" else hive_metastore.uri
    conf = {**HIVE, "spark.hadoop.hive.metastore.uris": hive_metastore.uri}
    places = {"warehouse": str(root / "warehouse"), "index": str(root / "index.db")}
    with driver.catalog(conf, metastore=uri, **places) as spark:
        # To Hive a timestamp is a wall clock: its own JVM's, or that of the one that wrote.
        zone = spark._jvm.java.util.TimeZone.getDefault().getID()  # type: ignore[union-attr]
        spark.conf.set("spark.sql.session.timeZone", zone)
        # As Hive does it; ours does so anyway.
        spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        engine: Engine
        if name == "hive-4.0":
            # As Hive reads it from release 3.1 on.
            spark.conf.set("orc.force.positional.evolution", "true")
            engine = request.getfixturevalue("hive_server")
        elif name == "hive-2.3":
            engine = whole_engine(root / "cli", uri, OF_HIVE_2)
        else:
            engine = SparksHiveCatalog(spark)
        database = f"turns_{ENGINES.index(name)}"
        spark.sql(f"CREATE NAMESPACE lake.{database}")
        yield Side(spark, engine, database)


@dataclass(frozen=True)
class Turn:
    """What both see of a format's table after a turn."""

    ours: Seen
    theirs: Seen


@pytest.fixture(scope="module")
def turns(side: Side) -> dict[str, dict[str, Turn]]:
    """By turn and format. Each run of Hive's command line takes seconds to start, and so is given all formats."""
    found = {}
    side.ours(first_of_ours)
    side.ours(second_of_ours)
    # What an engine drops is taken over if the partition has been seen in the metastore before.
    assert sessions.active_catalog("lake").follower.look(at_once=True).gap is None
    found["ours"] = _both_look(side, filters=True)
    found["theirs"] = _both_look(side, first_of_theirs)
    side.ours(third_of_ours)
    found["ours again, theirs again"] = _both_look(side, second_of_theirs, more=(THEIR_NOTE,))
    side.ours(fourth_of_ours)
    found["columns altered by us"] = _both_look(side, values=altered_values, more=(THEIR_NOTE,))
    if not isinstance(side.engine, SparksHiveCatalog):  # which only adds columns
        found["columns altered by them"] = _both_look(
            side, third_of_theirs, values=altered_values, more=(THEIR_REMARK,)
        )
    return found


def _both_look(
    side: Side,
    statements: Statements | None = None,
    *,
    values: Callable[[str], tuple[Value, ...]] = noted_values,
    more: tuple[Value, ...] = (),
    filters: bool = False,
) -> dict[str, Turn]:
    """What both see of each format's table, after the engine has carried out statements and we have followed."""
    of_spark = isinstance(side.engine, SparksHiveCatalog)
    plans = {}
    for data_format in FORMATS:
        chosen = filters_of(data_format) if filters else ()
        asked = [where if of_spark else OF_NULL.get(where, where) for where in chosen]
        table = f"{side.database}.{data_format}"
        asked_for = (*values(data_format), *more)
        done = [] if statements is None else statements(table, data_format)
        plans[data_format] = (asked_for, chosen, done, looked(table, asked_for, asked))
    answers = iter(side.engine.run([line for _, _, done, looking in plans.values() for line in (*done, *looking)]))
    if statements is not None:
        side.follow()
    found = {}
    for data_format, (asked_for, chosen, done, looking) in plans.items():
        own = [next(answers) for _ in (*done, *looking)][len(done) :]
        ours = seen_by_us(side.spark, f"lake.{side.database}.{data_format}", asked_for, chosen)
        found[data_format] = Turn(ours, seen(chosen, own))
    return found


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("data_format", FORMATS)
def test_each_sees_what_the_other_has_done(side: Side, turns: dict[str, dict[str, Turn]], data_format: str) -> None:
    expected = ids_after(data_format, exchanges=not isinstance(side.engine, SparksHiveCatalog))
    for turn, by_format in turns.items():
        ours, theirs = by_format[data_format].ours, by_format[data_format].theirs
        assert theirs.partitions == ours.partitions, turn
        assert sorted(int(row[0]) for row in theirs.rows[""]) == sorted(expected[turn]), turn
        for where, rows in theirs.rows.items():
            assert rows == ours.rows[where], (turn, where)
