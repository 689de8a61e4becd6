"""Applies changes to the index: one commit, in one transaction that the caller holds.

The table's row is updated first, which makes the database let one committer of a table through at a time; everything
read after that is what the last one left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.errors import ConflictError, InvalidInputError
from catalog_ext.metastore.index.database.rows import table_from_row
from catalog_ext.metastore.index.database.schema import ALIVE, files
from catalog_ext.metastore.index.write.applier import Applier
from catalog_ext.metastore.index.write.partition_rows import changed_after, mark_in_metastore
from catalog_ext.metastore.index.write.registration_checks import require_unclaimed
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.changes import AddPartition, Change, Commit, DropPartition, ReplaceFiles
from catalog_ext.metastore.model.tables import DataFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.model.changes import Summary
    from catalog_ext.metastore.model.tables import Table

_AT_ONCE = 500
_MANY = 1000


class _Application:
    """Applies changes to a table by the rows of one version."""

    def __init__(self, applier: Applier, base: Table | None, listed_at_ms: int | None, *, presume_new: bool) -> None:
        self._applier = applier
        self._base = base
        self._listed_at_ms = listed_at_ms
        self._presume_new = presume_new

    def apply(self, changes: Sequence[Change]) -> None:
        """Write the changes.

        Raises:
            ConflictError: The table is not as the changes presume, or a transaction deletes a file that they register.
        """
        drops = [c for c in changes if isinstance(c, DropPartition)]
        replaced = [c for c in changes if isinstance(c, ReplaceFiles)]
        adds = [c for c in changes if isinstance(c, AddPartition)]
        self._check_unchanged([c.name for c in changes])
        known = self._applier.alive([
            c.name for c in changes if not (self._presume_new and isinstance(c, AddPartition))
        ])  # fmt: skip
        self._check(drops, replaced, adds, known)
        registering: list[AddPartition | ReplaceFiles] = [*replaced, *adds]
        if any(map(_new_files, registering)):
            require_unclaimed(
                self._applier.connection, self._applier.table, lambda: self._registered(registering, known),
                listed_at_ms=self._listed_at_ms,
            )  # fmt: skip
        dropped = [known[c.name] for c in drops]
        marked = self._marked(adds, dropped)
        self._applier.drop(dropped)
        self._replace([(c, known[c.name]) for c in replaced])
        self._applier.add(marked)
        self._applier.flush()

    def _marked(self, adds: Sequence[AddPartition], dropped: Sequence[Mapping[str, Any]]) -> Sequence[AddPartition]:
        """Return the new partitions; others may have added one with the values of one of them since they were found."""
        if self._base is None or self._applier.version == self._base.version + 1:
            return adds
        return mark_in_metastore(self._applier.connection, self._applier.table, adds, dropped)

    def _check_unchanged(self, names: Sequence[str]) -> None:
        """Raise where the table's layout or a partition is not as it was when the changes were found."""
        if self._base is None:
            return
        then, now = self._base.definition, self._applier.table.definition
        if (then.location, then.keys) != (now.location, now.keys):
            table = self._applier.table.identifier
            raise ConflictError(
                f"The location or the partition columns of table {table} were changed meanwhile. The changes that "
                "were found before were not made; look again and retry.",
                {"table": str(table)},
            )
        if self._applier.version == self._base.version + 1:
            return
        changed = changed_after(self._applier.connection, self._applier.row, names, self._base.version)
        for name, version in changed.items():
            raise self._conflict(name, f"version {version} changed it")

    def _check(
        self,
        drops: Sequence[DropPartition],
        replaced: Sequence[ReplaceFiles],
        adds: Sequence[AddPartition],
        known: Mapping[str, Any],
    ) -> None:
        dropped = {c.name for c in drops}
        for name in (*dropped, *(c.name for c in replaced)):
            if name not in known:
                raise self._conflict(name, "it is no longer there")
        for added in adds:
            if added.name in known and added.name not in dropped:
                raise self._conflict(added.name, "it is there already")

    def _registered(
        self, changes: Sequence[AddPartition | ReplaceFiles], known: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, dict[str, DataFile]]:
        """Return the files that the changes register, by directory and name."""
        found: dict[str, dict[str, DataFile]] = {}
        for change in changes:
            row = known.get(change.name) if isinstance(change, ReplaceFiles) else None
            place = change.location or (None if row is None else row["location"])
            directory = self._applier.table.directory(change.name, place)
            found.setdefault(directory, {}).update({file.path: file for file in _new_files(change)})
        return found

    def _conflict(self, name: str, what: str) -> ConflictError:
        table = self._applier.table.identifier
        return ConflictError(
            f"Another commit to table {table} was first: a change presumes otherwise of partition "
            f"{name[:200]!r}, but {what}. It was not made; look again and retry.",
            {"table": str(table), "partition": name[:200]},
        )

    def _replace(self, changes: Sequence[tuple[ReplaceFiles, Mapping[str, Any]]]) -> None:
        for chunk in batched(changes, _AT_ONCE):
            contents = self._contents([row["partition_id"] for _, row in chunk])
            ended: list[tuple[int, int]] = []
            for change, row in chunk:
                ended.extend(self._replace_one(change, row, contents.get(row["partition_id"], {})))
            self._applier.end_partitions([row["partition_id"] for _, row in chunk])
            self._applier.end_files(ended)

    def _contents(self, partition_ids: Sequence[int]) -> dict[int, dict[str, Mapping[str, Any]]]:
        contents: dict[int, dict[str, Mapping[str, Any]]] = {}
        rows = self._applier.connection.execute(
            sa.select(files).where(files.c.partition_id.in_(partition_ids), files.c.end_version == ALIVE)
        )
        for row in rows.mappings():
            contents.setdefault(row["partition_id"], {})[row["path"]] = dict(row)
        return contents

    def _replace_one(
        self, change: ReplaceFiles, row: Mapping[str, Any], present: dict[str, Mapping[str, Any]]
    ) -> list[tuple[int, int]]:
        ended: list[tuple[int, int]] = []
        for path in change.removed:
            gone = present.pop(path, None)
            if gone is None:
                raise self._conflict(change.name, f"its file {path[:200]!r} is no longer there")
            ended.append((gone["partition_id"], gone["file_id"]))
        for file in change.added:
            if file.path in present:
                raise self._conflict(change.name, f"its file {file.path[:200]!r} is there already")
        if change.redescribed:
            # Its files are others to a reader: they begin anew, with nothing known of what is in them.
            again = [DataFile(f["path"], f["size"], f["modified_ms"], etag=f["etag_hash"]) for f in present.values()]
            self._applier.describe(row, [*again, *change.added], change.location, change.descriptor)
            return [*ended, *((f["partition_id"], f["file_id"]) for f in present.values())]
        kept = [DataFile(f["path"], f["size"], f["modified_ms"], f["n_rows"]) for f in present.values()]
        self._applier.hold(row, kept, change.added, change.location)
        return ended


