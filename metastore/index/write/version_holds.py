"""Tags: names of versions that vacuum keeps, for readers of these versions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlalchemy as sa

from catalog_ext.metastore.errors import AlreadyExistsError, InvalidInputError, TableNotFoundError, VersionNotFoundError
from catalog_ext.metastore.index.database.clock import NOW_MS
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import table_versions, tables, version_holds
from catalog_ext.metastore.index.read.marked_rows import IN_FORCE, is_held, version_expired, version_not_found
from catalog_ext.metastore.runtime.users import current_user

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import Table

TAG = "tag"
"""The ``kind`` of tags."""

_NAME_BYTES = 255

TAGS_SCHEMA = pa.schema([
    pa.field("name", pa.string(), nullable=False),
    pa.field("version", pa.int64(), nullable=False),
    pa.field("until", pa.timestamp("ms", tz="UTC")),
    pa.field("user", pa.string(), nullable=False),
    pa.field("readable", pa.string(), nullable=False),
])  # fmt: skip
"""The metadata table ``tags``: one row per tag."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A name of a version, which vacuum keeps.

    Attributes:
        name: The name, unique in the table.
        version: The version.
        until_ms: When the tag ends, in milliseconds since the epoch, UTC; None: at ``untag``.
        user: The user who made the tag.
        readable: Whether the version can be read, ``yes`` or ``no``. The version of a tag that has ended may be gone.
        in_force: Whether the tag keeps its version: its time is not over.
    """

    name: str
    version: int
    until_ms: int | None
    user: str
    readable: str
    in_force: bool = True


class VersionHolds(IndexPart):
    """Makes, lists and removes tags."""

    def tag(self, table: Table, version: int, name: str, until_ms: int | None = None) -> Tag:
        """Give a version of a table a name and keep it, until a time or until ``untag``.

        Raises:
            InvalidInputError: The name is not valid, or the time is over.
            AlreadyExistsError: The table has a tag of that name.
            VersionNotFoundError: The table has no such version.
            VersionExpiredError: Vacuum has removed the version, or is about to.
            TableNotFoundError: The table is gone.
        """
        checked_name(name)
        user, number, h = current_user(), table.table_id, version_holds.c

        def work(connection: sa.Connection) -> None:
            # The lock orders the tag and a vacuum: the vacuum reads the tag, or has raised the oldest version already.
            lock_row(connection, number)
            now = _require_free(connection, table, version, name)
            if until_ms is not None and until_ms <= now:
                raise InvalidInputError(
                    f"A tag of table {table.identifier} cannot end in the past: give a later time as 'until'."
                )
            # A tag of that name whose time is over is replaced.
            connection.execute(sa.delete(version_holds).where(h.table_id == number, h.kind == TAG, h.name == name))
            values = {"version": version, "owner": user, "since_ms": now, "until_ms": until_ms}
            connection.execute(sa.insert(version_holds).values(table_id=number, kind=TAG, name=name, **values))

        self._database.write(work)
        return Tag(name, version, until_ms, user, "yes")

    def untag(self, table: Table, name: str) -> Tag:
        """Remove a tag and return it. Its version stays readable until vacuum removes it.

        Raises:
            VersionNotFoundError: The table has no tag of that name.
        """
        h = version_holds.c
        found = next((tag for tag in self.tags(table) if tag.name == name), None)
        gone = sa.delete(version_holds).where(h.table_id == table.table_id, h.kind == TAG, h.name == name)
        if found is None or not self._database.change(gone):
            raise tag_not_found(table, name, [tag.name for tag in self.tags(table)])
        return found

    def rows(self, table: Table) -> pa.RecordBatchReader:
        """Return the tags of a table by name (``TAGS_SCHEMA``)."""
        found = [{**asdict(tag), "until": tag.until_ms} for tag in self.tags(table)]
        return pa.Table.from_pylist(found, schema=TAGS_SCHEMA).to_reader()

    def tags(self, table: Table) -> list[Tag]:
        """Return the tags of a table by name, also those that have ended since the last vacuum."""
        h, t = version_holds.c, tables.c
        statement = (
            sa.select(
                h.name, h.version, h.until_ms, h.owner, t.oldest_version, sa.case((IN_FORCE, 1), else_=0).label("holds")
            )
            .join_from(version_holds, tables, t.table_id == h.table_id)
            .where(h.table_id == table.table_id, h.kind == TAG)
            .order_by(h.name)
        )
        with self._database.reading() as connection:
            rows = connection.execute(statement).all()
        return [
            Tag(row.name, row.version, row.until_ms, row.owner,
                "yes" if row.holds or row.oldest_version <= row.version else "no", bool(row.holds))
            for row in rows
        ]  # fmt: skip


def _require_free(connection: sa.Connection, table: Table, version: int, name: str) -> int:
    """Check that a version can be tagged and the name is free; return the database's time. See ``VersionHolds.tag``."""
    shown, number = str(table.identifier), table.table_id
    t, v, h = tables.c, table_versions.c, version_holds.c
    there, held = sa.exists().where(v.table_id == number, v.version == version), is_held(number, version)
    state = sa.select(
        t.version, t.oldest_version, there.label("there"), held.label("held"), NOW_MS.label("now")
    ).where(t.table_id == number)  # fmt: skip
    row = connection.execute(state).one_or_none()
    if row is None:
        raise TableNotFoundError(f"The table {shown} was dropped meanwhile.", {"table": shown})
    if 0 <= version < row.oldest_version and not row.held:
        raise version_expired(shown, version, row.oldest_version)
    if not row.there:
        raise version_not_found(table, f"version {version}", row.oldest_version, row.version)
    same = sa.select(h.version).where(h.table_id == number, h.kind == TAG, h.name == name, IN_FORCE)
    other = connection.execute(same).scalar()
    if other is not None:
        raise _taken(shown, name, other)
    return int(row.now)


