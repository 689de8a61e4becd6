"""What a side has of a partition, in words that can be compared by eye."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.drift.difference import MISSING
from catalog_ext.drift.store_side import CHANGE, DROP
from catalog_ext.metastore.hive.mapping.statistics_parameters import BYTES, FILES, ROWS
from catalog_ext.metastore.runtime.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.drift.store_side import StoreFinding
    from catalog_ext.metastore.model.tables import Partition

HAS_IT = "has it"
NOT_KNOWN = "not known"


def files_words(files: int, size: int, rows: int | None = None) -> str:
    """Return ``2 files, 1,204 bytes, 10 rows``; without the rows where nobody has counted them."""
    words = f"{counted(files, 'file')}, {counted(size, 'byte')}"
    return words if rows is None else f"{words}, {counted(rows, 'row')}"


def index_words(partition: Partition | None) -> str:
    """Return what the index has of a partition."""
    if partition is None:
        return MISSING
    words = files_words(partition.files, partition.bytes, partition.rows)
    return words if partition.location is None else f"{words} at {partition.location}"


def statistics_words(parameters: Mapping[str, str]) -> str:
    """Return what parameters say of the files: of the metastore, and of the index as it sends them there."""
    numbers = [int(parameters[n]) if parameters.get(n, "").isdecimal() else None for n in (FILES, BYTES, ROWS)]
    nouns = zip(numbers, ("file", "byte", "row"), strict=True)
    words = [counted(number, noun) for number, noun in nouns if number is not None]
    return ", ".join(words) or HAS_IT


def store_words(finding: StoreFinding | None, index: str) -> str:
    """Return what the store has of a partition that the index knows.

    Args:
        finding: In what it differs from the index; None where it does not.
        index: What the index has.
    """
    if finding is None:
        return index
    if finding.action == DROP:
        return MISSING
    if finding.action == CHANGE:
        return f"other files: {files_words(finding.files, finding.bytes)} differ"
    return files_words(finding.files, finding.bytes)
