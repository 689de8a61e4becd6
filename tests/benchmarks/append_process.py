"""One of several processes that append: ``python -m tests.benchmarks.append_process INDEX SEED COMMITS NUMBER``.

It prints a line when it is ready, begins when it reads one, and prints what it did.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from catalog_ext.catalog import connect
from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.transactions.write_protocol import Transactions
from tests.benchmarks.committing import append_file


def main(index: str, seed: str, commits: int, number: int) -> None:
    seconds, failures = [], 0
    with connect(index=index, metastore=None) as catalog:
        transactions = Transactions(catalog.index, catalog.storage)
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(commits):
            started = time.perf_counter()
            try:
                append_file(transactions, catalog, Path(seed), [f"p={number}"], owner=f"process {number}")
            except CatalogExtError as error:
                failures += 1
                print(f"{type(error).__name__}: {error.message}", file=sys.stderr)
            seconds.append(time.perf_counter() - started)
        print(json.dumps({"seconds": seconds, "failures": failures}), flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
