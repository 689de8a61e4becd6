"""The section of docs/benchmarks.md on the peers: a table a measure, who is ahead and why, and the curves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.benchmarks.measure import shown
from tests.benchmarks.peers.figures import CONTENDERS, MEASURES, OURS, SIZES, Comparison, Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLE = "## Side by side with peers"
END = "<!-- The end of what the peers' benchmark writes. -->"
FOLDER = "benchmarks"
"""Of the curves, beside the page."""

HOW = {
    "first": "The time from existing files to the first query, once, on a new table. catalog-ext "
    "registers and repairs, Hive's catalog runs MSCK REPAIR, Iceberg `add_files`, Delta CONVERT TO DELTA, DuckLake "
    "`ducklake_add_data_files`. Iceberg, Delta and DuckLake also read the footer of every file.",
    "rows": "The first registration of catalog-ext counts no rows: `ANALYZE TABLE … COMPUTE STATISTICS` reads the "
    "footers of files without a count. It ran before `count(*)` below. Tables that catalog-ext has written do not need "
    "it.",
    "plan one": "Planning of `SELECT sum(x)` with values for all three keys, for another partition each time, up to "
    "Spark's input partitions; in DuckDB EXPLAIN.",
    "run one": "Planning and execution of `SELECT count(x)` of one partition, another partition each time.",
    "plan year": "Planning of `SELECT sum(x)` of the first tenth of the days, at most 365 days (a year has 105,120 "
    "partitions), up to Spark's input partitions.",
    "plan all": "Planning of `SELECT sum(x)` of the whole table, up to Spark's input partitions; for DuckLake, "
    "fetching its list of files.",
    "count": "Planning and execution of `count(*)` of the whole table.",
    "max": "Planning and execution of `max(ds)`, the last day of the whole table.",
    "unchanged": "A repair lists the directories and finds no change. Iceberg, Delta and DuckLake have no such "
    "operation: they do not notice a file that another program adds or removes.",
    "commit": "INSERT of one row into one partition by SQL, from the statement to the end of the commit. Each INSERT "
    "writes a new file (DuckLake's inlining of small inserts is off).",
}
"""What a measure is, in a sentence or two."""

_SMALL = "DuckDB runs without Spark, and lists a small tree faster than Spark runs a statement"
_LISTINGS = (
    "Spark keeps the listings of directories that it has read (250 MB by default) and plans warm queries from them; it "
    "does not see files that other programs have added since"
)
_SERVICE = "catalog-ext asks a service in another process, which locks, checks and writes an index that processes share"
_MANIFESTS = "Spark's own process reads a few manifests; catalog-ext asks a service in another process"
_LOG = "Spark's own process keeps the snapshot of the log; catalog-ext asks a service in another process"
_EXPLAIN = "DuckDB runs without Spark, and EXPLAIN ends at the list of file names"

WHY = {
    (
        "run one",
        "ducklake",
    ): "DuckDB plans and reads in one process, without Spark's parser, optimizer and scheduler and without a service",
    ("count", "ducklake"): "DuckLake's statistics have the row count, and DuckDB answers without a Spark job",
    ("max", "ducklake"): "DuckLake's statistics have the maximum, and DuckDB answers without a Spark job",
    ("commit", "ducklake"): "DuckDB writes one small file and a few rows of its catalog in one process, without Spark",
    ("plan all", "ducklake"): "DuckDB only fetches the list of files; Spark also creates input partitions",
    ("run one", "duckdb"): _SMALL,
    ("plan one", "duckdb"): _SMALL,
    ("plan year", "duckdb"): _EXPLAIN,
    ("plan all", "duckdb"): _EXPLAIN,
    ("count", "duckdb"): _SMALL,
    ("max", "duckdb"): _SMALL,
    ("plan year", "hive"): _LISTINGS,
    ("plan all", "hive"): _LISTINGS,
    ("plan one", "hive"): "the metastore's answer for one partition is small, and Spark asks it itself",
    ("commit", "hive"): "it only moves files and adds a new partition to the metastore, without a transaction, a "
    "check for conflicts or a version; a query at that time reads a part of the rows",
    ("commit", "iceberg"): f"a commit writes a few small files from within Spark; {_SERVICE}",
    ("commit", "delta"): f"a commit writes one small file from within Spark; {_SERVICE}",
    ("plan one", "iceberg"): _MANIFESTS,
    ("run one", "iceberg"): _MANIFESTS,
    ("plan year", "iceberg"): _MANIFESTS,
    ("plan all", "iceberg"): _MANIFESTS,
    ("count", "iceberg"): "the snapshot has the row count, and Spark's own process reads the snapshot",
    ("plan one", "delta"): _LOG,
    ("run one", "delta"): _LOG,
    ("plan year", "delta"): _LOG,
    ("plan all", "delta"): _LOG,
    ("count", "delta"): _LOG,
    ("max", "delta"): _LOG,
}
"""Why a peer is ahead, by measure and peer."""

_QUIET = 2.0
"""Load averages up to here are those of the contenders before."""

_PROVISIONAL = (
    " **Provisional**: other programs used the machine during some runs, so a ratio between 0.5 and 2 is not "
    "significant."
)

_FAILED_FIRST = "its first registration failed"
"""The start of a reason that the introduction gives once, for every later measure."""

NOT_KNOWN = "the reason is not known"


def section(comparison: Comparison, machine: str) -> str:
    """The section, with its heading and its end."""
    lines = [TITLE, "", _introduction(comparison, machine), ""]
    versions = [comparison.versions[name] for name in CONTENDERS if comparison.versions.get(name)]
    lines += [f"- {version}" for version in versions]
    for measure, title in MEASURES.items():
        if any(figure.measure == measure for figure in comparison.figures):
            lines += ["", *_subsection(comparison, measure, title)]
    return "\n".join([*lines, "", END, ""])


def placed(page: str, section_text: str, notes: str) -> str:
    """The page with the section in the place of its older self, or before the heading ``notes``, or at the end."""
    before, kept, after = parted(page)
    if kept:
        return f"{before}{section_text}{after}"
    head, found, tail = page.partition(notes)
    return f"{head.rstrip()}\n\n{section_text}\n{found}{tail}" if found else f"{page.rstrip()}\n\n{section_text}"


def parted(page: str) -> tuple[str, str, str]:
    """The text before the section, the section, and the text after it; without the section all text is before it."""
    found = re.search(rf"^{re.escape(TITLE)}$.*?^{re.escape(END)}\n", page, re.MULTILINE | re.DOTALL)
    return (page[: found.start()], found[0], page[found.end() :]) if found else (page, "", "")


def curve_name(measure: str) -> str:
    """The file of a measure's curve."""
    return f"peers-{measure.replace(' ', '-')}.svg"


