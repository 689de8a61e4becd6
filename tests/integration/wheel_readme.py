"""Runs what the readme of an installed wheel shows, as a program of its own that knows nothing of the repository.

``python wheel_readme.py FOLDER``: in FOLDER is the bucket of the readme. Its addresses of services are replaced by what
needs none; nothing else of it is changed, and nothing is left out but what starts with `git` or `make`.
"""

import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(sys.argv[1])
BUCKET = (FOLDER / "bucket").as_uri()


def write(place: str, **columns: object) -> None:
    """One Parquet file below the bucket."""
    file = FOLDER / "bucket" / place / "a.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table(columns), file)


def sections() -> dict[str, list[tuple[str, str]]]:
    """The blocks of code of each section: their languages and texts."""
    readme = importlib.metadata.metadata("catalog-ext").get_payload()
    found = {}
    for part in re.split(r"^##+ ", readme, flags=re.MULTILINE)[1:]:
        title, _, rest = part.partition("\n")
        found[title] = [
            (m[1], here(m[2])) for m in re.finditer(r"^```(\w+)\n(.*?)^```", rest, re.MULTILINE | re.DOTALL)
        ]
    return found


def here(code: str) -> str:
    """The code with addresses that are on this machine."""
    code = code.replace("s3a://bucket", BUCKET)
    code = code.replace('index="postgresql+psycopg://user@host/index"', f'index="sqlite:///{FOLDER}/lake.db"')
    return code.replace('metastore="thrift://host:9083"', "metastore=None")


def statements(code: str) -> list[str]:
    """The statements of a block of SQL."""
    without = re.sub(r"--[^\n']*$", "", code, flags=re.MULTILINE)
    return [text.strip() for text in without.split(";") if text.strip()]


def main() -> None:
    """Run all of it."""
    amounts = {"id": pa.array([1, 2], pa.int64()), "fare": pa.array([1, 2], pa.decimal128(10, 2))}
    for ds in ("2025-01-01", "2025-01-03"):
        for region in ("north", "south"):
            write(f"trips/ds={ds}/region={region}", **amounts)
    for month in ("01", "02", "03"):
        write(f"logs/year=2025/month={month}", line=["a line"])
    found = sections()

    in_spark = found["Use it in Spark"]
    start, _, repair = in_spark[0][1].partition("\nreport =")
    names: dict[str, object] = {}
    exec(start, names)
    spark = names["spark"]
    spark.sparkContext.setLogLevel("ERROR")
    row = "7L AS id, CAST(1 AS DECIMAL(10,2)) AS fare, DATE'2025-01-03' AS ds, 'south' AS region"
    spark.sql(f"CREATE TEMP VIEW corrected AS SELECT {row}")
    for text in statements(in_spark[1][1]):
        show(spark, text)
    exec(f"report ={repair}", names)
    spark.stop()

    (_, program), (_, commands) = found["Use it without Spark"]
    # In one folder, as a reader of the README has it.
    (FOLDER / "without").mkdir()
    os.chdir(FOLDER / "without")
    for _ in range(2):  # also the second time
        names = {}
        exec(program, names)
    print("FILES", names["files"].num_rows, names["trips"].count_rows())
    for line in commands.splitlines():
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            os.environ[name] = shlex.split(value)[0]
            continue
        command = [str(Path(sysconfig.get_path("scripts")) / "catalog-ext"), *shlex.split(line)[1:]]
        print("$", line, flush=True)
        subprocess.run(command, check=True)


def show(spark: object, text: str) -> None:
    """Run a statement, and print it and the number of its rows."""
    print("SQL", " ".join(text.split()), "->", len(spark.sql(text).collect()), flush=True)


if __name__ == "__main__":
    main()
