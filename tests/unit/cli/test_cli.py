"""The command line on a local table and a SQLite index: results, JSON, errors and exit codes."""

from __future__ import annotations

import io
import json
import shutil
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from rich.console import Console

from catalog_ext.catalog import Catalog, connect
from catalog_ext.cli.main import cli, exit_code
from catalog_ext.cli.output import one_line
from catalog_ext.cli.progress import progress_bar
from catalog_ext.connector.build import SUPPORTED_SPARK
from catalog_ext.context import RepairProgress
from catalog_ext.metastore.errors import (
    CatalogExtError,
    ConflictError,
    IndexUnavailableError,
    InvalidPredicateError,
    MassDropError,
    RepairRefusedError,
    TableNotFoundError,
)
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, Namespace, TableDefinition, TableType
from tests.integration.waiting import until
from tests.kit.next_revision import next_release

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.usefixtures("without_metastore")


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    """Six good partitions, one bad directory and one stray file."""
    root = tmp_path / "trips"
    for day in ("2025-01-01", "2025-01-02", "2025-01-03"):
        for region in ("eu", "a%20b"):
            _write(root / f"ds={day}" / f"region={region}" / "part.parquet")
    _write(root / "ds=2025-13-99" / "region=eu" / "part.parquet")
    _write(root / "stray\nname.parquet")
    return root


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [1], "fare": [2.5]}), path)


def _register(run: Run, root: Path) -> None:
    assert (
        run("register", "sales.trips", str(root), "--key", "ds=DATE", "--key", "region", "--create-namespace")[0] == 0
    )


def _json(run: Run, *arguments: str, code: int = 0) -> Any:
    ended, out, err = run(*arguments, "--json")
    assert (ended, err) == (code, "")
    return json.loads(out)


def test_register_says_what_it_read(run: Run, trips: Path) -> None:
    arguments = ("--key", "ds=DATE", "--key", "region", "--create-namespace", "--option", "a=b=c", "--property", "p=1")
    table = _json(run, "register", "sales.trips", "trips", *arguments)
    assert table["location"] == trips.as_uri()
    assert [(c["name"], c["type"]) for c in table["columns"]] == [("id", "bigint"), ("fare", "double")]
    assert [(c["name"], c["type"]) for c in table["partition_columns"]] == [("ds", "date"), ("region", "string")]
    assert table["options"] == {"a": "b=c"}
    assert table["properties"]["p"] == "1"
    assert table["metastore"] == "none"


def test_register_as_text_names_the_next_step(run: Run, trips: Path) -> None:
    code, out, _ = run(
        "register", "sales.trips", str(trips), "--key", "ds=DATE", "--key", "region", "--create-namespace"
    )
    assert code == 0
    assert "partition columns  ds DATE, region STRING" in out
    assert "Next: catalog-ext repair sales.trips" in out


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ((), "leaves out the partition columns (virtual)"),
        (("--partition-mode", "declared"), "shows the partition columns"),
    ],
)
def test_register_says_whether_select_star_shows_the_keys(
    run: Run, trips: Path, option: tuple[str, ...], shown: str
) -> None:
    arguments = ("--key", "ds=DATE", "--key", "region", "--create-namespace", *option)
    code, out, _ = run("register", "sales.trips", str(trips), *arguments)
    assert code == 0
    assert shown in " ".join(out.split())


def test_register_without_its_namespace(run: Run, trips: Path) -> None:
    code, _, err = run("register", "sales.trips", str(trips), "--key", "ds", "--key", "region")
    assert code == 1
    assert "Or say --create-namespace." in err


def test_a_preview_changes_nothing(run: Run, trips: Path) -> None:
    _register(run, trips)
    code, out, _ = run("repair", "sales.trips", "--dry-run", "--limit", "2")
    assert code == 0
    assert "Preview of the repair of sales.trips, mode sync" in out
    assert "To add, the first 2 of 6" in out
    assert "'2025-13-99' does not fit the type DATE" in out
    assert "stray\\nname.parquet" in out
    assert "Nothing was changed. Without --check or --dry-run it is applied." in out
    assert _json(run, "partitions", "sales.trips")["partitions"] == []


