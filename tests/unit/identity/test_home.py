"""An index has one metastore and one warehouse, and says so to who opens it."""

from __future__ import annotations

import json
import logging
import os
import socket
from pathlib import Path
from typing import Any

import pytest

import catalog_ext
from catalog_ext.cli.main import main
from catalog_ext.conf.resolved import Settings
from catalog_ext.identity.adoption import take_on
from catalog_ext.identity.home import at_home
from catalog_ext.identity.record import METASTORE, METASTORE_HOST, METASTORE_ID, NO_METASTORE, record
from catalog_ext.metastore.errors import IndexDatabaseError, InvalidConfigurationError, InvalidInputError
from catalog_ext.metastore.hive import identity
from catalog_ext.metastore.hive.embedded.lease import ID_FILE
from catalog_ext.metastore.hive.identity import ID_PARAMETER
from catalog_ext.metastore.hive.mapping.model import HiveDatabase
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.tables.incarnations import Properties
from catalog_ext.metastore.model.tables import Namespace
from tests.kit.fakes_metastore import FakeMetastore, serving
from tests.kit.index_cases import local_index

A, B, ELSEWHERE = "thrift://a:9083", "thrift://b:9083", "thrift://elsewhere:9083"


@pytest.fixture(autouse=True)
def _clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    for name in ("INDEX", "WAREHOUSE", "STORAGE", "METASTORE"):
        monkeypatch.delenv(f"CATALOG_EXT_{name}", raising=False)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeMetastore]:
    """Metastores by address: two servers of one, and another one."""
    monkeypatch.setattr(identity, "CONFIRM_AFTER_S", 0.01)
    one, other = FakeMetastore(), FakeMetastore()
    for metastore in (one, other):
        metastore.create_database(HiveDatabase("default", "file:///hive", None, {"a": "1"}))
    known = {A: one, B: one, ELSEWHERE: other}
    monkeypatch.setattr(Settings, "connect_metastore", serving(known.__getitem__))
    return known


def test_defaults_are_the_indexes_own(tmp_path: Path) -> None:
    first = Settings.resolve(warehouse=str(tmp_path / "w1" / "wh"))
    elsewhere = at_home(Settings.resolve(index=first.index), record(first))
    assert (elsewhere.warehouse, elsewhere.metastore, elsewhere.state) == (first.warehouse, "embedded", first.state)
    named = at_home(Settings.resolve(index=str(tmp_path / "i.db"), metastore="embedded"), record(first))
    assert (named.metastore, named.state) == ("embedded", first.state)
    served = Settings.resolve(warehouse=str(tmp_path / "wh"), metastore="thrift://B:9083/,thrift://a")
    assert at_home(Settings.resolve(), record(served)).metastore == "thrift://a:9083,thrift://b:9083"
    assert at_home(Settings.resolve(metastore=B), record(served)).metastore == B
    assert at_home(Settings.resolve(metastore=None), record(served)).metastore is None


def test_an_old_index_in_its_folder_has_the_embedded_metastore_beside_it(tmp_path: Path) -> None:
    first = Settings.resolve(warehouse=str(tmp_path / "w1" / "wh"))
    for index in (first.index, f"sqlite:///{first.index}"):
        assert Settings.resolve(index=index).state == first.state
    assert Settings.resolve(index=str(tmp_path / "i.db")).state == tmp_path / "cwd" / ".catalog-ext"
    assert Settings.resolve(index="postgresql://h/.catalog-ext/x").state == tmp_path / "cwd" / ".catalog-ext"


@pytest.mark.parametrize(
    ("given", "named"),
    [({"metastore": ELSEWHERE}, ELSEWHERE), ({"warehouse": "s3://b/other"}, "s3a://b/other"),
     ({"metastore": "embedded"}, "embedded:")],
)  # fmt: skip
def test_another_one_is_refused_with_both_names(tmp_path: Path, given: dict[str, str], named: str) -> None:
    first = record(Settings.resolve(warehouse=str(tmp_path / "wh"), metastore=A))
    with pytest.raises(InvalidConfigurationError, match=r"belongs to the .* adopt") as raised:
        at_home(Settings.resolve(index="i.db", **given), first)
    assert named in raised.value.message
    assert first[next(iter(given))] in raised.value.message


