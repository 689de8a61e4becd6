"""A streaming query in a process of its own, which a fault kills: ``CATALOG_EXT_FAULT`` says where.

Usage: ``python streaming_process.py FOLDER TABLE SOURCE CHECKPOINT``; the folder has the index and the warehouse.
"""

from __future__ import annotations

import sys

import catalog_ext
from tests.integration.spark_driver import small_builder

EVENTS = "id BIGINT, at TIMESTAMP, ds STRING, hour INT"


def main(folder: str, table: str, source: str, checkpoint: str) -> None:
    builder = small_builder().config("spark.sql.session.timeZone", "UTC")
    builder = catalog_ext.configure(
        builder, catalog="lake", warehouse=f"{folder}/warehouse", index=f"sqlite:///{folder}/index.db", metastore=None
    )
    spark = builder.getOrCreate()
    stream = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1).json(source)
    query = stream.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True).toTable(table)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
