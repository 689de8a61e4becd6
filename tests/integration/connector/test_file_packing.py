"""The shares of tasks that a scan's files become: as Spark's own packing makes them, without an object a file."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

LOCATION = "file:///tables/t"
MODIFIED = 1_763_722_800_000


@dataclass(frozen=True)
class Tree:
    """Partitions by name, each with its files' names and sizes; ``gz`` ones cannot be read in parts."""

    directories: dict[str, dict[str, int]]

    @classmethod
    def random(cls, rng: random.Random) -> Tree:
        sizes = (0, 1, 100, 999, 1000, 1001, 2500, 10_000)
        return cls({
            f"k={number} %/d=2025-01-{number % 28 + 1:02d}": {
                f"part-{file}-é.csv{rng.choice(('', '.gz'))}": rng.choice(sizes) for file in range(rng.randint(1, 9))
            }
            for number in range(rng.randint(0, 6))
        })  # fmt: skip


class Scala:
    """The connector's classes, and Spark's."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._session: Any = spark._jsparkSession
        self._ours = self._jvm.org.apache.spark.sql.catalogext
        self._spark = self._jvm.org.apache.spark.sql.execution

    def chosen(self, tree: Tree) -> Any:
        """The files of a tree as the driver holds them."""
        builder = self._ours.scan.ChosenFilesBuilder(self._object("scan.AllFiles"))
        for number, (name, files) in enumerate(tree.directories.items()):
            batch = builder.batch()
            batch.begin(name, self._option(f"file:///elsewhere/{name}" if number % 3 == 2 else None))
            for file, size in files.items():
                batch.add(file, size, MODIFIED - size, 1)
            builder.end()
        return builder.result(0)

    def ours(self, tree: Tree, most_bytes: int, most: int | None) -> list[list[str]]:
        """The files of each task, as the task makes them."""
        return [self.files(share) for share in self.shares(tree, most_bytes, most)]

    def shares(self, tree: Tree, most_bytes: int = 1000, most: int | None = None) -> list[Any]:
        """What the driver plans for each task."""
        return list(self._packed(self.chosen(tree), tree, most_bytes, most))

    def bytes_of_parts(self, tree: Tree, most_bytes: int) -> int:
        """What the driver holds for the tasks besides the batches of files."""
        chosen = self.chosen(tree)
        planned = self._packed(chosen, tree, most_bytes, None)
        estimate = self._jvm.org.apache.spark.util.SizeEstimator.estimate
        return int(estimate(planned)) - int(estimate(chosen.batches()))

    def _packed(self, chosen: Any, tree: Tree, most_bytes: int, most: int | None) -> Any:
        packing = self._ours.scan.FilePacking(most_bytes, 7, self._option(most))
        splitable = self._seq([self._path(p) for p in self._paths(tree) if p.endswith(".csv")]).toSet()
        nowhere = getattr(getattr(self._ours.scan, "FileBlocks$Nowhere$"), "MODULE$")
        return packing.pack(chosen, splitable, LOCATION, nowhere, self._option(None))

    def files(self, share: Any) -> list[str]:
        """What a task makes of its share."""
        keys = self._jvm.org.apache.spark.sql.types.StructType.fromDDL("k STRING, d DATE")
        none = self._jvm.org.apache.spark.sql.types.StructType()
        maker = self._ours.scan.FileMaker(LOCATION, keys, "UTC", self._map(), none, self._seq([1, 0]))
        return self._shown(maker.files(share))

    def sparks(self, tree: Tree, most_bytes: int) -> list[list[str]]:
        """The same by Spark's own code; a directory's parts are sorted as FileScan does."""
        found: list[Any] = []
        for number, (name, files) in enumerate(tree.directories.items()):
            root = "file:///elsewhere" if number % 3 == 2 else LOCATION
            values = self._values(name)
            parts: list[Any] = []
            for file, size in files.items():
                path = self._path(f"{root}/{name}/{file}")
                status = self._jvm.org.apache.hadoop.fs.FileStatus(size, False, 1, 0, MODIFIED - size, path)
                full = self._spark.datasources.FileStatusWithMetadata(status, self._map())
                split = self._spark.PartitionedFileUtil.splitFiles(
                    full, path, file.endswith(".csv"), most_bytes, values
                )
                parts += [split.apply(i) for i in range(split.size())]
            found += sorted(parts, key=lambda part: -part.length())
        shares = self._spark.datasources.FilePartition.getFilePartitions(self._session, self._seq(found), most_bytes)
        return [self._shown(shares.apply(i)) for i in range(shares.size())]

    def largest_part(self, size: int) -> int:
        """What parts a file of this size is read in that can be."""
        packing = self._ours.scan.FilePacking.of(self._session, self._ours.scan.ScanChoice(1, 1, size, 0))
        return int(packing.maxSplitBytes())

    def _shown(self, share: Any) -> list[str]:
        return [f"{f} of {f.fileSize()} at {f.modificationTime()}" for f in share.files()]

    def _values(self, name: str) -> Any:
        key, day = (part.partition("=")[2] for part in name.split("/"))
        row = self._ours.catalog.PartitionValues(
            self._jvm.org.apache.spark.sql.types.StructType.fromDDL("d DATE, k STRING"), "UTC", self._map()
        )
        return row.parse(f"d={day}/k={key}")

    @staticmethod
    def _paths(tree: Tree) -> Iterator[str]:
        for number, (name, files) in enumerate(tree.directories.items()):
            root = "file:///elsewhere" if number % 3 == 2 else LOCATION
            yield from (f"{root}/{name}/{file}" for file in files)

    def _object(self, name: str) -> Any:
        room, _, simple = name.rpartition(".")
        return getattr(getattr(getattr(self._ours, room), f"{simple}$"), "MODULE$")

    def _path(self, text: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(text)

    def _seq(self, items: list[Any]) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(items)

    def _map(self) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({})

    def _option(self, value: str | int | None) -> Any:
        return self._jvm.scala.Option.apply(value)


@pytest.fixture(scope="module")
def spark(driver: Driver) -> Iterator[SparkSession]:
    with driver.connected("http://127.0.0.1:9", "none") as session:
        session.conf.set("spark.sql.files.openCostInBytes", "7")
        yield session


@pytest.mark.parametrize("seed", range(8))
def test_files_are_spread_over_tasks_as_spark_spreads_them(spark: SparkSession, seed: int) -> None:
    scala, rng = Scala(spark), random.Random(seed)
    tree, most_bytes = Tree.random(rng), rng.choice((1000, 1007, 4000))
    assert scala.ours(tree, most_bytes, None) == scala.sparks(tree, most_bytes)
    most = rng.randint(1, 4)
    spark.conf.set("spark.sql.files.maxPartitionNum", most)
    try:
        assert scala.ours(tree, most_bytes, most) == scala.sparks(tree, most_bytes)
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionNum")


def test_driver_holds_no_object_a_file(spark: SparkSession) -> None:
    """Texts of 29 bytes a file, three numbers, and the places where the texts and the partition begin."""
    directories = {f"k={number:04d}/d=2025-01-01": {"part-0.csv": 1000 + number} for number in range(5000)}
    held = Scala(spark).chosen(Tree(directories))
    assert held.choice().files() == 5000
    assert spark._jvm.org.apache.spark.util.SizeEstimator.estimate(held.batches()) < 90 * 5000  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sizes", "bytes_a_file"), [({"a": 1, "b": 2}, 8), ({"a.csv": 2_500_000}, 24)], ids=["unsorted", "split"]
)
def test_driver_holds_no_object_a_part(spark: SparkSession, sizes: dict[str, int], bytes_a_file: int) -> None:
    """One partition whose files Spark sorts or splits is enough for numbers of all parts."""
    others = {f"k={number:04d}/d=2025-01-01": {"part-0.csv": 10} for number in range(1000)}
    tree = Tree({"k=a/d=2025-01-01": sizes} | others)
    assert Scala(spark).bytes_of_parts(tree, 1_000_000) < bytes_a_file * 1000


def test_task_gets_no_files_but_its_own(spark: SparkSession) -> None:
    """However many the driver holds."""
    others = {f"k={number}/d=2025-01-02": {"part-0.csv": 1000} for number in range(2000)}
    scala, utils = Scala(spark), spark._jvm.org.apache.spark.util.Utils  # type: ignore[union-attr]
    share = scala.shares(Tree({"k=é %/d=2025-01-01": {"a.csv": 10, "b.csv": 2500}} | others))[1]
    sent = utils.serialize(share)
    assert len(sent) < 3000
    files = scala.files(utils.deserialize(sent, share.getClass().getClassLoader()))
    assert files == scala.files(share)
    assert len(files) == 1


def test_files_that_cost_nothing_to_open_are_spread(spark: SparkSession) -> None:
    """Spark's own estimate is parts of 0 bytes there."""
    scala = Scala(spark)
    spark.conf.set("spark.sql.files.openCostInBytes", "0")
    try:
        assert scala.largest_part(size=1) == 1
    finally:
        spark.conf.set("spark.sql.files.openCostInBytes", "7")
