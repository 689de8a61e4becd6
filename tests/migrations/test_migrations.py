"""The migrations, on each database: up, down, and equal to what the code believes."""

from __future__ import annotations

import ast
import contextlib
import json
from dataclasses import replace
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
from catalog_ext.metastore.commit.lock_settings import LockMode, LockSettings
from catalog_ext.metastore.commit.plan import WriteKind
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.errors import (
    IndexDatabaseError,
    IndexNotAtHeadError,
    IndexUnavailableError,
    VersionExpiredError,
)
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database import migration
from catalog_ext.metastore.index.database.column_types import metadata
from catalog_ext.metastore.index.database.migration import configuration, head_revision, known_revisions
from catalog_ext.metastore.index.database.schema import outbox, partition_sums, transaction_files
from catalog_ext.metastore.index.database.sqlite_file import VERSION_TABLE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.write.outbox import enqueue
from catalog_ext.metastore.messages import AlterTable, PublishedPartition, SyncPartitions
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.descriptors import PartitionDescriptor
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import statistics_to_dict, to_json
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION
from catalog_ext.metastore.model.tables import Column, ColumnStatistics, DataFile
from tests.index_cases import create, data_files, listed_names, planned_names
from tests.servers.databases import migrated
from tests.sums import check_sums
from tests.transaction_cases import begin, finish, plan, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.databases import DatabaseServer

FOLDER = Path(str(catalog_ext.__file__)).parent / "migrations"


_MIGRATE = migration.migrate