def has_curve(comparison: Comparison, measure: str) -> bool:
    """Whether there is a line to draw: two sizes of one contender."""
    timed = [figure.contender for figure in comparison.figures if figure.measure == measure and figure.seconds]
    return any(timed.count(name) > 1 for name in timed)


def cell(comparison: Comparison, figure: Figure | None) -> str:
    """The time, and how many times ours it is."""
    if figure is None:
        return "not measured"
    if figure.seconds is None:
        return "—"
    ratio = comparison.ratio(figure)
    if figure.contender == OURS or ratio is None:
        return shown(figure.seconds)
    return f"{shown(figure.seconds)} ({_times(ratio)})"


def _introduction(comparison: Comparison, machine: str) -> str:
    days = sorted({figure.measured.partition(",")[0] for figure in comparison.figures if figure.measured})
    loads = [float(figure.measured.rpartition(" ")[2]) for figure in comparison.figures if figure.measured]
    under = f"load average when a contender began {min(loads):.1f} to {max(loads):.1f}" if loads else "load unknown"
    provisional = _PROVISIONAL if max(loads, default=0) > _QUIET else ""
    left = [size for size in SIZES if size not in comparison.sizes()]
    missing = f" Not measured yet: {_listed(left)} partitions." if left else ""
    machine = machine.partition(", load average")[0]  # that of one run; the figures may be of several
    return (
        f"Measured on {' and '.join(days)}: {machine}; {under}.{provisional} All contenders have the same tree of "
        "files on the local disk: keys `ds DATE, region STRING, hour INT`, 288 partitions a day, one Parquet file of "
        "one row in each partition. Each contender runs alone in its own process, Spark with 2 cores and 4 GB. Figures "
        "are medians of at most 7 warm runs. The number in brackets is the contender's time divided by that of "
        "catalog-ext: above 1 the contender is slower. A cell with — has no figure. A contender without any figure has "
        "no row. If the first registration of a size failed, the later measures of that size have no figure. "
        "`python -m tests.benchmarks peers --keep` measures again; `--sizes 1000,100000` and `--contenders` limit it."
        f"{missing}"
    )