def test_the_same_folder_by_another_name_is_the_same_warehouse(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    first = record(Settings.resolve(warehouse=str(tmp_path / "wh"), metastore=None))
    at_home(Settings.resolve(warehouse=str(tmp_path / "link" / "wh"), index="i.db"), first)


def test_what_hives_configuration_names_is_a_default(caplog: pytest.LogCaptureFixture) -> None:
    first = record(Settings.resolve(metastore=A))
    settings = Settings.resolve(index="i.db", site={"hive.metastore.uris": ELSEWHERE})
    assert at_home(settings, first).metastore == A
    assert ELSEWHERE in caplog.text
    assert "adopt" in caplog.text
    caplog.clear()
    at_home(Settings.resolve(index="i.db", site={"hive.metastore.uris": f"{A},{B}"}), first)
    assert caplog.text == ""


def test_an_embedded_metastore_of_another_host_is_not_started_here(tmp_path: Path) -> None:
    first = record(Settings.resolve(warehouse=str(tmp_path / "gone" / "wh")))
    assert first[METASTORE_HOST] == socket.gethostname()
    there = first | {METASTORE_HOST: "far-away"}
    with pytest.raises(InvalidConfigurationError, match="on the host far-away, which is not here"):
        at_home(Settings.resolve(index="i.db"), there)
    assert at_home(Settings.resolve(index="i.db", metastore=None), there).metastore is None
    (tmp_path / "gone" / ".catalog-ext" / "metastore").mkdir(parents=True)  # a volume that both have
    assert at_home(Settings.resolve(index="i.db"), there).state == tmp_path / "gone" / ".catalog-ext"


def embedded(tmp_path: Path, said: str | None) -> tuple[Path, dict[str, str]]:
    """The folder of the embedded metastore of a project, with an id or without one, and what its index says."""
    first = Settings.resolve(warehouse=str(tmp_path / "p" / "wh"))
    if said is not None:
        first.embedded_folder.mkdir(parents=True)
        (first.embedded_folder / ID_FILE).write_text(said)
    return first.embedded_folder, record(first) | {METASTORE_ID: "one"}


@pytest.mark.parametrize("said", [None, "another"])
@pytest.mark.parametrize("given", [{}, {"metastore": "embedded"}, {"warehouse": "p/wh"}])
def test_a_metastore_at_the_same_path_of_another_host_is_refused(
    tmp_path: Path, said: str | None, given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, recorded = embedded(tmp_path, said)
    there = recorded | {METASTORE_HOST: "far-away"}
    with pytest.raises(InvalidConfigurationError, match=rf"in {folder} on the host far-away.* adopt"):
        at_home(Settings.resolve(index=str(tmp_path / "i.db"), **given), there)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ID_FILE).write_text("one")
    assert at_home(Settings.resolve(index="i.db"), there).embedded_folder == folder


@pytest.mark.parametrize("said", [None, "another"])
def test_lost_embedded_metastore_is_reported_until_it_is_filled(
    tmp_path: Path, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    folder, recorded = embedded(tmp_path, said)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for given in ({"index": "i.db"}, {"warehouse": str(tmp_path / "p" / "wh")}):
        caplog.clear()
        at_home(Settings.resolve(**given), recorded)
        assert f"in {folder} is not " in caplog.text
        assert "publish --all" in caplog.text
    caplog.clear()
    at_home(Settings.resolve(metastore=None, index="i.db"), recorded)
    at_home(Settings.resolve(index="i.db"), recorded | ({METASTORE_ID: said} if said else {METASTORE: A}))
    assert caplog.text == ""


def test_a_project_that_was_moved_does_not_begin_anew_where_it_was(tmp_path: Path) -> None:
    folder, recorded = embedded(tmp_path, "one")
    folder.parent.parent.rename(tmp_path / "q")
    index = tmp_path / "q" / ".catalog-ext" / "index.db"
    for known in (recorded, {name: recorded[name] for name in (METASTORE, METASTORE_HOST)}):
        with pytest.raises(InvalidConfigurationError, match=r"folder was moved or copied.* --metastore embedded"):
            at_home(Settings.resolve(index=str(index)), known)
    assert not folder.exists()
    with local_index(tmp_path) as opened:
        opened.properties.add_missing(recorded)
        moved = Settings.resolve(index=str(index), metastore="embedded", warehouse=str(tmp_path / "q" / "wh"))
        take_on(opened, moved)
        assert (
            at_home(Settings.resolve(index=str(index)), opened.properties.load()).embedded_folder
            == moved.embedded_folder
        )


def test_paths_are_shown_and_recorded_without_detours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".catalog-ext").mkdir()
    assert Settings.resolve(index="../.catalog-ext/i.db").state == tmp_path / ".catalog-ext"
    for text in ("../.catalog-ext/i.db", "sqlite:///../.catalog-ext/i.db"):
        with Index.open(text) as opened:
            assert opened.url == f"sqlite+pysqlite:///{tmp_path}/.catalog-ext/i.db"


def test_the_first_record_stays_until_it_is_replaced(tmp_path: Path) -> None:
    with local_index(tmp_path) as index:
        assert index.properties.load() == {}
        assert index.properties.add_missing({"warehouse": "file:///a"}) == {"warehouse": "file:///a"}
        both = {"warehouse": "file:///a", "metastore": A}
        assert index.properties.add_missing(both | {"warehouse": "file:///b"}) == both
        index.properties.replace({"warehouse": "file:///b"})
        assert index.properties.load() == both | {"warehouse": "file:///b"}
        index.properties.replace({}, removed=["metastore", "nope"])
        assert index.properties.load() == {"warehouse": "file:///b"}


def test_who_names_the_index_alone_gets_its_warehouse_and_metastore(
    tmp_path: Path, servers: dict[str, FakeMetastore]
) -> None:
    index, warehouse = str(tmp_path / "i.db"), str(tmp_path / "wh")
    with catalog_ext.connect(index=index, warehouse=warehouse, metastore=A) as catalog:
        catalog.create_namespace("s")
    with catalog_ext.connect(index=index) as catalog:
        assert (catalog.settings.warehouse, catalog.settings.metastore) == (f"file://{warehouse}", A)
        catalog.create_namespace("t")
    assert servers[A].list_databases() == ["default", "s", "t"]
    assert not (tmp_path / "cwd" / ".catalog-ext").exists()
    for wrong in ({"metastore": ELSEWHERE}, {"warehouse": str(tmp_path / "other")}):
        with pytest.raises(InvalidConfigurationError, match="adopt"):
            catalog_ext.connect(index=index, **wrong)
    with catalog_ext.connect(index=index, metastore=None) as catalog:
        assert not catalog.metastore.enabled
    assert servers[ELSEWHERE].list_databases() == ["default"]


def test_one_metastore_may_have_many_addresses(tmp_path: Path, servers: dict[str, FakeMetastore]) -> None:
    index = str(tmp_path / "i.db")
    with catalog_ext.connect(index=index, metastore=A) as catalog:
        catalog.create_namespace("s")
    known = servers[A].get_database("default")
    assert known.parameters["a"] == "1"
    with Index.open(index) as opened:
        assert opened.properties.load()[METASTORE_ID] == known.parameters[ID_PARAMETER]
    with catalog_ext.connect(index=index, metastore=B) as catalog:
        catalog.create_namespace("default", properties={"b": "2"})
        catalog.alter_namespace("default", {"b": "3"})
        catalog.deliver()
    kept = servers[A].get_database("default").parameters
    assert (kept["b"], kept[ID_PARAMETER]) == ("3", known.parameters[ID_PARAMETER])


def test_a_metastore_that_was_replaced_is_noticed(
    tmp_path: Path, servers: dict[str, FakeMetastore], caplog: pytest.LogCaptureFixture
) -> None:
    index = str(tmp_path / "i.db")
    with catalog_ext.connect(index=index, metastore=A) as catalog:
        catalog.create_namespace("s")
    servers[A] = servers[ELSEWHERE]
    with catalog_ext.connect(index=index) as catalog:
        catalog.create_namespace("t")
    assert "is not the one that it was" in caplog.text


def test_a_default_of_a_folder_is_nobodys_warehouse(tmp_path: Path) -> None:
    index = str(tmp_path / "i.db")
    catalog_ext.connect(index=index, metastore=None).close()
    with catalog_ext.connect(index=index, metastore=None, warehouse=str(tmp_path / "wh")) as catalog:
        catalog.create_namespace("s")
    with catalog_ext.connect(index=index, metastore=None) as catalog:
        assert catalog.settings.warehouse == f"file://{tmp_path}/wh"


def test_index_without_a_record_takes_what_it_is_opened_with(
    tmp_path: Path, servers: dict[str, FakeMetastore], caplog: pytest.LogCaptureFixture
) -> None:
    index = str(tmp_path / "i.db")
    with Index.open(index) as opened:
        opened.namespaces.create(Namespace("s"), deliver=False)
    catalog_ext.connect(index=index, metastore=None).close()
    with Index.open(index) as opened:
        assert opened.properties.load() == {}, "a default of the current folder says nothing"
    with caplog.at_level(logging.INFO, "catalog_ext"):
        catalog_ext.connect(index=index, metastore=A).close()
        assert "is a guess. Name it once: --warehouse" in caplog.text
        catalog_ext.connect(index=index, metastore=A, warehouse=str(tmp_path / "wh")).close()
    assert f"from now on belongs to the metastore {A}" in caplog.text
    with Index.open(index) as opened:
        assert opened.properties.load() == {"metastore": A, "warehouse": f"file://{tmp_path}/wh"}


def test_an_index_that_was_made_without_a_metastore_gets_none(
    tmp_path: Path,
    servers: dict[str, FakeMetastore],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    index = str(tmp_path / "i.db")
    with catalog_ext.connect(index=index, metastore=None, warehouse=str(tmp_path / "wh")) as catalog:
        catalog.create_namespace("s")
    with catalog_ext.connect(index=index) as catalog:
        assert (catalog.settings.metastore, catalog.metastore.enabled) == (None, False)
    assert caplog.text == ""
    assert not (tmp_path / "cwd" / ".catalog-ext").exists()
    with pytest.raises(InvalidConfigurationError, match="was made to have no metastore") as raised:
        catalog_ext.connect(index=index, metastore=A)
    assert f"--metastore '{A}' adopt" in raised.value.message
    _, findings = _cli(capsys, "--index", index, "doctor", "--quick")
    assert f"no metastore and the warehouse file://{tmp_path}/wh" in json.dumps(findings)
    assert _cli(capsys, "--index", index, "--metastore", A, "adopt")[0] == 0
    with catalog_ext.connect(index=index) as catalog:
        assert catalog.settings.metastore == A
        catalog.create_namespace("t")
    assert servers[A].list_databases() == ["default", "t"]
    with Index.open(index) as opened:
        assert NO_METASTORE not in opened.properties.load()


def test_an_empty_index_takes_the_metastore_that_is_named(tmp_path: Path, servers: dict[str, FakeMetastore]) -> None:
    index = str(tmp_path / "i.db")
    catalog_ext.connect(index=index, metastore=None).close()
    from_site = Settings.resolve(index=index, site={"hive.metastore.uris": B})
    assert at_home(from_site, {NO_METASTORE: "true"}).metastore is None
    with catalog_ext.connect(index=index, metastore=A) as catalog:
        catalog.create_namespace("s")
    with catalog_ext.connect(index=index, metastore=None):
        pass
    with catalog_ext.connect(index=index) as catalog:
        assert catalog.settings.metastore == A


def test_a_first_contact_that_failed_keeps_nothing(
    tmp_path: Path, servers: dict[str, FakeMetastore], capsys: pytest.CaptureFixture[str]
) -> None:
    index = str(tmp_path / "i.db")
    servers[ELSEWHERE].down = True
    assert main(["--index", index, "--metastore", ELSEWHERE, "import", "sales.*"]) == 4
    assert main(["--index", index, "--metastore", A, "import", "s.*"]) == 1, "there is no such database"
    assert "no database" in capsys.readouterr().err
    servers[ELSEWHERE].down = False
    with catalog_ext.connect(index=index, metastore=B) as catalog:
        catalog.create_namespace("s")
        assert catalog.index.properties.load()[METASTORE] == B
    with pytest.raises(InvalidConfigurationError, match="belongs to the metastore"):
        catalog_ext.connect(index=index, metastore=ELSEWHERE)


def test_who_may_only_read_opens_it_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise IndexDatabaseError("permission denied for table index_properties")

    monkeypatch.setattr(Properties, "add_missing", refuse)
    with catalog_ext.connect(index=str(tmp_path / "i.db"), metastore=None, warehouse=str(tmp_path)) as catalog:
        assert catalog.list_namespaces() == []
    assert "permission denied" in caplog.text


def _cli(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_another_one_is_taken_on_by_a_command(
    tmp_path: Path, servers: dict[str, FakeMetastore], capsys: pytest.CaptureFixture[str]
) -> None:
    index, warehouse = str(tmp_path / "i.db"), str(tmp_path / "wh")
    with catalog_ext.connect(index=index, warehouse=warehouse, metastore=A) as catalog:
        catalog.create_namespace("s")
    assert _cli(capsys, "--index", index, "status") == (0, {"table": None, "entries": []})
    code, answer = _cli(capsys, "--index", index, "--metastore", ELSEWHERE, "publish", "--all")
    assert (code, answer["error"]["code"]) == (2, InvalidConfigurationError.code)
    assert answer["error"]["parameters"] == {"index": f"sqlite+pysqlite:///{index}", "recorded_metastore": A,
                                             "metastore": ELSEWHERE}  # fmt: skip
    change = {"what": "metastore", "before": A, "after": ELSEWHERE}
    for dry_run in (["--dry-run"], []):
        code, answer = _cli(capsys, "--index", index, "--metastore", ELSEWHERE, "adopt", *dry_run)
        assert (code, answer) == (0, {"dry_run": bool(dry_run), "changes": [change]})
    with catalog_ext.connect(index=index) as catalog:
        assert catalog.settings.metastore == ELSEWHERE
        catalog.create_namespace("t")
    assert servers[ELSEWHERE].list_databases() == ["default", "t"]
    with Index.open(index) as opened:
        given = servers[ELSEWHERE].get_database("default").parameters[ID_PARAMETER]
        assert opened.properties.load()[METASTORE_ID] == given
    adopted = catalog_ext.adopt(index=index, warehouse=str(tmp_path / "moved"))
    assert adopted == (("warehouse", f"file://{warehouse}", f"file://{tmp_path}/moved"),)
    assert catalog_ext.adopt(index=index, warehouse=str(tmp_path / "moved")) == ()
    with catalog_ext.connect(index=index, metastore=None) as catalog:
        assert catalog.settings.warehouse == f"file://{tmp_path}/moved"
    with pytest.raises(InvalidInputError, match="Neither"):
        catalog_ext.adopt(index=index, metastore=None)


def test_doctor_looks_at_the_indexes_own(
    tmp_path: Path, servers: dict[str, FakeMetastore], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    index = str(tmp_path / "i.db")
    with catalog_ext.connect(index=index, metastore=A, warehouse=str(tmp_path / "wh")) as catalog:
        catalog.create_namespace("s")
    code, answer = _cli(capsys, "--index", index, "doctor", "--quick")
    found = {check["check"]: check for check in answer["checks"]}
    assert (code, found["belongs to"]["state"]) == (0, "ok")
    assert A in found["belongs to"]["found"]
    assert found["reachable"]["found"].startswith(A)
    servers[A] = servers[ELSEWHERE]
    code, answer = _cli(capsys, "--index", index, "doctor", "--quick")
    assert (code, [c["check"] for c in answer["checks"] if c["state"] == "wrong"]) == (1, ["identity"])
    code, answer = _cli(capsys, "--index", index, "--warehouse", str(tmp_path / "o"), "doctor", "--quick")
    assert code == 1
    assert "belongs to" in {c["check"] for c in answer["checks"] if c["state"] == "wrong"}


def test_doctor_asks_an_embedded_metastore_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = str(tmp_path / "index.db")
    with local_index(tmp_path) as opened:
        take_on(opened, Settings.resolve(index=index, metastore="embedded"))
        folder = Path(opened.properties.load()[METASTORE].removeprefix("embedded:")) / "metastore"
    _, findings = _cli(capsys, "--index", index, "doctor", "--quick")
    reported = {(f["area"], f["check"]): f["found"] for f in findings["checks"]}
    assert f"embedded:{folder}" in reported["index", "belongs to"]
    assert reported["metastore", "embedded"] == "not there yet; made by the first change"
    folder.mkdir(parents=True)
    _, findings = _cli(capsys, "--index", index, "doctor", "--quick")
    reported = {(f["area"], f["check"]): f["found"] for f in findings["checks"]}
    assert reported["metastore", "embedded"] == "it does not run, and is not started with --quick"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    state = {"id": "x", "pid": os.getpid(), "thrift_port": port, "lease_port": port}
    (folder / "server.json").write_text(json.dumps(state))
    _, findings = _cli(capsys, "--index", index, "doctor", "--quick")
    reported = {(f["area"], f["check"]): f["found"] for f in findings["checks"]}
    assert f"thrift://127.0.0.1:{port}" in reported["metastore", "embedded"]


def test_an_index_that_is_not_there_takes_nothing_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _cli(capsys, "--index", str(tmp_path / "no.db"), "--metastore", A, "adopt")
    assert (code, answer["error"]["code"]) == (2, InvalidConfigurationError.code)
    assert not (tmp_path / "no.db").exists()


def test_of_two_that_open_a_new_index_at_once_the_first_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: dict[str, FakeMetastore]
) -> None:
    index = str(tmp_path / "i.db")
    load = Properties.load
    first = [True]

    def overtaken(of_index: Properties) -> dict[str, str]:
        found = load(of_index)
        if first and not found:
            first.clear()
            catalog_ext.connect(index=index, metastore=None, warehouse=str(tmp_path / "a")).close()
        return found

    monkeypatch.setattr(Properties, "load", overtaken)
    with pytest.raises(InvalidConfigurationError, match=r"belongs to the warehouse .*/a, and was opened with .*/b"):
        catalog_ext.connect(index=index, metastore=None, warehouse=str(tmp_path / "b"))


def test_a_warehouse_by_another_name_is_the_recorded_one(tmp_path: Path) -> None:
    index, real = str(tmp_path / "i.db"), tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    catalog_ext.connect(index=index, metastore=None, warehouse=str(real)).close()
    with catalog_ext.connect(index=index, metastore=None, warehouse=str(tmp_path / "link")) as catalog:
        assert catalog.settings.warehouse == f"file://{real}"


def test_a_command_that_makes_nothing_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    index = str(tmp_path / "i.db")
    Index.open(index).close()
    assert main(["--index", index, "--metastore", "thrift://127.0.0.1:9", "repair", "s.typo"]) == 1
    with Index.open(index) as opened:
        assert opened.properties.load() == {}