def test_repair_then_in_sync(run: Run, trips: Path) -> None:
    _register(run, trips)
    assert run("repair", "sales.trips", "--check")[0] == 3
    report = _json(run, "repair", "sales.trips")
    assert len(report["added"]) == 6
    assert {entry["path"] for entry in report["skipped"]} == {"ds=2025-13-99", "stray\nname.parquet"}
    code, out, _ = run("repair", "sales.trips", "--check")
    assert code == 0
    assert "Nothing was changed.\n" in out


def test_a_table_without_trouble_is_in_sync(run: Run, tmp_path: Path) -> None:
    _write(tmp_path / "t" / "k=1" / "a.parquet")
    assert run("register", "s.t", "t", "--create-namespace")[0] == 0
    code, out, _ = run("repair", "s.t")
    assert code == 0
    assert "The table is at version 1." in out
    assert "In sync" in run("repair", "s.t")[1]


def test_strict_refuses_and_changes_nothing(run: Run, trips: Path) -> None:
    _register(run, trips)
    code, out, err = run("repair", "sales.trips", "--strict")
    assert code == 3
    assert out == ""
    assert err.startswith("error [CATALOG_EXT_REPAIR_REFUSED]: ")
    assert err.count("\n") == 1
    assert _json(run, "partitions", "sales.trips")["partitions"] == []


def test_force_drops_what_a_repair_would_not(run: Run, trips: Path) -> None:
    _register(run, trips)
    run("repair", "sales.trips")
    shutil.rmtree(trips)
    trips.mkdir()
    code, out, err = run("repair", "sales.trips")
    assert (code, out) == (3, "")
    assert err.startswith("error [CATALOG_EXT_MASS_DROP]: Nothing was changed: ")
    assert "--force" in err
    code, out, _ = run("repair", "sales.trips", "--dry-run")
    assert code == 0
    assert "Nothing was changed.\nThe repair would be refused: it would drop 6 of 6 registered partitions" in out
    assert run("repair", "sales.trips", "--check")[0] == 3
    assert _json(run, "repair", "sales.trips", "--dry-run")["refused"].startswith("the repair would be refused: ")
    assert len(_json(run, "repair", "sales.trips", "--force")["dropped"]) == 6


def test_a_repair_can_be_limited(run: Run, trips: Path) -> None:
    _register(run, trips)
    assert len(_json(run, "repair", "sales.trips", "--where", "ds >= '2025-01-03'")["added"]) == 2
    assert len(_json(run, "repair", "sales.trips", "-p", "ds=2025-01-01", "-p", "region=eu")["added"]) == 1
    assert len(_json(run, "repair", "sales.trips", "--mode", "drop")["added"]) == 0


def test_partitions_and_files(run: Run, trips: Path) -> None:
    _register(run, trips)
    run("repair", "sales.trips")
    rows = _json(run, "partitions", "sales.trips", "-p", "region=a b")["partitions"]
    assert [r["partition"] for r in rows] == [f"ds=2025-01-0{d}/region=a%20b" for d in (1, 2, 3)]
    assert len(_json(run, "files", "sales.trips", "--limit", "2")["files"]) == 2
    code, out, _ = run("files", "sales.trips", "--limit", "2")
    assert code == 0
    assert "part.parquet" in out
    assert "6 files; 2 shown, --limit 0 shows all" in out
    assert "0 partitions" in run("partitions", "sales.trips", "-p", "region=nowhere")[1]


def test_tables_and_unregister(run: Run, trips: Path) -> None:
    run("init")
    assert "No table is registered." in run("tables")[1]
    _register(run, trips)
    run("repair", "sales.trips")
    assert "sales.trips" in run("tables", "SALES")[1]
    assert _json(run, "tables")["tables"][0]["totals"]["partitions"] == 6
    assert run("unregister", "sales.trips")[0] == 0
    assert _json(run, "tables")["tables"] == []
    assert (trips / "ds=2025-01-01" / "region=eu" / "part.parquet").exists()


