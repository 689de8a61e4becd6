"""A plain Spark on a Hive Metastore, in a JVM without anything of catalog-ext: prints the rows of queries as JSON.

Usage: ``plain_reader.py METASTORE_URI WAREHOUSE``, with a JSON object of queries by name on the standard input.
"""

from __future__ import annotations

import json
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def main(uri: str, warehouse: str) -> None:
    """Print each query's rows as lists of texts, or the error that it gets."""
    queries: dict[str, str] = json.load(sys.stdin)
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.hadoop.hive.metastore.uris", uri).config("spark.sql.warehouse.dir", warehouse)
    spark = builder.config("spark.sql.session.timeZone", "America/New_York").enableHiveSupport().getOrCreate()
    found: dict[str, object] = {}
    for name, query in queries.items():
        try:
            found[name] = sorted([str(value) for value in row] for row in spark.sql(query).collect())
        except PySparkException as error:
            found[name] = str(error)[:300]
    sys.stdout.write(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
