"""Counts the changes of a repair by the values of the first partition column, in the report's scratch database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.index.read.partition_map import Bounds, Unit, form_of
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION, unescape_path_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from catalog_ext.scan.scratch import Scratch

_MOST = 30
"""The most values that are shown of a column that holds no dates; further values are only counted."""

_WORDS = {"add": "added", "drop": "dropped", "change": "changed", "skip": "skipped"}
_OUTSIDE = "(no partition)"
_FIRST = "substr(partition, 1, instr(partition || '/', '/') - 1)"
_VALUE = f"substr({_FIRST}, instr({_FIRST}, '=') + 1)"
_NAMED = f"partition <> '' AND {_VALUE} <> '{DEFAULT_PARTITION}'"
_OURS = "action IN ('add', 'drop', 'change', 'skip')"


@dataclass(frozen=True, slots=True)
class ChangesByValue:
    """The changes of a repair by the values of the first partition column.

    Attributes:
        key: The column's name; ``''`` for a table without partition columns.
        values: The column's values, as texts.
        counts: By action (``added``, ``dropped``, ``changed``, ``skipped``), a number for each value: its partitions,
            for ``skipped`` its paths.
        more: The number of values that are left out.
    """

    key: str
    values: tuple[str, ...]
    counts: Mapping[str, tuple[int, ...]]
    more: int = 0


def changes_by_value(scratch: Scratch, keys: Sequence[str], unit_of: Callable[[Bounds], Unit]) -> ChangesByValue:
    """Count the changes of a repair for each value of the first partition column.

    Args:
        scratch: The report's database.
        keys: The names of the table's partition columns.
        unit_of: Returns the unit (day, month, year) to which dates between two bounds are truncated. Of values that are
            not dates, only those with the most changes are counted.
    """
    if not keys:
        return _counted(scratch, "''", [("", "the table")], "")
    least, greatest = next(scratch.rows(f"SELECT min({_VALUE}), max({_VALUE}) FROM entries WHERE {_OURS} AND {_NAMED}"))
    form = form_of("string", least, greatest)
    length = None if form is None else form.length(unit_of(Bounds(form.decoded(least), form.decoded(greatest), form)))
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
    return _counted(scratch, value, shown, keys[0], all_values - len(found))


def _label(text: str) -> str:
    if not text:
        return _OUTSIDE
    return "NULL" if text == DEFAULT_PARTITION else unescape_path_name(text)


def _counted(
    scratch: Scratch, value: str, values: Sequence[tuple[str, str]], key: str, more: int = 0
) -> ChangesByValue:
    at = {text: number for number, (text, _) in enumerate(values)}
    counts = {word: [0] * len(values) for word in _WORDS.values()}
    for text, action, number in _rows(scratch, value):
        if text in at:
            counts[_WORDS[action]][at[text]] = number
    return ChangesByValue(key, tuple(label for _, label in values), {w: tuple(c) for w, c in counts.items()}, more)


def _rows(scratch: Scratch, value: str) -> Any:  # noqa: ANN401 -- rows of a database
    # Count skipped paths one by one, because they belong to no registered partition; of other actions count partitions.
    return scratch.rows(
        f"SELECT {value} AS v, action, CASE WHEN action = 'skip' THEN count(*) ELSE count(DISTINCT partition) END"
        f" FROM entries WHERE {_OURS} GROUP BY v, action"
    )