@pytest.mark.parametrize(
    "command", [("tables",), ("repair", "sales.trips"), ("status",), ("vacuum", "sales.trips"), ("doctor", "--quick")]
)
def test_a_wrong_folder_gets_no_index(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    code, out, err = run("--index", "nope/dir/index.db", *command)
    assert f"{tmp_path / 'nope/dir/index.db'}" in out + err
    assert (code, list(tmp_path.iterdir())) == (0 if command[0] == "doctor" else 2, [])


def test_registering_again(run: Run, trips: Path) -> None:
    _register(run, trips)
    again = ("register", "sales.trips", str(trips))
    assert "exists already" in run(*again)[2]
    assert _json(run, *again, "--if-not-exists")["partition_columns"][0]["name"] == "ds"
    assert "Left as it is: sales.trips" in run(*again, "--if-not-exists")[1]
    (trips.parent / "other").mkdir()
    code, _, err = run("register", "sales.trips", str(trips.parent / "other"), "--if-not-exists")
    assert (code, f"exists already, at file:{trips}" in err.replace("file://", "file:")) == (1, True)


def test_errors_are_one_line(run: Run) -> None:
    run("init")
    code, out, err = run("partitions", "sales.none")
    assert code == 1
    assert out == ""
    start, index, end = err.partition("The index is sqlite")
    assert start == "error [CATALOG_EXT_TABLE_NOT_FOUND]: The table sales.none does not exist in the index. "
    assert index
    assert end.endswith("index.db: `catalog-ext tables` shows what is there; --index names another index.\n")
    assert end.count("\n") == 1
    code, _, err = run("repar", "sales.none")
    assert (code, "Did you mean 'repair'?" in err) == (2, True)
    assert "Did you mean" not in run("nonsense")[2]


def test_errors_as_json(run: Run) -> None:
    run("init")
    code, out, err = run("partitions", "sales.none", "--json")
    assert code == 1
    assert json.loads(out)["error"]["code"] == "CATALOG_EXT_TABLE_NOT_FOUND"
    assert err.startswith("error [")


def test_debug_shows_the_traceback(run: Run) -> None:
    assert "Traceback" in run("--debug", "partitions", "sales.none")[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("repair",),
        ("repair", "a.b", "--mode", "all"),
        ("repair", "a.b", "--where", "x = 1", "-p", "x=1"),
        ("repair", "a.b", "-p", "x"),
        ("repair", "one"),
        ("--storage", "nonsense", "tables"),
        ("register", "a.b", "c", "--format", "avro"),
        ("--index", "oracle://x", "tables"),
        ("--storage", "nonsense=1", "register", "a.b", "s3://c/d", "--create-namespace"),
    ],
)
def test_wrong_arguments_exit_with_2(run: Run, arguments: tuple[str, ...]) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err


def test_a_wrong_predicate_names_the_column(run: Run, trips: Path) -> None:
    _register(run, trips)
    code, _, err = run("partitions", "sales.trips", "--where", "nope = 1")
    assert code == 2
    assert "'nope' is not a partition column of table sales.trips" in err


def test_an_index_that_cannot_be_reached_exits_with_4(run: Run) -> None:
    code, _, err = run("--index", "postgresql://127.0.0.1:1/lake", "tables")
    assert code == 4
    assert "CATALOG_EXT_INDEX_UNAVAILABLE" in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CatalogExtError("x"), 1),
        (TableNotFoundError("x"), 1),
        (InvalidPredicateError("x"), 2),
        (RepairRefusedError("x"), 3),
        (IndexUnavailableError("x"), 4),
        (ConflictError("x"), 4),
    ],
)
def test_exit_codes(error: CatalogExtError, code: int) -> None:
    assert exit_code(error) == code