def commit(
    connection: sa.Connection,
    row: Mapping[str, Any],
    changes: Sequence[Change],
    *,
    operation: str,
    summary: Summary,
    deliver: bool,
    base: Table | None,
    listed_at_ms: int | None,
    presume_new: bool,
) -> Commit:
    """Return what one commit did; ``row`` is the table's, read after its version was raised.

    Args:
        connection: In a transaction.
        row: The table's.
        changes: What ``worth_committing`` has kept.
        operation: What makes the commit, for the history.
        summary: Kept in the history.
        deliver: Whether to enqueue the changes for the metastore.
        base: The table as it was when the changes were found, or None.
        listed_at_ms: A time before the store was listed, by the database's clock, or None.
        presume_new: Do not look whether a partition that is to be added is there: the database refuses its row if so.

    Raises:
        ConflictError: The table is not as the changes presume, or a transaction deletes a file that they register.
        SQLAlchemyError: A partition that is to be added is there already (``is_duplicate``).
    """
    table = table_from_row(row)
    applier = Applier(connection, table, table.version, row, now=row["now_ms"])
    _Application(applier, base, listed_at_ms, presume_new=presume_new).apply(changes)
    return Commit(
        version=table.version,
        partitions_added=applier.partitions_added,
        partitions_dropped=applier.partitions_removed,
        partitions_changed=applier.partitions_changed,
        files_added=applier.files_added,
        files_removed=applier.files_removed,
        deliveries=applier.record(operation, summary, deliver=deliver),
    )


def are_many_new(changes: Sequence[Change]) -> bool:
    """Return whether so many partitions come that to look for each of them first would take long."""
    return sum(isinstance(c, AddPartition) for c in changes) >= _MANY


def worth_committing(changes: Sequence[Change]) -> list[Change]:
    """Return the changes that change something.

    Raises:
        InvalidInputError: Two of them concern one partition in a way that has no order.
    """
    kept = [
        c for c in changes if not isinstance(c, ReplaceFiles) or c.added or c.removed or c.location or c.redescribed
    ]
    adds = [c.name for c in kept if isinstance(c, AddPartition)]
    others = [c.name for c in kept if not isinstance(c, AddPartition)]
    twice = next((c.name for c in kept if _names_a_file_twice(c)), None)
    if twice is None and len({*adds}) == len(adds) and len({*others}) == len(others):
        return kept
    shown = (twice or next(name for names in (adds, others) for name in names if names.count(name) > 1))[:200]
    raise InvalidInputError(f"A commit names the partition {shown!r}, or a file of it, twice.", {"partition": shown})


def _names_a_file_twice(change: Change) -> bool:
    if isinstance(change, DropPartition):
        return False
    added = _new_files(change)
    return len(added) > 1 and len({f.path for f in added}) != len(added)


def _new_files(change: AddPartition | ReplaceFiles) -> Sequence[DataFile]:
    return change.files if isinstance(change, AddPartition) else change.added