@pytest.fixture(autouse=True)
def migrations_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unit tests of the same process copy an index that is migrated."""
    monkeypatch.setattr(migration, "migrate", _MIGRATE)


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


def test_a_filled_index_goes_up_and_down(url: str, engine: sa.Engine) -> None:
    with Index.connect(url) as index:
        index.migrate("0001")
        with engine.begin() as connection:
            for statement in _FILLED_AT_0001:
                connection.exec_driver_sql(statement)
        index.migrate()
        table = index.tables.load(TableIdentifier("s", "t"))
        assert listed_names(index, table) == ["k=a"]
        assert [row["transaction"] for row in index.history.rows(table).read_all().to_pylist()] == [None, None]
        write(index, table, plan(table), "k=a", "k=b")
        begin(index, index.tables.load(table.identifier), plan(table), "k=a")
        assert index.changes.between(table.table_id, 0, 2).read_all().num_rows == 3
        index.migrate("0001")
        with engine.connect() as connection:
            assert connection.execute(sa.text("SELECT version, total_files FROM tables")).one() == (2, 3)
            assert connection.execute(sa.text("SELECT count(*) FROM files")).scalar() == 3
        index.migrate()
        assert sorted(planned_names(index, index.tables.load(table.identifier))) == ["k=a", "k=a", "k=b"]
        assert index.transactions.all() == []


def test_sums_of_a_filled_index_are_right_at_every_version(url: str, engine: sa.Engine) -> None:
    with Index.connect(url) as index:
        index.migrate()
        table = create(index, keys={"k": "string", "n": "int"})
        unpartitioned = create(index, name="u", keys={})
        names = [f"k={k}/n={n}" for k in ("a", "b", DEFAULT_PARTITION) for n in range(3)]
        index.commits.apply_changes(
            table.table_id, [AddPartition(n, data_files(2)) for n in names], operation="x", deliver=False
        )
        uncounted = (DataFile("f", 1, 1, None),)
        changes = [*map(DropPartition, names[:5]), AddPartition("k=a/n=9", uncounted)]
        index.commits.apply_changes(table.table_id, changes, operation="x", deliver=False)
        write(index, index.tables.load(table.identifier), plan(table), "k=b/n=2", "k=c/n=0")
        index.commits.apply_changes(unpartitioned.table_id, [AddPartition("", uncounted)], operation="x", deliver=False)
        with engine.connect() as connection:
            before = sorted(connection.execute(sa.select(partition_sums)).all())
            check_sums(connection)
        index.migrate("0011")
        index.migrate()
        with engine.connect() as connection:
            check_sums(connection)
            assert sorted(connection.execute(sa.select(partition_sums)).all()) == before
        index.versions.expire(table.table_id, 3)
        with engine.connect() as connection:
            check_sums(connection)
            kept = connection.execute(sa.select(sa.func.count()).select_from(partition_sums)).scalar_one()
        # One of all partitions, one each for b, c and NULL and the new one of a; of the other table two.
        assert kept == 6


def test_partitions_that_are_not_read_as_their_table_hold_a_downgrade(url: str) -> None:
    with Index.connect(url) as index:
        index.migrate("0015")
        index.migrate()
        table = create(index, keys={"k": "string"})
        assert not table.has_descriptors
        own = PartitionDescriptor("orc", {}, (Column("x", "int"),), {"columns": []})
        changes = [AddPartition("k=a", data_files(1), descriptor=own), AddPartition("k=b", data_files(1))]
        index.commits.apply_changes(table.table_id, changes, operation="x", deliver=False)
        with pytest.raises(RuntimeError, match="1 partitions of the index are not read as their tables"):
            index.migrate("0015")
        assert index.descriptors.of_table(index.tables.load(table.identifier)) == {1: own}
        index.commits.apply_changes(table.table_id, [DropPartition("k=a")], operation="x", deliver=False)
        index.migrate("0015")
        index.migrate()
        assert listed_names(index, index.tables.load(table.identifier)) == ["k=b"]


def test_what_the_release_before_would_misread_holds_a_downgrade(url: str, engine: sa.Engine) -> None:
    """It would delete the files that a LOAD DATA has not moved yet, leave locks, and publish ways to read as none."""
    with Index.connect(url) as index:
        index.migrate()
        table = create(index, keys={"k": "string"})
        for more in ({"moves_user_files": True}, {"hive_locks": LockSettings(LockMode.SHARED)}):
            made = begin(index, index.tables.load(table.identifier), plan(table, **more), "k=a")
            with pytest.raises(RuntimeError, match="1 writes of the index are not ended"):
                index.migrate("0015")
            finish(index, made)
            with pytest.raises(RuntimeError, match="1 writes of the index are not ended"):
                index.migrate("0015")
            index.transactions.finish(made.transaction_id)
        own = PartitionDescriptor("orc", {}, (Column("x", "int"),), {"columns": []})
        # The property has a field's name, but is a property.
        of_old = replace(table.definition, properties={"descriptor": "kept"})
        published = PublishedPartition("k=a", None)
        for message in (
            SyncPartitions(table.identifier, (replace(published, descriptor=own.to_dict()),)),
            SyncPartitions(table.identifier, (), (replace(published, descriptor={}),)),
            AlterTable(of_old, rebuild=True, kept=(own.to_dict(),)),
            AlterTable(of_old, settings={"a": "b"}),
        ):
            with engine.begin() as connection:
                enqueue(connection, message)
            with pytest.raises(RuntimeError, match="1 messages of the outbox"):
                index.migrate("0015")
            with engine.begin() as connection:
                connection.execute(sa.delete(outbox))
        with engine.begin() as connection:
            enqueue(connection, SyncPartitions(table.identifier, (published,)))
            enqueue(connection, AlterTable(of_old, rebuild=True))
        for more in ({}, {"hive_locks": LockSettings(wait_s=1.0)}):
            begin(index, index.tables.load(table.identifier), plan(table, **more), "k=a")
        index.migrate("0015")


def test_writes_that_record_etags_hold_a_downgrade(url: str) -> None:
    """The release before would end the clean-up of each with an error."""
    with Index.connect(url) as index:
        index.migrate()
        table = create(index, keys={"k": "string"})
        there = DataFile("f", 1, 1, etag=7)
        index.commits.apply_changes(table.table_id, [AddPartition("k=a", (there,))], operation="x", deliver=False)
        for more in ({}, {"unknown": {"k=a": (Removal("g", 1, 1, 7),)}}):
            overwrite = plan(table, WriteKind.OVERWRITE_PARTITIONS, **more)
            made = begin(index, index.tables.load(table.identifier), overwrite, "k=a")
            finish(index, made)
            with pytest.raises(RuntimeError, match="1 writes of the index are not ended that record ETags"):
                index.migrate("0019")
            index.transactions.finish(made.transaction_id)
        index.migrate("0019")


def test_versions_with_partition_descriptors_are_removed_by_a_downgrade(url: str) -> None:
    with Index.connect(url) as index:
        index.migrate()
        table = create(index, keys={"k": "string"})
        own = PartitionDescriptor("orc", {}, (Column("x", "int"),), {"columns": []})
        for changes in (
            [AddPartition("k=a", data_files(1), descriptor=own)],
            [AddPartition("k=b", data_files(1))],
            [DropPartition("k=a")],
            [AddPartition("k=c", data_files(1))],
        ):
            index.commits.apply_changes(table.table_id, changes, operation="x", deliver=False)
        index.migrate("0015")
        index.migrate()
        now = index.tables.load(table.identifier)
        assert [listed_names(index, replace(now, version=version)) for version in (3, 4)] == [["k=b"], ["k=b", "k=c"]]
        with pytest.raises(VersionExpiredError):
            listed_names(index, replace(now, version=2))


def test_doubtful_statistics_of_older_releases_are_forgotten(url: str, engine: sa.Engine) -> None:
    """Footers of other writers were believed, and ORC files without column statistics taken for all NULL."""
    name = f"part-00000-{'0a' * 16}-a0-c000.snappy"
    nulls, some = ColumnStatistics(nulls=3), ColumnStatistics("1", "2", 0)
    recorded = {
        f"{name}.orc": {"x": nulls, "y": some},
        f"{name.replace('c000', 'c001')}.orc": {"x": nulls, "y": nulls},
        f"{name}.parquet": {"x": nulls},
        "part-00000-11111111-2222-3333-4444-555555555555-c000.snappy.parquet": {"y": some},
        "a.orc": {"x": nulls},
        "é.parquet": {"x": some},
    }
    with Index.connect(url) as index:
        index.migrate()
        table = create(index, keys={"k": "string"})
        files = tuple(DataFile(path, 1, 1, 3, found) for path, found in recorded.items())
        index.commits.apply_changes(table.table_id, [AddPartition("k=a", files)], operation="x", deliver=False)
        staged = {"partition": "k=a", "name": f"{name}.orc", "rows": 3, "statistics": statistics_to_dict({"x": nulls})}
        with engine.begin() as connection:
            row = {"transaction_id": "0" * 32, "number": 0, "removal": 0, "n_files": 1, "payload": to_json([staged])}
            connection.execute(sa.insert(transaction_files), row)
        index.migrate("0016")
        index.migrate()
        now = index.tables.load(table.identifier)
        found = index.metadata_rows.files(now, None).read_all().to_pylist()
        known = {file["path"].rpartition("/")[2]: json.loads(file["statistics"] or "{}") for file in found}
        assert {path: columns for path, columns in known.items() if columns} == {
            f"{name}.orc": statistics_to_dict({"y": some}),
            f"{name}.parquet": statistics_to_dict({"x": nulls}),
        }
        assert [file["rows"] for file in found] == [3] * len(files)
        unmeasured = index.files.plan(now, None, unmeasured=True).read_all().column("path").to_pylist()
        assert sorted(unmeasured) == sorted(set(recorded) - {f"{name}.orc", f"{name}.parquet"})
        with engine.connect() as connection:
            payload = connection.execute(sa.select(transaction_files.c.payload)).scalar_one()
        assert json.loads(payload) == [{**staged, "statistics": {}}]


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_an_index_that_other_tests_copy_is_as_the_migrations_make_it(request: pytest.FixtureRequest, kind: str) -> None:
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
    """What is done is done, and nothing of ours runs after it."""


def interrupt_everywhere(engine: sa.Engine, run: Callable[[], object]) -> set[str]:
    """Run something that ends after each of its statements, once, and is started again; return those statements."""
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
    """The content of a database, as it describes it."""
    inspector = sa.inspect(engine)
    looks = (
        inspector.get_columns, inspector.get_pk_constraint, inspector.get_unique_constraints,
        inspector.get_foreign_keys, lambda name: [(i["name"], i["column_names"]) for i in inspector.get_indexes(name)],
    )  # fmt: skip
    return {name: [repr(look(name)) for look in looks] for name in inspector.get_table_names()}


def test_a_migration_that_was_interrupted_is_run_again(url: str, engine: sa.Engine) -> None:
    with Index.connect(url) as index:
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


def test_an_upgrade_that_was_interrupted_is_run_again(mariadb_url: str) -> None:
    """From where each downgrade has led to."""
    engine = sa.create_engine(mariadb_url)
    with Index.connect(mariadb_url) as index:
        index.migrate()
        for start, end in reversed([*pairwise(known_revisions())]):
            expected = described(engine)
            index.migrate(start)
            interrupt_everywhere(index._database.engine, partial(index.migrate, end))
            assert (index.migrate(end), described(engine)) == ((end, end), expected)
            index.migrate(start)
    engine.dispose()


def test_table_of_another_application_is_not_taken_for_ours(url: str, engine: sa.Engine) -> None:
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


_FILLED_AT_0001 = (
    "INSERT INTO namespaces (namespace_id, name, properties, created_at_ms) VALUES (1, 's', '{}', 0)",
    "INSERT INTO tables VALUES (1, 1, 't', 'EXTERNAL', 'parquet', 'file:///t', '[]',"
    """ '[{"name":"k","type":"string","nullable":true,"comment":null}]', '{}', '{}', NULL, '', 0,"""
    " 1, 1, 1, 5, 0, 1, 1, 1, 0)",
    "INSERT INTO table_versions VALUES (1, 0, 'create', 0, '{}')",
    "INSERT INTO table_versions VALUES (1, 1, 'repair', 0, '{}')",
    f"INSERT INTO partitions VALUES ({1 << 40}, 1, {2**63 - 1}, 1, 'k=a', '{name_hash('k=a')}', 'a',"
    " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, 1, 5, NULL, 0)",
    f"INSERT INTO files VALUES ({1 << 40}, 0, 1, {2**63 - 1}, 'f', 5, 0, NULL)",
)
"""What release 0.1 had after one partition was found."""


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


def test_a_database_that_is_not_at_head_names_the_command(postgres_url: str, mariadb_url: str, tmp_path: Path) -> None:
    for url in (postgres_url, mariadb_url, f"sqlite:///{tmp_path}/index.db"):
        password = sa.make_url(url).password
        with pytest.raises(IndexNotAtHeadError, match=r"holds no index yet.*catalog-ext --index .* init") as raised:
            Index.open(url, migrate=False)
        assert password is None or password not in str(raised.value)


def test_servers_are_not_migrated_unasked(postgres_url: str) -> None:
    with pytest.raises(IndexNotAtHeadError):
        Index.open(postgres_url)


def test_a_newer_database_has_its_own_message(url: str, engine: sa.Engine) -> None:
    Index.open(url, migrate=True).close()
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    for migrate in (None, True, False):
        with pytest.raises(IndexNotAtHeadError, match=r"revision 9999, which this release.*Upgrade catalog-ext"):
            Index.open(url, migrate=migrate)


def test_an_unknown_revision_is_refused(tmp_path: Path) -> None:
    with Index.open(str(tmp_path / "index.db")) as index, pytest.raises(IndexNotAtHeadError, match="'nope' is not"):
        index.migrate("nope")


def test_migrations_import_nothing_of_ours() -> None:
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
