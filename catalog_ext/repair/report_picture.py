"""Counts what a repair has changed by the values of the first key, for its picture: the scratch database counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.index import Bounds, Unit, form_of
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION, unescape_path_name
from catalog_ext.notebook.plots import Changes
from catalog_ext.overview.dates import count_periods
from catalog_ext.overview.partition_map import WIDE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.scan.scratch import Scratch

_MOST = 30
"""Values of a key that is no date; the others are counted."""

_WORDS = {"add": "added", "drop": "dropped", "change": "changed", "skip": "skipped"}
_OUTSIDE = "(no partition)"
_FIRST = "substr(partition, 1, instr(partition || '/', '/') - 1)"
_VALUE = f"substr({_FIRST}, instr({_FIRST}, '=') + 1)"
_NAMED = f"partition <> '' AND {_VALUE} <> '{DEFAULT_PARTITION}'"
_OURS = "action IN ('add', 'drop', 'change', 'skip')"


def changes_by_value(scratch: Scratch, keys: Sequence[str], title: str) -> Changes:
    """Return what was changed by the first key: dates by day, month or year, of other values those with most."""
    if not keys:
        return _counted(scratch, "''", [("", "the table")], "", title)
    least, greatest = next(scratch.rows(f"SELECT min({_VALUE}), max({_VALUE}) FROM entries WHERE {_OURS} AND {_NAMED}"))
    form = form_of("string", least, greatest)
    length = None if form is None else form.length(_unit(Bounds(form.decoded(least), form.decoded(greatest), form)))
    value = _VALUE if length is None else f"CASE WHEN {_NAMED} THEN substr({_VALUE}, 1, {length}) ELSE {_VALUE} END"
    most = _MOST if length is None else 10_000
    found = [
        text
        for (text,) in scratch.rows(
            f"SELECT {value} AS v FROM entries WHERE {_OURS} GROUP BY v ORDER BY count(*) DESC, v LIMIT ?", (most,)
        )
    ]
    all_values = scratch.count(f"SELECT count(DISTINCT {value}) FROM entries WHERE {_OURS}")
    shown = [(text, _label(text)) for text in sorted(found)]
    return _counted(scratch, value, shown, keys[0], title, all_values - len(found))


def _unit(bounds: Bounds) -> Unit:
    units = (Unit.DAY, Unit.MONTH)
    return next((unit for unit in units if count_periods(bounds, unit) <= WIDE.units(unit)), Unit.YEAR)


def _label(text: str) -> str:
    if not text:
        return _OUTSIDE
    return "NULL" if text == DEFAULT_PARTITION else unescape_path_name(text)


def _counted(
    scratch: Scratch, value: str, values: Sequence[tuple[str, str]], key: str, title: str, more: int = 0
) -> Changes:
    at = {text: number for number, (text, _) in enumerate(values)}
    counts = {word: [0] * len(values) for word in _WORDS.values()}
    for text, action, number in _rows(scratch, value):
        if text in at:
            counts[_WORDS[action]][at[text]] = number
    return Changes(title, key, tuple(label for _, label in values), {w: tuple(c) for w, c in counts.items()}, more)


def _rows(scratch: Scratch, value: str) -> Any:  # noqa: ANN401 -- rows of a database
    # A skipped path belongs to no partition that is registered: each is one.
    return scratch.rows(
        f"SELECT {value} AS v, action, CASE WHEN action = 'skip' THEN count(*) ELSE count(DISTINCT partition) END"
        f" FROM entries WHERE {_OURS} GROUP BY v, action"
    )
