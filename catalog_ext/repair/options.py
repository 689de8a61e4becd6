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
    """``ADD`` registers what is new, ``DROP`` removes what is gone, ``SYNC`` does both and refreshes known files."""

    ADD = "add"
    DROP = "drop"
    SYNC = "sync"

    @classmethod
    def parse(cls, text: str) -> RepairMode:
        """Return the mode of this name, in any case.

        Raises:
            InvalidInputError: There is no such mode.
        """
        try:
            return cls(text.lower())
        except ValueError as error:
            raise InvalidInputError(f"{text[:60]!r} is not a repair mode. Use 'add', 'drop' or 'sync'.") from error


class Verify(StrEnum):
    """Which files a repair opens: ``NONE``; ``NEW`` and changed ones; ``ALL``, registered ones too."""

    NONE = "none"
    NEW = "new"
    ALL = "all"

    @classmethod
    def parse(cls, given: bool | str) -> Verify:
        """Return what is meant: ``True`` is ``new``.

        Raises:
            InvalidInputError: The value is unknown.
        """
        text = str(given).lower()
        try:
            return {"true": cls.NEW, "false": cls.NONE}.get(text) or cls(text)
        except ValueError as error:
            raise InvalidInputError(
                f"verify cannot be {str(given)[:60]!r}. Use 'new' (or true) for new and changed files, 'all' for "
                "registered files too, or 'none' (or false)."
            ) from error


@dataclass(frozen=True, slots=True)
class MetastoreState:
    """What the metastore says of partitions, which is right about which of them there are, and where.

    Attributes:
        places: Those that are there: each one's location, None for its directory below the table's. They stay, or come,
            also where nothing lies there.
        gone: Names of those that were dropped there: they go, whatever lies at their places.
        descriptors: How those are read that are new or are read otherwise than the index says, where that is not as a
            new partition is by itself; None: as their table.
        lost: Those of ``places`` that it does not have, although no event says that they were dropped. Where nothing is
            at the place of such a one, it keeps the files that are registered: neither side says that they are gone.
        must_lie: Whether those at whose places nothing lies are left as they are registered, or unregistered.
    """

    places: Mapping[str, str | None] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    descriptors: Mapping[str, PartitionDescriptor | None] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    must_lie: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, those that go first."""
        return (*sorted(self.gone), *self.places)


class DropLimit(NamedTuple):
    """How much may be dropped at once without being allowed.

    Attributes:
        percent: The most of a table's partitions.
        least: Partitions from which on the share is looked at.
    """

    percent: int = 50
    least: int = 20

    @classmethod
    def of(cls, table: Table, conf: Mapping[str, str]) -> DropLimit:
        """Return the limit of a table, or else the catalog's."""
        given = (table.definition.properties, conf)
        return cls(keys.MASS_DROP_PERCENT.read(*given), keys.MASS_DROP_PARTITIONS.read(*given))

    def allows(self, dropped: int, registered: int) -> bool:
        """Return whether so many of the registered partitions may be dropped."""
        return registered < self.least or dropped * 100 <= registered * self.percent


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """What a repair is to do.

    Attributes:
        predicate: A bound predicate that limits it, which also limits what is listed; None for the whole table.
        where: The same in the user's words, for the report.
        dry_run: Preview only.
        strict: Refuse to change anything when something would be skipped.
        verify: Which files are opened. New and changed ones that Spark cannot read are skipped, registered ones stay
            and are reported.
        allow_mass_drop: Drop however much has gone.
        drop_limit: What is dropped without that.
        deliver: Whether the metastore follows through the outbox.
        batch_partitions: Partitions of one atomic batch.
        names: The partitions alone that it looks at, each at its place; None for what the predicate leaves. Of a
            location with wildcards the predicate says what is listed.
        metastore_state: What the metastore says of these; None where the store alone decides.
        operation: What the history says of its commits.
        confirm: Is called before each batch is committed; what it raises ends the repair.
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
        """Whether it looks at less than the whole table."""
        return self.predicate is not None or self.names is not None
