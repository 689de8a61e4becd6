"""The demonstration's writes: a table made by one statement, two of its partitions replaced, and a job that fails."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from examples.demo.stage import BUCKET, CATALOG

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from examples.demo.stage import Stage

DELAYS = f"{CATALOG}.demo.delays"
PLAIN_LOCATION = f"s3a://{BUCKET}/plain-delays"
REQUESTS = {
    "upload": ("CREATE_UPLOAD", "UPLOAD_PART", "COMPLETE_UPLOAD"),
    "PUT": ("PUT",),
    "COPY": ("COPY",),
    "LIST": ("LIST", "LIST_UPLOADS"),
    "HEAD": ("HEAD",),
    "DELETE": ("DELETE", "DELETE_MANY"),
}
"""The operations of the counting proxy under each word that is shown."""

SELECTED = "month, day, origin, dest, flight, dep_delay, arr_delay, distance, carrier"
CREATE = f"CREATE TABLE {DELAYS} PARTITIONED BY (carrier) AS\nSELECT {SELECTED} FROM {CATALOG}.demo.flights"
OVERWRITE = (
    f"INSERT OVERWRITE {DELAYS}\n"
    f"SELECT {SELECTED} FROM {CATALOG}.demo.flights WHERE carrier IN ('HA', 'OO') AND month > 6"
)
FAILING = (
    f"INSERT INTO {DELAYS}\n"
    f"SELECT month, day, origin, dest, if(day = 31, raise_error('the job fails here'), flight), dep_delay, arr_delay,\n"
    f"  distance, carrier FROM {CATALOG}.demo.flights"
)


@dataclass(frozen=True, slots=True)
class Written:
    """What a write cost.

    Attributes:
        seconds: From the statement to its end.
        requests: To the S3 server, by operation.
    """

    seconds: float
    requests: Counter[str]

    def shown(self) -> list[int]:
        """How many requests there were for each of ``REQUESTS``."""
        return [sum(self.requests[name] for name in names) for names in REQUESTS.values()]


def create(stage: Stage) -> Written:
    """CTAS through the catalog."""
    return _measure(stage, lambda: stage.spark.sql(CREATE))


def plain(stage: Stage) -> Written:
    """The same rows by ``df.write.partitionBy``."""
    frame = stage.spark.sql(f"SELECT {SELECTED} FROM {CATALOG}.demo.flights")
    return _measure(stage, lambda: frame.write.partitionBy("carrier").parquet(PLAIN_LOCATION))


def overwrite(stage: Stage) -> Written:
    """INSERT OVERWRITE of the partitions that receive rows, and of no other."""
    return _measure(stage, lambda: stage.spark.sql(OVERWRITE))


def history(stage: Stage) -> list[list[object]]:
    """The new table's commits, the oldest first."""
    statement = (
        "SELECT version, operation, coalesce(partitions_added + partitions_changed, 0), coalesce(files_added, 0), "
        f"coalesce(files_removed, 0), coalesce(rows, 0) FROM {DELAYS}.history ORDER BY version"
    )
    return [list(row) for row in stage.spark.sql(statement).collect()]


def fail(stage: Stage) -> str:
    """The first line of what Spark says of a job that fails in the middle; '' if it does not."""
    try:
        stage.spark.sql(FAILING)
    except PySparkException as error:
        return str(error).splitlines()[0]
    return ""


def counts(stage: Stage) -> dict[str, int]:
    """Rows of the new table by carrier."""
    rows = stage.spark.sql(f"SELECT carrier, count(*) FROM {DELAYS} GROUP BY carrier").collect()
    return {row[0]: row[1] for row in rows}


def _measure(stage: Stage, write: Callable[[], object]) -> Written:
    before = stage.s3.counts()
    started = time.monotonic()
    write()
    seconds = time.monotonic() - started
    return Written(seconds, stage.s3.counts() - before)