def _subsection(comparison: Comparison, measure: str, title: str) -> Iterator[str]:
    sizes = comparison.sizes()
    yield from (f"### {title}", "", HOW[measure], "")
    yield f"|  | {' | '.join(f'{size:,} partitions' for size in sizes)} |"
    yield "|---" + "|--:" * len(sizes) + "|"
    for name, label in CONTENDERS.items():
        figures = [comparison.of(name, measure, size) for size in sizes]
        known = [figure for figure in figures if figure]
        if len(known) == 1 or any(figure.seconds for figure in known):
            yield f"| {label} | {' | '.join(cell(comparison, figure) for figure in figures)} |"
    notes = [*_reasons(comparison, measure), *_ahead(comparison, measure)]
    if notes:
        yield from ("", *notes)
    if has_curve(comparison, measure):
        yield from ("", f"![{title}, by the number of partitions]({FOLDER}/{curve_name(measure)})")
        growth = _growth(comparison, measure)
        yield from ("", growth) if growth else ()


def _reasons(comparison: Comparison, measure: str) -> Iterator[str]:
    """Why there is no figure, a line a contender and reason."""
    found: dict[tuple[str, str], list[int]] = {}
    for figure in comparison.figures:
        if figure.measure == measure and figure.seconds is None and not figure.reason.startswith(_FAILED_FIRST):
            found.setdefault((figure.contender, figure.reason), []).append(figure.partitions)
    for (name, reason), sizes in found.items():
        everywhere = len(sizes) == len([size for size in comparison.sizes() if comparison.of(name, measure, size)])
        where = "" if everywhere and len(sizes) > 1 else f" for {_listed(sizes)} partitions"
        yield f"- {CONTENDERS[name]} has no figure{where}: {reason}."


def _ahead(comparison: Comparison, measure: str) -> Iterator[str]:
    """Who is ahead of us, and why."""
    found: dict[str, list[str]] = {}
    for figure, ratio in comparison.ahead(measure):
        found.setdefault(figure.contender, []).append(f"{_times(ratio)} its time at {figure.partitions:,}")
    for name, where in found.items():
        why = WHY.get((measure, name), NOT_KNOWN)
        yield (f"- **{CONTENDERS[name]} is faster than catalog-ext**, with {' and '.join(where)} partitions: {why}.")


def _growth(comparison: Comparison, measure: str) -> str:
    """The growth of the time of catalog-ext from its smallest to its largest table, as a line; empty without two."""
    found = [figure for figure in comparison.figures if (figure.contender, figure.measure) == (OURS, measure)]
    timed = sorted((figure.partitions, figure.seconds) for figure in found if figure.seconds)
    if len(timed) < 2:
        return ""
    (small, quick), (large, slow) = timed[0], timed[-1]
    return f"Growth of the time: from {small:,} to {large:,} partitions {OURS} {_times(slow / quick)}."


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.2g} times"


def _listed(sizes: list[int]) -> str:
    return " and ".join(f"{size:,}" for size in sizes)
