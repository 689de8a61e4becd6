"""The migrations on each database: up, down, interrupted, at once, and equal to the tables of the code.

A pretend revision (``tests/kit/next_revision.py``) stands for the one of the next release.
"""

from __future__ import annotations

import ast
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

import catalog_ext
from catalog_ext.metastore.errors import IndexDatabaseError, IndexNotAtHeadError, IndexUnavailableError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database import migration
from catalog_ext.metastore.index.database.column_types import metadata
from catalog_ext.metastore.index.database.migration import configuration, head_revision, known_revisions
from catalog_ext.metastore.index.database.sqlite_file import VERSION_TABLE
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from tests.kit.index_cases import create, data_files, listed_names, planned_names
from tests.kit.next_revision import migrations_run, next_release
from tests.kit.transaction_cases import begin, finish, plan, write
from tests.servers.databases import migrated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.databases import DatabaseServer

FOLDER = Path(str(catalog_ext.__file__)).parent / "migrations"


_TABLE = TableIdentifier("s", "t")


@pytest.fixture(autouse=True)
def _migrations_run() -> Iterator[None]:
    with migrations_run():
        yield


@pytest.fixture(params=("sqlite", "postgres", "mariadb"))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/index.db"
    fixture: str = request.getfixturevalue(f"{request.param}_url")
    return fixture


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url)
    yield engine
    engine.dispose()


def test_up_down_and_up_again(url: str, engine: sa.Engine) -> None:
    with Index.connect(url) as index:
        assert index.current_revision() is None
        assert index.migrate() == (None, head_revision())
        assert index.migrate() == (head_revision(), head_revision())
        table = create(index, keys={"k": "string"})
        index.commits.apply_changes(table.table_id, [AddPartition("k=a", data_files(1))], operation="x", deliver=True)
        assert index.migrate("base") == (head_revision(), None)
        assert set(sa.inspect(engine).get_table_names()) <= {VERSION_TABLE}
        assert index.migrate() == (None, head_revision())
        assert listed_names(index, create(index, keys={"k": "string"})) == []


def test_upgrade_converts_a_filled_index_and_downgrade_keeps_it(url: str, engine: sa.Engine) -> None:
    with Index.connect(url) as index:
        _fill(index)
        before = described(engine)
        with next_release() as newer:
            assert index.migrate() == (known_revisions()[-2], newer)
            with engine.connect() as connection:
                assert connection.execute(sa.text("SELECT pretend_files FROM tables")).scalars().all() == [2]
                assert connection.execute(sa.text("SELECT count(*) FROM pretend_notes")).scalar() == 1
            _use(index)
            assert index.migrate(known_revisions()[-2]) == (newer, known_revisions()[-2])
        assert described(engine) == before
        _use(index)


def test_downgrade_that_would_lose_rows_is_refused_and_changes_nothing(url: str, engine: sa.Engine) -> None:
    with Index.connect(url) as index, next_release() as newer:
        index.migrate()
        create(index, keys={"k": "string"})
        with engine.begin() as connection:
            connection.exec_driver_sql("INSERT INTO pretend_notes (table_id, kept) VALUES (9, 1)")
        before = described(engine)
        for target in (known_revisions()[-2], "base"):
            with pytest.raises(RuntimeError, match="1 notes of the index would be lost"):
                index.migrate(target)
            assert (index.current_revision(), described(engine)) == (newer, before)
        with engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM pretend_notes")
        index.migrate("base")
        assert set(described(engine)) <= {VERSION_TABLE}


def test_older_release_refuses_the_index_that_a_newer_one_migrated(url: str) -> None:
    with Index.connect(url) as index:
        _fill(index)
        table = index.tables.load(_TABLE)
        with next_release() as newer:
            index.migrate()
        with pytest.raises(IndexNotAtHeadError, match=f"migrated to revision {newer} after this process had opened it"):
            write(index, table, plan(table), "k=z")
        for change in (index.migrate, partial(index.migrate, "base")):
            with pytest.raises(IndexNotAtHeadError, match=f"revision {newer}, which this release.*Upgrade catalog-ext"):
                change()
    with pytest.raises(IndexNotAtHeadError, match=f"revision {newer}, which this release.*Upgrade catalog-ext"):
        Index.open(url)


def test_newer_release_migrates_a_file_and_names_the_command_for_a_server(url: str) -> None:
    with Index.open(url, migrate=True) as index:
        _fill(index)
    with next_release() as newer:
        behind = rf"is at revision {known_revisions()[-2]}; this release wants {newer}. Run: .* migrate"
        with pytest.raises(IndexNotAtHeadError, match=behind):
            Index.open(url, migrate=False)
        if url.startswith("sqlite"):
            Index.open(url).close()
        else:
            with pytest.raises(IndexNotAtHeadError, match=behind):
                Index.open(url)
        with Index.open(url, migrate=True) as index:
            assert index.current_revision() == newer
            _use(index)


