"""A command that reads makes nothing: no index, no metastore, no folder; and no JVM is started without need."""

from __future__ import annotations

import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from catalog_ext.catalog import connect
from catalog_ext.conf.resolved import Settings
from catalog_ext.identity.home import open_at_home
from catalog_ext.metastore.errors import MetastoreUnavailableError
from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.runtime.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

_READING = [
    ("tables",),
    ("describe", "s.t"),
    ("partitions", "s.t"),
    ("files", "s.t"),
    ("history", "s.t"),
    ("status",),
    ("outbox",),
    ("repair", "s.t"),
    ("recover", "--dry-run"),
    ("vacuum", "s.t", "--dry-run"),
    ("drift",),
    ("publish", "--all", "--dry-run"),
    ("export", "--sql"),
    ("drop-partitions", "s.t", "-p", "k=1"),
    ("migrate",),
    ("migrate", "--check"),
    ("follow", "--once"),
    ("adopt", "--dry-run"),
]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes every start of the embedded metastore, of which none succeeds."""
    noted: list[str] = []

    def start(server: EmbeddedMetastore) -> None:
        noted.append(str(server.directory))

    def uri(server: EmbeddedMetastore, timeout: float = 0) -> str:
        raise MetastoreUnavailableError("It does not start in this test.")

    monkeypatch.setattr(EmbeddedMetastore, "start_in_background", start)
    monkeypatch.setattr(EmbeddedMetastore, "uri", uri)
    return noted


def _everything(folder: Path) -> list[tuple[str, bytes]]:
    return sorted((str(p), p.read_bytes() if p.is_file() else b"") for p in folder.rglob("*"))


@pytest.mark.parametrize("command", _READING, ids=" ".join)
@pytest.mark.parametrize("index", [None, "nope/dir/index.db", "sqlite:///nope.db"])
def test_where_there_is_no_index(run: Run, tmp_path: Path, index: str | None, command: tuple[str, ...]) -> None:
    code, _, err = run(*(() if index is None else ("--index", index)), "--metastore", "thrift://127.0.0.1:9", *command)
    assert (code, "catalog-ext init makes one" in err) == (2, True), err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [*_READING, ("init",), ("register", "s.t", "x")], ids=" ".join)
def test_the_database_of_another_program_is_left_alone(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    with sqlite3.connect(tmp_path / "app.db") as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = _everything(tmp_path)
    code, _, err = run("--index", "app.db", "--metastore", "thrift://127.0.0.1:9", *command)
    assert (code, "has other tables, and no index of catalog-ext" in err) == (2, True), err
    assert _everything(tmp_path) == before


def test_an_empty_file_is_no_index_and_may_become_one(run: Run, tmp_path: Path) -> None:
    (tmp_path / "i.db").touch()
    assert run("--index", "i.db", "tables")[0] == 2
    assert (tmp_path / "i.db").stat().st_size == 0
    assert run("--index", "i.db", "--metastore", "none", "init")[0] == 0
    assert run("--index", "i.db", "tables")[0] == 0


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("lake/.catalog-ext/indx.db", "lake/.catalog-ext/index.db"),
        ("lkae/.catalog-ext/index.db", "lake/.catalog-ext/index.db"),
        ("lake", "lake/.catalog-ext/index.db"),
        ("lake/index.db", "lake/.catalog-ext/index.db"),
        ("sqlite:///othr.db", "other.db"),
    ],
)
def test_the_nearest_index_is_named(run: Run, tmp_path: Path, mistyped: str, meant: str) -> None:
    for index in ("lake/.catalog-ext/index.db", "other.db"):
        assert run("--index", index, "--metastore", "none", "init")[0] == 0
    before = _everything(tmp_path)
    code, _, err = run("--index", mistyped, "tables")
    if mistyped != "lake":  # a folder is no index that can be opened
        assert (code, f"Did you mean --index {meant}?" in err) == (2, True), err
    assert _everything(tmp_path) == before


def test_the_index_of_a_folder_above_is_near(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("--metastore", "none", "init")[0] == 0
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert f"Did you mean --index {tmp_path / '.catalog-ext/index.db'}?" in run("tables")[2]


@pytest.fixture
def table(tmp_path: Path, run: Run) -> Path:
    """A table in sync, in an index that belongs to the embedded metastore, which is not started yet."""
    (tmp_path / "t" / "k=1").mkdir(parents=True)
    (tmp_path / "t" / "k=1" / "a.parquet").write_bytes(b"x")
    assert run("--metastore", "none", "init")[0] == 0
    with connect(metastore=None) as catalog:
        catalog.create_namespace("s")
        catalog.register_table("s.t", location=str(tmp_path / "t"), partition_columns={"k": "INT"}, schema="id INT")
        catalog.repair_partitions("s.t")
        own = {"metastore": f"embedded:{tmp_path / '.catalog-ext'}"}
        catalog.index.properties.replace(own, removed=["metastore.none"])
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ("tables",), ("status",), ("repair", "s.t"), ("repair", "s.t", "--check"), ("recover",), ("vacuum", "--all"),
        ("drop-partitions", "s.t", "-p", "k=7"), ("expire-partitions", "s.t", "--retention", "1d"), ("outbox", "retry"),
        ("release-waiting", "s.t"), ("doctor", "--quick"), ("doctor",), ("init",),
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_jvm_for_what_needs_none(run: Run, table: Path, starts: list[str], command: tuple[str, ...]) -> None:
    if command == ("doctor",):
        command = ("--metastore", "embedded", "doctor", "--quick")
    run(*command)
    assert starts == []
    assert not (table / ".catalog-ext" / "metastore").exists()


def test_command_with_messages_to_deliver_starts_a_jvm(run: Run, table: Path, starts: list[str]) -> None:
    shutil.rmtree(table / "t" / "k=1")
    (table / "t" / "k=2").mkdir()
    (table / "t" / "k=2" / "a.parquet").write_bytes(b"x")
    assert run("repair", "s.t")[0] == 0
    assert set(starts) == {str(table / ".catalog-ext" / "metastore")}


@pytest.mark.parametrize(
    "command",
    [("drift",), ("drift", "s.t", "--mend", "--from", "metastore", "--dry-run"), ("publish", "--all", "--dry-run")],
    ids=" ".join,
)
def test_who_looks_makes_no_metastore(run: Run, table: Path, starts: list[str], command: tuple[str, ...]) -> None:
    _, out, err = run(*command)
    assert "There is no embedded metastore in" in out + err
    assert starts == []
    assert not (table / ".catalog-ext" / "metastore").exists()


@pytest.mark.parametrize(
    ("metastore", "words"),
    [
        ("bogus", "'bogus' is no metastore. Write thrift://host:9083"),
        ("embeded", "Did you mean 'embedded'?"),
        ("NON", "Did you mean 'none'?"),
        ("my-host", "a server of one word as thrift://my-host"),
        ("", "is no metastore"),
    ],
)
@pytest.mark.parametrize("command", [("tables",), ("register", "s.t", "x"), ("doctor",)])
def test_invalid_metastore_address_is_refused(
    run: Run, tmp_path: Path, command: tuple[str, ...], metastore: str, words: str
) -> None:
    code, out, err = run("--metastore", metastore, *command)
    assert (code, out, words in err) == (2, "", True), err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("endpont", "Did you mean 'endpoint'?"),
        ("bogus", "The storage option 'bogus' is unknown."),
        ("fs.s3a.endpont", "Did you mean 'fs.s3a.endpoint'?"),
        ("fs.s3a.acces.key", "Did you mean 'fs.s3a.access.key'?"),
        ("fs.s3a.bucket.b.secretkey", "Did you mean 'fs.s3a.bucket.b.secret.key'?"),
        ("s3.endpoint", "The storage option 's3.endpoint' is unknown."),
    ],
)
def test_a_storage_key_that_there_is_not(run: Run, tmp_path: Path, key: str, words: str) -> None:
    code, out, err = run("--storage", f"{key}=x", "tables")
    assert (code, out, words in err) == (2, "", True), err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("bin")))
    find_java.cache_clear()


_MAKING = [
    ("init",),
    ("register", "s.t", "data", "--create-namespace", "--format", "csv", "--schema", "x INT"),
    ("import", "s.t"),
    ("serve", "--port", "0"),
]


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("command", _MAKING, ids=lambda command: command[0])
def test_without_java_nothing_is_made_and_the_way_out_is_named(
    run: Run, working_folder: Path, command: tuple[str, ...]
) -> None:
    (working_folder / "data" / "k=1").mkdir(parents=True)
    before = _everything(working_folder)
    code, out, err = run(*command)
    assert (code, out) == (1, ""), err
    assert "No Java was found" in err
    assert "catalog-ext --metastore none" in err
    assert _everything(working_folder) == before


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("command", [*_MAKING[1:], ("follow", "--once"), ("publish", "--all")], ids=lambda c: c[0])
def test_without_java_an_index_with_the_embedded_metastore_stays_as_it_is(
    run: Run, working_folder: Path, command: tuple[str, ...]
) -> None:
    (working_folder / "data" / "k=1").mkdir(parents=True)
    index = str(working_folder / ".catalog-ext" / "index.db")
    with Index.open(index) as opened:
        open_at_home(opened, Settings.resolve(index=index))
    code, _, err = run(*command)
    assert (code, "No Java was found" in err) == (1, True), err
    with Index.open(index) as opened:
        assert opened.namespaces.all() == []
        assert list(opened.outbox.pending(limit=1)) == []
    assert not (working_folder / ".catalog-ext" / "metastore").exists()


@pytest.mark.usefixtures("no_java")
def test_without_java_and_a_metastore_a_table_is_registered(run: Run, working_folder: Path) -> None:
    (working_folder / "data" / "k=1").mkdir(parents=True)
    code, _, err = run("--metastore", "none", *_MAKING[1], "--key", "k")
    assert code == 0, err
    code, out, err = run("repair", "s.t")
    assert code == 0, err
    assert "Java" not in out + err


@pytest.mark.usefixtures("no_java")
def test_repair_without_java_succeeds_and_leaves_no_empty_metastore(run: Run, table: Path) -> None:
    (table / "t" / "k=2").mkdir()
    (table / "t" / "k=2" / "a.parquet").write_bytes(b"x")
    code, out, _ = run("repair", "s.t")
    assert code == 0
    assert "The metastore has not taken everything yet" in out
    assert "No Java was found" in out
    assert not (table / ".catalog-ext" / "metastore").exists()
