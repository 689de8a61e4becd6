"""What drift finds: one difference between the store, the index and the metastore, as a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from catalog_ext.metastore.backports import StrEnum

MISSING = "missing"
"""What a side has that lacks what it could have; None is a side that has no say in the matter."""


class Side(StrEnum):
    """One of the three places in which a table is."""

    STORE = "store"
    INDEX = "index"
    METASTORE = "metastore"


class DriftKind(StrEnum):
    """In what the sides differ."""

    TABLE = "table"
    LOCATION = "location"
    FORMAT = "format"
    COLUMN = "column"
    PARTITION_COLUMN = "partition column"
    PARAMETER = "parameter"
    VIEW = "view"
    PARTITION = "partition"
    PARTITION_LOCATION = "partition location"
    PARTITION_DESCRIPTOR = "partition descriptor"
    FILES = "files"
    STATISTICS = "statistics"
    NOT_COMPARED = "not compared"
    NOT_TAKEN = "not taken"


OF_DEFINITION = frozenset({
    DriftKind.TABLE, DriftKind.LOCATION, DriftKind.FORMAT, DriftKind.COLUMN, DriftKind.PARTITION_COLUMN,
    DriftKind.PARAMETER, DriftKind.VIEW,
})  # fmt: skip
"""Kinds that are about the table and not about a partition."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference, or something that could not be compared.

    Attributes:
        table: ``namespace.table``.
        kind: In what the sides differ.
        subject: The partition, column, parameter or option; ``''`` for the table as a whole.
        store: What the store has, in words; ``missing`` where it lacks it, None where it has no say.
        index: What the index has, likewise.
        metastore: What the metastore has, likewise.
        newer: The side that changed last; None where nothing says so.
        evidence: By what that is known, or why something could not be compared.
        pending: Whether it is what the outbox still has to deliver, and no drift.
        failed: Whether its delivery has failed: it may need a person.
        unavailable: Whether it could not be compared because a side does not answer; later it may.
    """

    table: str
    kind: DriftKind
    subject: str = ""
    store: str | None = None
    index: str | None = None
    metastore: str | None = None
    newer: Side | None = None
    evidence: str = ""
    pending: bool = False
    failed: bool = False
    unavailable: bool = False

    @property
    def is_drift(self) -> bool:
        """Whether the sides are known to differ until they are mended."""
        return not self.pending and self.kind not in (DriftKind.NOT_COMPARED, DriftKind.NOT_TAKEN)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def not_compared(
    table: str, why: str, subject: str = "", *, side: Side | None = None, unavailable: bool = False
) -> Difference:
    """Return that a part could not be compared.

    Args:
        table: ``namespace.table``.
        why: The reason in words.
        subject: The part; ``''`` for all of the table.
        side: The side that could not be looked at.
        unavailable: Whether that is because it does not answer.
    """
    store, index, metastore = ("not known" if each is side else None for each in Side)
    return Difference(
        table, DriftKind.NOT_COMPARED, subject, store, index, metastore, evidence=why, unavailable=unavailable
    )