def test_migrate(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    url = f"sqlite:///{file}"
    for command in (("migrate",), ("migrate", "--check")):
        code, _, err = run("--index", url, *command)
        assert (code, "catalog-ext init makes one" in err, file.exists()) == (2, True, False)
    Index.open(str(file)).close()
    assert run("--index", url, "migrate", "--check")[0] == 0
    with next_release() as newer:
        code, out, _ = run("--index", url, "migrate", "--check", "--json")
        assert code == 1
        assert json.loads(out)["at_head"] is False
        made = _json(run, "--index", url, "migrate")
        assert (made["at_head"], made["revision"]) == (True, newer)
        assert run("--index", url, "migrate", "--check")[0] == 0
    code, _, err = run("--index", url, "migrate")
    assert (code, f"is at revision {newer}, which this release" in err) == (1, True)


def test_init_makes_an_index_once(run: Run, tmp_path: Path) -> None:
    here = ("--index", "new/lake.db", "--warehouse", "wh", "--metastore", "thrift://127.0.0.1:9", "init")
    made = _json(run, *here)
    assert made["made"] is True
    assert (made["metastore"], made["warehouse"]) == ("thrift://127.0.0.1:9", (tmp_path / "wh").as_uri())
    with Index.open("new/lake.db") as index:
        assert index.properties.load()["metastore"] == "thrift://127.0.0.1:9"
    assert _json(run, *here)["made"] is False
    code, out, _ = run(*here)
    assert (code, out.startswith("The index is there already\n")) == (0, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"], "neither a warehouse nor a metastore"


def test_doctor_when_all_is_well(run: Run) -> None:
    run("init")
    answer = _json(run, "doctor", "--quick")
    states = {(c["area"], c["check"]): c["state"] for c in answer["checks"]}
    assert answer["healthy"] is True
    assert states["index", "schema"] == "ok"
    assert states["metastore", "configured"] == "skipped"
    assert states["spark", "Java"] == "ok"


def test_doctor_says_what_is_wrong(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a-file").write_text("x")
    monkeypatch.setenv("CATALOG_EXT_METASTORE", "thrift://127.0.0.1:1")
    code, out, _ = run("--warehouse", str(tmp_path / "a-file"), "--index", str(tmp_path), "doctor", "--quick")
    assert code == 1
    wrong = [line for line in out.splitlines() if line.strip().startswith("✗")]
    assert len(wrong) == 3
    assert "3 of " in out.splitlines()[-1]


@pytest.mark.parametrize("width", [40, 80, 200, None])
def test_doctor_shows_remedies_whole_on_their_own_lines(
    run: Run, trips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int | None
) -> None:
    """What is wrong may be long, and the remedy is at its end."""
    _register(run, trips)
    with Index.open(str(tmp_path / ".catalog-ext" / "index.db")) as index:
        index.properties.add_missing({"warehouse": f"file:///{'long/' * 100}"})
    if width:
        monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = run("--warehouse", str(tmp_path / "other"), "doctor", "--quick")
    assert code == 1
    found = next(c for c in _json(run, "--warehouse", str(tmp_path / "other"), "doctor", "--quick", code=1)["checks"]
                 if c["state"] == "wrong")  # fmt: skip
    assert len(found["found"]) > 500
    assert found["remedy"]
    assert "…" not in out
    assert found["found"].split()[-1] in out.split()
    assert " ".join(found["remedy"].split()) in " ".join(out.split()), "no other column stands between its words"


def test_doctor_counts_warnings(run: Run) -> None:
    code, out, _ = run("doctor", "--quick")
    assert code == 0, "no index is there yet"
    assert out.splitlines()[-1] == "Nothing is wrong. 1 warning: see the lines with !."
    assert "Everything is in order" not in out
    run("init")
    assert run("doctor", "--quick")[1].splitlines()[-1] == "Everything is in order."


def test_doctor_names_init_for_a_database_without_an_index(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    checks = {c["check"]: c for c in _json(run, "--index", "empty.db", "doctor", "--quick")["checks"]}
    assert checks["schema"]["found"].endswith("holds no index yet. Run: catalog-ext init")
    assert checks["schema"]["remedy"] == "Run: catalog-ext init"
    assert checks["belongs to"]["state"] == "skipped"


def test_doctor_on_a_spark_that_is_not_supported(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core_2.12-3.5.6.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(jars.parent))
    states = {c["check"]: c["state"] for c in _json(run, "doctor", "--quick", code=1)["checks"]}
    assert (states["Spark"], states["PySpark"]) == ("wrong", "skipped")


def test_doctor_on_a_spark_home_of_another_minor_version(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    other = next(minor for minor in SUPPORTED_SPARK if not version("pyspark").startswith(f"{minor}."))
    for jar in (f"spark-core_2.13-{other}.0.jar", "hadoop-client-api-3.4.1.jar"):
        (jars / jar).touch()
    monkeypatch.setenv("SPARK_HOME", str(jars.parent))
    found = {c["check"]: c for c in _json(run, "doctor", "--quick", code=1)["checks"]}
    assert (found["Spark"]["state"], found["PySpark"]["state"]) == ("ok", "wrong")
    assert "unset SPARK_HOME" in found["PySpark"]["found"]


def test_doctor_with_wrong_settings(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_EXT_WAREHOUSE", "gopher://x/y")
    code, out, _ = run("doctor", "--json")
    assert code == 1
    assert json.loads(out)["checks"][0]["area"] == "settings"


def test_every_command_takes_json() -> None:
    for name, command in cli.commands.items():
        assert any("--json" in p.opts for p in command.params), name


def test_names_from_a_store_do_not_steer_the_terminal() -> None:
    assert one_line("a\x1b[31mb\r\n\u202e") == "a\\x1b[31mb\\r\\n\\u202e"
    assert one_line("naïve €😀") == "naïve €😀"
    assert len(one_line("x" * 10_000)) == 10_000, "a remedy at the end is not cut"


def test_an_interrupt_is_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(catalog: Catalog) -> list[str]:
        raise KeyboardInterrupt

    run("init")
    monkeypatch.setattr(Catalog, "list_namespaces", interrupted)
    code, out, err = run("tables", "--json")
    assert (code, out) == (130, "")
    assert err.lstrip("\n") == "interrupted: what was committed stays, nothing else was changed\n"


def test_unexpected_error_is_one_line_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(catalog: Catalog) -> list[str]:
        raise RuntimeError("oops")

    run("init")
    monkeypatch.setattr(Catalog, "list_namespaces", broken)
    code, _, err = run("tables")
    assert code == 1
    assert (
        err
        == "error [CATALOG_EXT_ERROR]: Unexpected RuntimeError: oops. Run it again with --debug for the traceback.\n"
    )


def test_progress_is_for_terminals_only() -> None:
    written = io.StringIO()
    with progress_bar(Console(file=written), "Repairing") as report:
        report(RepairProgress("listing", 1200, 3400))
    assert written.getvalue() == ""
    with progress_bar(Console(file=written, force_terminal=True, width=120), "Repairing") as report:
        report(RepairProgress("listing", 1200, 3400))
        report(RepairProgress("applying", 1000, 3000, 1200))
    assert "left" not in written.getvalue()
    with progress_bar(Console(file=written, force_terminal=True, width=120), "Repairing") as report:
        report(RepairProgress("applying", 1000, 3000, 1200, left_s=150.4))
    assert "1,000 of 1,200 partitions, 3,000 files, about 3 min left" in written.getvalue()
    assert "Applying changes" in written.getvalue()
    assert "1,000 of 1,200 partitions, 3,000 files" in written.getvalue()


def test_partitions_are_dropped_by_a_condition_and_by_age(run: Run, trips: Path) -> None:
    run("register", "sales.trips", str(trips), "--key", "ds=DATE", "--key", "region", "--create-namespace")
    run("repair", "sales.trips")
    code, out, _ = run("drop-partitions", "sales.trips", "--where", "ds < '2025-01-02'", "--dry-run", "--json")
    assert (code, [row["partition"] for row in json.loads(out)["partitions"]]) == (
        0, ["ds=2025-01-01/region=a%20b", "ds=2025-01-01/region=eu"],
    )  # fmt: skip
    code, out, _ = run("drop-partitions", "sales.trips", "-p", "ds=2025-01-01")
    assert code == 0
    assert "2 partitions" in out
    assert "its files stay, and a repair adds the partitions again, unless its mode is drop" in out
    out = run("expire-partitions", "sales.trips", "--retention", "1d", "--dry-run")[1]
    assert "adds the partitions again" not in out
    assert "Run it without --dry-run" not in out
    assert "The run would be refused: it would drop the 4 partitions of 4 that are older than 1d, that is before" in out
    preview = json.loads(run("expire-partitions", "sales.trips", "--retention", "1d", "--dry-run", "--json")[1])
    assert ("all of them" in preview["refused"], len(preview["partitions"])) == (True, 4)
    code, out, err = run("expire-partitions", "sales.trips", "--retention", "1d")
    assert (code, out, "--force" in err) == (exit_code(MassDropError("")), "", True)
    code, out, _ = run("expire-partitions", "sales.trips", "--retention", "1d", "--force")
    assert "4 partitions" in out
    assert "adds the partitions again" in out
    assert "set partition.retention.period" in out
    run("repair", "sales.trips")
    with connect(index=".catalog-ext/index.db", metastore=None) as catalog:
        catalog.alter_table_properties("sales.trips", {"partition.retention.period": "1d"})
    code, out, _ = run("expire-partitions", "sales.trips", "--force")
    assert (code, "again" in out) == (0, False), "the property keeps a repair from it"
    with connect(index=".catalog-ext/index.db", metastore=None) as catalog:
        catalog.alter_table_properties("sales.trips", {}, ["partition.retention.period"])
    assert json.loads(run("partitions", "sales.trips", "--json")[1])["partitions"] == []
    code, _, err = run("expire-partitions", "sales.trips")
    assert (code, "partition.retention.period" in err) == (exit_code(InvalidPredicateError("")), True)
    code, _, err = run("drop-partitions", "sales.trips")
    assert code == exit_code(InvalidPredicateError(""))


def _refused(run: Run, trips: Path, tmp_path: Path, times: int) -> int:
    """Let the outbox hold a message that a metastore has refused so often; return its number."""
    _register(run, trips)
    with Index.open(str(tmp_path / ".catalog-ext" / "index.db")) as index:
        index.namespaces.create(Namespace("known"), deliver=True)
        (message,) = index.outbox.pending()
        for _ in range(times):
            index.outbox.retry()
            assert index.outbox.claim(message.outbox_id, "c", 1000)
            index.outbox.failed(message.outbox_id, "c", "not yours", 60_000, refused=True)
        return message.outbox_id


@pytest.mark.parametrize(("times", "state"), [(1, "failed"), (8, "set aside")])
def test_what_is_refused_is_shown_and_skipped(run: Run, trips: Path, tmp_path: Path, times: int, state: str) -> None:
    number = _refused(run, trips, tmp_path, times)
    code, out, _ = run("doctor", "--quick", "--json")
    assert (code, json.loads(out)["healthy"]) == (1, False)
    assert "known: not yours" in out
    code, out, _ = run("doctor", "--quick")
    assert code == 1
    assert "catalog-ext outbox" in out
    (listed,) = _json(run, "outbox")["changes"]
    assert (listed["id"], listed["table"], listed["state"], listed["error"]) == (number, "known", state, "not yours")
    assert _json(run, "status")["entries"][0]["state"] == state
    assert _json(run, "outbox", "retry", str(number))["changes"][0]["state"] == state, "there is no metastore"
    assert run("outbox", "skip")[0] == 2
    assert run("outbox", "skip", "999")[0] == 2
    code, out, _ = run("outbox", "skip", str(number))
    assert code == 0
    assert "catalog-ext publish" in out
    assert _json(run, "outbox")["changes"] == []
    assert _json(run, "doctor", "--quick")["healthy"] is True


def test_mistyped_table_gets_a_similar_name_suggested(run: Run, trips: Path, tmp_path: Path) -> None:
    _register(run, trips)
    code, _, err = run("repair", "sales.tripps")
    assert code == 1
    assert "does not exist in the index. Did you mean sales.trips? The index is sqlite" in err
    assert str(tmp_path) in err
    assert "--index names another index" in err


def test_an_index_that_is_no_database_says_what_to_do(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes(b"not a database, but long enough to be looked at " * 50)
    code, _, err = run("--index", str(tmp_path / "other.db"), "tables")
    assert code == 1
    assert "is no SQLite database" in err
    assert "Name another file (--index" in err


def test_an_empty_folder_is_registered_by_words_of_the_command_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    where = ("register", "s.t", str(tmp_path / "empty"), "--create-namespace")
    _, _, err = run(*where)
    assert "--key on the command line" in err
    assert "--no-keys" in err
    code, out, _ = run(*where, "--no-keys", "--schema", "x INT")
    assert (code, "partition columns  none" in out) == (0, True)
    assert run(*where, "--no-keys", "--key", "ds")[0] == 2


def test_blanks_in_values_are_seen(run: Run, tmp_path: Path) -> None:
    for name in ("region= ", "region="):
        _write(tmp_path / "t" / name / "part.parquet")
    run("register", "s.t", str(tmp_path / "t"), "--key", "region", "--create-namespace")
    run("repair", "s.t")
    _, out, _ = run("partitions", "s.t")
    assert "'region= '" in out
    assert "region=  " in out, "the other one without quotes"


def test_describe(run: Run, trips: Path) -> None:
    _register(run, trips)
    code, out, _ = run("describe", "sales.trips")
    assert code == 0
    for words in ("External table sales.trips", str(trips), "parquet", "ds DATE, region STRING", "version"):
        assert words in out
    described = json.loads(run("describe", "sales.trips", "--json")[1])
    assert (described["name"], described["partition_mode"]) == ("trips", "virtual")


def test_unregistering_a_managed_table_says_how_it_comes_back(run: Run, trips: Path, tmp_path: Path) -> None:
    _register(run, trips)
    assert "It was a managed table" not in run("unregister", "sales.trips")[1]
    with connect(index=str(tmp_path / ".catalog-ext" / "index.db"), metastore=None) as catalog:
        columns = (Column("x", "int"),)
        catalog.create_table(TableDefinition(TableIdentifier("sales", "m"), TableType.MANAGED, "csv", "", columns))
    out = run("unregister", "sales.m")[1]
    assert "It was a managed table. catalog-ext import sales.m" in out


class _Delivering:
    """A catalog whose metastore takes its messages in four steps."""

    def __init__(self) -> None:
        self.left = [4, 3, 1, 0]
        self.metastore = self.index = self.outbox = self
        self.enabled, self.starting = True, False
        self.starts = 0

    def start(self) -> None:
        self.starts += 1

    def count(self) -> int:
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]


def test_bar_moves_while_messages_are_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog_ext.cli.progress._ASKED_EVERY_S", 0.01)
    reported, written = _Delivering(), io.StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    with progress_bar(console, "Repairing", cast("Catalog", reported)) as report:
        report(RepairProgress("applying", 1200, 3000, 1200))
        report(RepairProgress("delivering", 0, 0))
        until(lambda: "4 of 4 changes" in written.getvalue(), "the bar")
    assert "Telling the metastore" in written.getvalue()
    assert reported.starts == 1, "the embedded metastore is started while changes are applied"