def checked_name(name: str) -> None:
    """Check the name of a new tag.

    Raises:
        InvalidInputError: It is empty, too long, has blanks at its ends or control characters, or is a number, which
            ``VERSION AS OF`` takes for a version's number.
    """
    wrong = (
        "is empty" if not name
        else "has only digits: VERSION AS OF would take it for the number of a version" if name.isdigit()
        else f"is longer than {_NAME_BYTES} bytes" if len(name.encode()) > _NAME_BYTES
        else "begins or ends with a blank" if name != name.strip()
        else "has control characters" if not name.isprintable()
        else None
    )  # fmt: skip
    if wrong:
        raise InvalidInputError(
            f"The name of a tag {name[:60]!r} {wrong}. Give it another name, such as 'before-load'."
        )


def tag_not_found(table: Table, name: str, known: list[str]) -> VersionNotFoundError:
    """Return the error for an unknown tag, with the existing ones."""
    shown = str(table.identifier)
    tags = f"Its tags: {', '.join(known[:20])}" if known else "It has no tags"
    return VersionNotFoundError(f"Table {shown} has no tag {name[:60]!r}. {tags}.", {"table": shown, "tag": name[:200]})


def _taken(table: str, name: str, version: int) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"Table {table} already has a tag {name!r}, of version {version}. Choose another name, or remove the tag with "
        f"CALL <catalog>.system.untag('{table}', '{name}').",
        {"table": table, "tag": name, "version": str(version)},
    )


def lock_row(connection: sa.Connection, table_id: int) -> None:
    """Lock a table's row until the end of the transaction, by an UPDATE that changes nothing."""
    connection.execute(sa.update(tables).where(tables.c.table_id == table_id).values(version=tables.c.version))


def end_expired(connection: sa.Connection, table_id: int) -> list[tuple[int, str]]:
    """Delete the holds whose time is over, and return the others as version and name, by version.

    The caller holds the table's lock. Deleting the rows makes sure that a clock that is set back does not bring a hold
    back whose files vacuum has deleted.
    """
    h = version_holds.c
    connection.execute(sa.delete(version_holds).where(h.table_id == table_id, sa.not_(IN_FORCE)))
    held = sa.select(h.version, h.name).where(h.table_id == table_id).order_by(h.version, h.name)
    return [(row.version, row.name) for row in connection.execute(held)]


def held_versions(connection: sa.Connection, table_id: int, below: int) -> list[int]:
    """Return the held versions of a table below a version, ascending."""
    h = version_holds.c
    statement = sa.select(h.version).where(h.table_id == table_id, h.version < below).distinct().order_by(h.version)
    return list(connection.execute(statement).scalars())
