"""From nothing to the first answer on an empty index: what our sessions take longer than Spark's plain ones."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.benchmarks.measure import PROJECT, Outcome, median, shown
from tests.benchmarks.startup_process import EMBEDDED, INDEX, PLAIN

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.stand import Stand

ROUNDS = 7
MOST_S = 2.0
"""What a session may take longer than a plain one."""

_PARTS = (
    "import pyspark", "import catalog_ext", "configure", "jar", "index", "service", "getOrCreate", "first answer",
    "total", "metastore",
)  # fmt: skip
_SHOWN = {
    "import catalog_ext": "import of catalog_ext",
    "import pyspark": "import of PySpark",
    "jar": "· finding the connector's jar",
    "index": "· creating the index and the catalog",
    "service": "· starting the service",
    "getOrCreate": "`getOrCreate`: starting the JVM, sending the jar to executors",
    "first answer": "the first statement, `SHOW NAMESPACES`",
    "total": "**together**",
    "metastore": "from the start until the embedded metastore answers",
}
_NAMES = {PLAIN: "plain Spark", INDEX: "catalog-ext, `metastore=None`", EMBEDDED: "catalog-ext, embedded metastore"}


def run(stand: Stand) -> Outcome:
    """The table of medians, each of sessions in processes and folders of their own."""
    times: dict[str, list[dict[str, float]]] = {name: [] for name in _NAMES}
    order = random.Random(14)
    for number in range(ROUNDS + 1):
        for name in order.sample(list(_NAMES), len(_NAMES)):
            folder = stand.folder / f"start-{number}-{name}"
            folder.mkdir()
            found = _session(name, folder)
            # The first ones read from the disk what later ones find in memory, and compile Python's files.
            if number:
                times[name].append(found)
    return _outcome(times)


def _session(name: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.startup_process", name, str(folder)]
    # Python keeps what it has compiled, as everywhere but in a shell that says otherwise.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=PROJECT, env=environment
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _outcome(times: dict[str, list[dict[str, float]]]) -> Outcome:
    middles = {
        name: {part: median([one[part] for one in found]) for part in _PARTS if part in found[0]}
        for name, found in times.items()
    }
    rows = [[_SHOWN.get(part, f"`{part}`"), *(shown(middles[name].get(part)) for name in _NAMES)] for part in _PARTS]
    longer = {name: middles[name]["total"] - middles[PLAIN]["total"] for name in (INDEX, EMBEDDED)}
    return Outcome(
        "Start of a session",
        "The time of a session with `local[2]` from the first import to the first answer, in a new process with an "
        f"empty folder. Medians of {ROUNDS} sessions of each kind in a random order, after one that does not count. "
        "The connector's jar is already built. The embedded metastore starts in the background: no other line of the "
        "table waits for it.",
        ["", *_NAMES.values()],
        rows,
        [
            (
                f"a session starts at most {MOST_S:g} s later than with plain Spark: {_NAMES[name]}",
                taken <= MOST_S,
                shown(taken),
            )
            for name, taken in longer.items()
        ],
    )
