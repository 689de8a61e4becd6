"""Migrates an index database to the schema of this release."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.errors import IndexNotAtHeadError, IndexUnavailableError
from catalog_ext.metastore.index.database.sqlite_file import VERSION_TABLE

if TYPE_CHECKING:
    from alembic.config import Config

    from catalog_ext.metastore.index.database.database import Database

_MIGRATIONS = Path(__file__).parents[3] / "migrations"
_LOCK = 0x6361745F657874
_LOCK_TIMEOUT_S = 60
_revisions = sa.Table(VERSION_TABLE, sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))


def configuration() -> Config:
    """Return Alembic's configuration for the shipped migrations."""
    # Imported here and not at the top of the module: nearly every process finds the schema current and needs no
    # Alembic.
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["version_table"] = VERSION_TABLE
    return config


def head_revision() -> str:
    """Return the newest schema revision, which this release needs."""
    return known_revisions()[-1]


@cache
def known_revisions() -> tuple[str, ...]:
    """Return the schema revisions of this release, oldest first; cached, since each opened index needs them.

    The revisions are numbered, and each file name begins with its revision, so no migration file has to be imported.
    """
    order = tuple(sorted(file.name.partition("_")[0] for file in (_MIGRATIONS / "versions").glob("[0-9]*_*.py")))
    if not order:
        raise IndexNotAtHeadError("This installation of catalog-ext has no migrations. Install it again.")
    return order


def current_revision(database: Database) -> str | None:
    """Return the schema revision of the database; None if it contains no index."""
    with database.reading() as connection:
        return _revision(connection)


def revision_column() -> sa.ScalarSelect[str]:
    """Return a scalar subquery for the schema revision, to be added as a column to a query on the index."""
    return sa.select(sa.func.max(_revisions.c.version_num)).scalar_subquery()


def require_same(revision: str | None) -> None:
    """Check that a revision that ``revision_column`` read is the one of this release.

    Raises:
        IndexNotAtHeadError: Another process has migrated the index since this process opened it.
    """
    newest_known = head_revision()
    if revision != newest_known:
        raise IndexNotAtHeadError(
            f"The index was migrated to revision {revision} after this process had opened it, and this release knows "
            f"{newest_known}: it cannot write what the newer release needs. Nothing was done. Start the process again "
            "with the newer release.",
            {"revision": revision or "", "head": newest_known},
        )


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    revision: str | None = connection.execute(sa.select(_revisions.c.version_num)).scalar()
    return revision


def migrate(database: Database, revision: str = "head") -> tuple[str | None, str | None]:
    """Migrate the database, and return its revisions before and after.

    After an interruption, run it again: PostgreSQL and SQLite have changed nothing, MySQL and MariaDB resume.

    Args:
        database: The database.
        revision: ``head``, a known revision, or ``base``, which removes the index.

    Raises:
        IndexNotAtHeadError: The database is newer than this release, or the revision is unknown.
        IndexUnavailableError: Another process is migrating the database, or it cannot be reached.
    """
    order = known_revisions()
    target = {"head": order[-1], "base": None}.get(revision, revision)
    if target is not None and target not in order:
        known = ", ".join(order)
        raise IndexNotAtHeadError(f"{revision!r} is not a revision of the index. The revisions are: {known}.")

    def work(connection: sa.Connection) -> tuple[str | None, str | None]:
        _lock(connection, database)
        try:
            before = _revision(connection)
            _refuse_newer(before, order, database)
            if target is not None:
                _refuse_draft(connection, before, database)
            _run(connection, before, target, order)
            after = _revision(connection)
            _commit_before_unlock(connection)
            return before, after
        finally:
            _unlock(connection)

    return database.write(work)


def _run(connection: sa.Connection, before: str | None, target: str | None, order: tuple[str, ...]) -> None:
    from alembic import command

    from catalog_ext.metastore.index.database.repeatable_ddl import make_repeatable

    config = configuration()
    config.attributes["connection"] = connection
    config.attributes["prepare"] = make_repeatable
    position: dict[str | None, int] = {revision: i for i, revision in enumerate([None, *order])}
    if position[target] > position[before]:
        command.upgrade(config, str(target))
    elif position[target] < position[before]:
        _check_downgrade(connection, config, order[position[target] : position[before]])
        command.downgrade(config, target or "base")


