"""Defines the modes and options of a repair."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.conf import keys
from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.metastore.model.descriptors import PartitionDescriptor
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate


class RepairMode(StrEnum):
    """``ADD`` registers new partitions, ``DROP`` removes missing ones, ``SYNC`` does both and refreshes known files."""

    ADD = "add"
    DROP = "drop"
    SYNC = "sync"

    @classmethod
    def parse(cls, text: str) -> RepairMode:
        """Return the mode with this name, in any case.

        Raises:
            InvalidInputError: There is no such mode.
        """
        try:
            return cls(text.lower())
        except ValueError as error:
            raise InvalidInputError(f"{text[:60]!r} is not a repair mode. Use 'add', 'drop' or 'sync'.") from error


class Verify(StrEnum):
    """The files that a repair opens: ``NONE``; ``NEW`` and changed ones; ``ALL``, registered ones too."""

    NONE = "none"
    NEW = "new"
    ALL = "all"

    @classmethod
    def parse(cls, value: bool | str) -> Verify:
        """Return the mode for a value; ``True`` is ``new``.

        Raises:
            InvalidInputError: The value is unknown.
        """
        text = str(value).lower()
        try:
            return {"true": cls.NEW, "false": cls.NONE}.get(text) or cls(text)
        except ValueError as error:
            raise InvalidInputError(
                f"verify cannot be {str(value)[:60]!r}. Use 'new' (or true) for new and changed files, 'all' for "
                "registered files too, or 'none' (or false)."
            ) from error


@dataclass(frozen=True, slots=True)
class MetastoreState:
    """The metastore's state of partitions, which decides which of them exist, and their locations.

    Attributes:
        places: The existing partitions with their locations; None means the directory below the table's. They stay, or
            are added, even if the location is empty or missing.
        gone: Names of partitions that were dropped in the metastore. They are dropped, whatever their locations
            contain.
        descriptors: The descriptors (format, settings) of partitions that are new, or whose descriptor changes. None
            means that the partition has its table's format.
        lost: The partitions in ``places`` that the metastore lacks, although no event reports a drop. If the location
            of such a partition is missing, it keeps its registered files, because no side says that it was dropped.
        must_lie: Whether partitions with an empty or missing location are not changed, registered or not.
    """

    places: Mapping[str, str | None] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    descriptors: Mapping[str, PartitionDescriptor | None] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    must_lie: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all partitions, those to be dropped first."""
        return (*sorted(self.gone), *self.places)


class DropLimit(NamedTuple):
    """The share of a table's partitions that a repair may drop without ``allow_mass_drop``.

    Attributes:
        percent: The greatest allowed share, in percent of the table's partitions.
        least: The limit applies to tables with at least this number of partitions.
    """

    percent: int = 50
    least: int = 20

    @classmethod
    def of(cls, table: Table, conf: Mapping[str, str]) -> DropLimit:
        """Return the limit in the table's properties, or else the catalog's limit."""
        given = (table.definition.properties, conf)
        return cls(keys.MASS_DROP_PERCENT.read(*given), keys.MASS_DROP_PARTITIONS.read(*given))

    def allows(self, dropped: int, registered: int) -> bool:
        """Return whether this number of the registered partitions may be dropped."""
        return registered < self.least or dropped * 100 <= registered * self.percent


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """The options of a repair.

    Attributes:
        predicate: A bound predicate that limits the repair and its listing; None for the whole table.
        where: The predicate in the user's words, for the report.
        dry_run: Preview only.
        strict: Refuse to change anything if a path would be skipped.
        verify: The files to open. New and changed files that Spark cannot read are skipped; registered ones stay and
            are reported.
        allow_mass_drop: Drop any number of missing partitions.
        drop_limit: The limit of dropped partitions without ``allow_mass_drop``.
        deliver: Whether the changes are sent to the metastore through the outbox.
        batch_partitions: The number of partitions in an atomic batch.
        names: Only these partitions, each at its location; None for those that satisfy the predicate. In a location
            with wildcards the predicate limits the listing.
        metastore_state: The metastore's state of the named partitions; None if the store alone decides.
        operation: The operation in the history of its commits.
        confirm: Called before each batch is committed; an error in it ends the repair.
    """

    mode: RepairMode = RepairMode.SYNC
    predicate: Predicate | None = None
    where: str | None = None
    dry_run: bool = False
    strict: bool = False
    verify: Verify = Verify.NONE
    allow_mass_drop: bool = False
    drop_limit: DropLimit = DropLimit()  # noqa: RUF009 -- it is a tuple
    deliver: bool = True
    batch_partitions: int = 1000
    names: tuple[str, ...] | None = None
    metastore_state: MetastoreState | None = None
    operation: str = "repair"
    confirm: Callable[[], None] = lambda: None

    @property
    def is_limited(self) -> bool:
        """Whether the repair covers less than the whole table."""
        return self.predicate is not None or self.names is not None