def test_two_upgrades_at_once_run_one_after_the_other(url: str, engine: sa.Engine) -> None:
    with Index.connect(url) as first, Index.connect(url) as second:
        _fill(first)
        old = head_revision()
        with next_release() as newer, ThreadPoolExecutor(2) as threads:
            found = sorted(threads.map(lambda index: index.migrate(), (first, second)), key=repr)
            assert found == [(old, newer), (newer, newer)]
            with engine.connect() as connection:
                assert connection.execute(sa.text("SELECT count(*) FROM pretend_notes")).scalar() == 1
            _use(second)


def test_upgrade_waits_for_the_commit_of_another_one(
    url: str, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On MariaDB the lock is a session's: the revision has to be committed before it is released."""
    unlock = migration._unlock

    def unlock_and_pause(connection: sa.Connection) -> None:
        unlock(connection)
        time.sleep(0.5)

    monkeypatch.setattr(migration, "_unlock", unlock_and_pause)
    with Index.connect(url) as first, Index.connect(url) as second:
        _fill(first)
        old = head_revision()
        with next_release() as newer, ThreadPoolExecutor(2) as threads:
            found = sorted(threads.map(lambda index: index.migrate(), (first, second)), key=repr)
            assert found == [(old, newer), (newer, newer)]
            with engine.connect() as connection:
                assert connection.execute(sa.text("SELECT count(*) FROM pretend_notes")).scalar() == 1


def _fill(index: Index) -> None:
    """Make an index with a table of two partitions, one of which a transaction wrote."""
    index.migrate()
    table = create(index, keys={"k": "string"})
    assert table.identifier == _TABLE
    index.commits.apply_changes(table.table_id, [AddPartition("k=a", data_files(1))], operation="repair", deliver=False)
    write(index, index.tables.load(_TABLE), plan(table), "k=b")


def _use(index: Index) -> None:
    """Read all rows that ``_fill`` made, and end a write."""
    table = index.tables.load(_TABLE)
    assert {"k=a", "k=b"} <= set(listed_names(index, table))
    files = len(planned_names(index, table))
    finish(index, begin(index, table, plan(table), "k=a"))
    assert len(planned_names(index, index.tables.load(_TABLE))) == files + 1
    assert index.changes.between(table.table_id, 0, 2).read_all().num_rows == 2


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_copied_index_of_the_tests_equals_a_migrated_one(request: pytest.FixtureRequest, kind: str) -> None:
    server: DatabaseServer = request.getfixturevalue(f"{kind}_server")
    found = []
    for url in (migrated(server.create_database()), server.create_index()):
        engine = sa.create_engine(url)
        with Index.open(url) as index:
            found.append((described(engine), index.current_revision()))
        engine.dispose()
        server.drop_database(url)
    assert found[0] == found[1]


class Interrupted(Exception):
    """The process ended after a statement."""


def interrupt_everywhere(engine: sa.Engine, run: Callable[[], object]) -> set[str]:
    """Run something again and again, each time until one statement later; return the statements that it ended after."""
    ended: set[str] = set()

    def end(_c: object, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        this = f"{statement.strip()} {parameters}"
        if this not in ended and not this.startswith(("SELECT", "SHOW", "DESCRIBE", "PRAGMA")):
            ended.add(this)
            raise Interrupted

    sa.event.listen(engine, "after_cursor_execute", end)
    try:
        while True:
            with contextlib.suppress(Interrupted):
                run()
                return ended
    finally:
        sa.event.remove(engine, "after_cursor_execute", end)


def described(engine: sa.Engine) -> dict[str, list[str]]:
    """Return the columns, constraints and indexes of a database by table."""
    inspector = sa.inspect(engine)
    looks = (
        inspector.get_columns, inspector.get_pk_constraint, inspector.get_unique_constraints,
        inspector.get_foreign_keys, lambda name: [(i["name"], i["column_names"]) for i in inspector.get_indexes(name)],
    )  # fmt: skip
    return {name: [repr(look(name)) for look in looks] for name in inspector.get_table_names()}


def test_interrupted_migration_is_run_again(url: str, engine: sa.Engine) -> None:
    with Index.connect(url) as index, next_release():
        index.migrate()
        expected = described(engine)
        index.migrate("base")
        ended = interrupt_everywhere(index._database.engine, index.migrate)
        assert len(ended) > len(expected) + len(known_revisions())
        assert described(engine) == expected
        assert index.current_revision() == head_revision()
        table = create(index, keys={"k": "string"})
        index.commits.apply_changes(table.table_id, [AddPartition("k=a", data_files(1))], operation="x", deliver=True)
        assert interrupt_everywhere(index._database.engine, lambda: index.migrate("base"))
        assert set(described(engine)) <= {VERSION_TABLE}
        index.migrate()
        assert described(engine) == expected


def test_interrupted_upgrade_of_a_filled_index_is_run_again(url: str, engine: sa.Engine) -> None:
    """Also from the state that a downgrade left, which on MariaDB may have other remains than a new index."""
    with Index.connect(url) as index:
        _fill(index)
        with next_release():
            index.migrate()
            for start, end in reversed([*pairwise(known_revisions())]):
                expected = described(engine)
                index.migrate(start)
                interrupt_everywhere(index._database.engine, partial(index.migrate, end))
                assert (index.migrate(end), described(engine)) == ((end, end), expected)
                _use(index)
                index.migrate(start)


def test_failed_upgrade_leaves_the_index_to_the_release_before(url: str, engine: sa.Engine) -> None:
    with Index.connect(url) as index:
        _fill(index)
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE pretend_notes (car INT)")
        before = described(engine)
        with next_release(), pytest.raises(IndexDatabaseError, match=r"refused a statement: .*pretend_notes.*exists"):
            index.migrate()
        assert (index.current_revision(), described(engine)) == (head_revision(), before)
        _use(index)


def test_table_of_another_program_is_not_taken_for_one_of_the_index(url: str, engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE repairs (car INT)")
    with (
        Index.connect(url) as index,
        pytest.raises(IndexDatabaseError, match=r"refused a statement: .*repairs.*exists"),
    ):
        index.migrate()
    assert [column["name"] for column in sa.inspect(engine).get_columns("repairs")] == ["car"]


def test_two_migrations_do_not_run_at_once(mariadb_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "_LOCK_TIMEOUT_S", 0)
    engine = sa.create_engine(mariadb_url)
    with engine.connect() as other, Index.connect(mariadb_url) as index:
        other.exec_driver_sql("SELECT GET_LOCK('catalog_ext_migrate', 0)")
        with pytest.raises(IndexUnavailableError, match="is being migrated by another process"):
            index.migrate()
    engine.dispose()


def test_the_migrated_schema_is_the_one_of_the_code(url: str, engine: sa.Engine) -> None:
    with Index.open(url, migrate=True), engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []
        assert _constraint_names(connection) == _expected_constraint_names()
        names = {index["name"] for table in metadata.tables for index in sa.inspect(connection).get_indexes(table)}
        assert {str(index.name) for table in metadata.tables.values() for index in table.indexes} <= names


def _constraint_names(connection: sa.Connection) -> set[str]:
    inspector = sa.inspect(connection)
    found = set()
    for table in metadata.tables:
        found |= {str(c["name"]) for c in inspector.get_unique_constraints(table)}
        found |= {str(c["name"]) for c in inspector.get_foreign_keys(table)}
        found.add(str(inspector.get_pk_constraint(table)["name"]))
    # MariaDB calls every primary key PRIMARY, and says so by giving no name.
    return {name for name in found if not name.startswith("pk_")} - {"None", "PRIMARY"}


def _expected_constraint_names() -> set[str]:
    constraints = (c for table in metadata.tables.values() for c in table.constraints)
    return {str(c.name) for c in constraints if isinstance(c, sa.UniqueConstraint | sa.ForeignKeyConstraint)}


def test_database_without_an_index_names_the_command(postgres_url: str, mariadb_url: str, tmp_path: Path) -> None:
    for url in (postgres_url, mariadb_url, f"sqlite:///{tmp_path}/index.db"):
        password = sa.make_url(url).password
        with pytest.raises(IndexNotAtHeadError, match=r"holds no index yet.*catalog-ext --index .* init") as raised:
            Index.open(url, migrate=False)
        assert password is None or password not in str(raised.value)


def test_server_is_migrated_by_command_only(postgres_url: str) -> None:
    with pytest.raises(IndexNotAtHeadError):
        Index.open(postgres_url)


def test_index_of_unknown_revision_is_refused(url: str, engine: sa.Engine) -> None:
    Index.open(url, migrate=True).close()
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    for migrate in (None, True, False):
        with pytest.raises(IndexNotAtHeadError, match=r"revision 9999, which this release.*Upgrade catalog-ext"):
            Index.open(url, migrate=migrate)


def test_index_made_before_the_first_release_is_refused(url: str, engine: sa.Engine) -> None:
    """Revision 0001 was changed in place until then: an index that claims it may lack tables."""
    with Index.open(url, migrate=True) as index:
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE table_definitions")
        opens = [partial(Index.open, url, migrate=migrate) for migrate in (None, True, False)]
        for refused in (*opens, index.migrate):
            with pytest.raises(IndexNotAtHeadError, match=r"no table table_definitions.*Make the index again.* init"):
                refused()


def test_unknown_target_revision_is_refused(tmp_path: Path) -> None:
    with Index.open(str(tmp_path / "index.db")) as index, pytest.raises(IndexNotAtHeadError, match="'nope' is not"):
        index.migrate("nope")


def test_migrations_import_no_module_of_this_project() -> None:
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [m for m in modules if m.split(".")[0] in ("metastore", "catalog_ext")], path


def test_files_are_named_after_their_revisions() -> None:
    scripts = ScriptDirectory.from_config(configuration()).walk_revisions()
    assert tuple(script.revision for script in scripts)[::-1] == known_revisions()


def test_the_folder_is_found_beside_the_package() -> None:
    folder = Path(str(configuration().get_main_option("script_location")))
    assert folder == FOLDER
    assert {"__init__.py", "env.py", "script.py.mako"} <= {path.name for path in folder.iterdir()}