def _check_downgrade(connection: sa.Connection, config: Config, revisions: tuple[str, ...]) -> None:
    """Check that every revision of a downgrade can be reverted, before the first is: MariaDB cannot roll back DDL."""
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(config)
    for revision in reversed(revisions):
        check = getattr(scripts.get_revision(revision).module, "check_downgrade", None)
        if check is not None:
            check(connection)


def _refuse_newer(revision: str | None, known_revisions: tuple[str, ...], database: Database) -> None:
    if revision is not None and revision not in known_revisions:
        raise IndexNotAtHeadError(
            f"The index {database.shown} is at revision {revision}, which this release of catalog-ext does not know "
            f"(its newest is {known_revisions[-1]}). Upgrade catalog-ext.",
            {"index": database.shown, "revision": revision},
        )


_NEWEST_OF_FIRST = "table_definitions"
"""The table of revision 0001 that was added to it last. Before the first release, 0001 was changed in place."""


def _refuse_draft(connection: sa.Connection, revision: str | None, database: Database) -> None:
    """Check that the index was not made by an earlier form of revision 0001, whose tables are not those of today.

    Raises:
        IndexNotAtHeadError: The index was made before the first release.
    """
    if revision is not None and not sa.inspect(connection).has_table(_NEWEST_OF_FIRST):
        raise IndexNotAtHeadError(
            f"The index {database.shown} was made before the first release of catalog-ext: it is at revision "
            f"{revision}, has no table {_NEWEST_OF_FIRST}, and cannot be migrated. Nothing was done. Make the index "
            "again: remove its tables (SQLite: the file), run "
            f"catalog-ext --index '{database.shown}' init, and register or import the tables; their files stay.",
            {"index": database.shown, "revision": revision},
        )


def is_at_head(database: Database) -> bool:
    """Return whether the database is at the schema revision of this release.

    Raises:
        IndexNotAtHeadError: The database was made before the first release, by an earlier form of the revision.
    """
    with database.reading() as connection:
        current = _revision(connection)
        is_current = current == head_revision()
        if is_current:
            _refuse_draft(connection, current, database)
    return is_current


def require_head(database: Database) -> None:
    """Check that the database is at the schema revision of this release.

    Raises:
        IndexNotAtHeadError: The database is older (the message names the command to migrate it), newer, or was made
            before the first release.
    """
    with database.reading() as connection:
        current, order = _revision(connection), known_revisions()
        _refuse_newer(current, order, database)
        _refuse_draft(connection, current, database)
    if current != order[-1]:
        state = "holds no index yet" if current is None else f"is at revision {current}; this release wants {order[-1]}"
        command = "init" if current is None else "migrate"
        raise IndexNotAtHeadError(
            f"The index {database.shown} {state}. Run: catalog-ext --index '{database.shown}' {command}",
            {"index": database.shown, "revision": current or "", "head": order[-1]},
        )


def _lock(connection: sa.Connection, database: Database) -> None:
    # SQLite's transaction is the lock. On the other databases two processes could create the same tables at the same
    # time, so they take an explicit lock.
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    elif connection.dialect.name in ("mysql", "mariadb"):
        got = connection.execute(sa.text("SELECT GET_LOCK('catalog_ext_migrate', :s)"), {"s": _LOCK_TIMEOUT_S}).scalar()
        if not got:
            raise IndexUnavailableError(
                f"The index {database.shown} is being migrated by another process, which has not ended for "
                f"{_LOCK_TIMEOUT_S} s. Nothing was done. Run the command again when it has.",
                {"index": database.shown},
            )


def _commit_before_unlock(connection: sa.Connection) -> None:
    # The lock of MySQL and MariaDB belongs to the session, not to the transaction. If it were released before the
    # commit, another process could read the old revision and run the same migration again.
    if connection.dialect.name in ("mysql", "mariadb"):
        connection.exec_driver_sql("COMMIT")


def _unlock(connection: sa.Connection) -> None:
    # A broken connection has lost its lock already; RELEASE_LOCK would raise a second error that hides the first.
    if connection.dialect.name in ("mysql", "mariadb") and not connection.invalidated:
        connection.execute(sa.text("SELECT RELEASE_LOCK('catalog_ext_migrate')"))
