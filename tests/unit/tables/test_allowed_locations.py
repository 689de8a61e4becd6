"""What statements may name: the service reads and moves only what it serves, and never the index or a token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from catalog_ext.catalog import Catalog, connect
from catalog_ext.conf.resolved import Settings
from catalog_ext.conf.service_keys import allowed_locations
from catalog_ext.metastore.errors import InvalidConfigurationError, LocationNotAllowedError
from catalog_ext.metastore.storage.allowed_locations import Allowed, AllowedLocations
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.paths.adhoc import PathPlan
from catalog_ext.service.server import Service
from tests.kit.service_client import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOKEN = "the-token-of-the-service-0123456789\n"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A host: the index, a token, the warehouse with a link out of it, and a folder elsewhere."""
    for place in ("warehouse", "elsewhere/k=1", "etc", "index"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "etc" / "token").write_text(TOKEN, encoding="ascii")
    (tmp_path / "elsewhere" / "k=1" / "secret.csv").write_text("user,password\n", encoding="ascii")
    (tmp_path / "warehouse" / "way-out").symlink_to(tmp_path / "elsewhere")
    return tmp_path


@pytest.fixture
def standing(lake: Path) -> Iterator[Catalog]:
    """The catalog of a standing service, with a table to load into."""
    with connect(index=str(lake / "index" / "i.db"), metastore=None, warehouse=str(lake / "warehouse")) as catalog:
        catalog.create_namespace("s")
        catalog.allowed.restrict(allowed_locations(catalog.settings.conf, standing=True))
        catalog.allowed.keep_private([str(lake / "etc" / "token")])
        (lake / "warehouse" / "t" / "k=0").mkdir(parents=True)
        catalog.register_table(
            "s.t", location=str(lake / "warehouse" / "t"), format="text", schema="value STRING",
            partition_columns={"k": "STRING"},
        )  # fmt: skip
        yield catalog


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and "index" not in path.parts}


def definition(catalog: Catalog) -> Any:
    return catalog.load_table("s.t").definition


COMMANDS: dict[str, Callable[[Catalog, str], object]] = {
    "LOAD DATA": lambda c, at: c.loading.load(c.load_table("s.t"), at, {"k": "1"}),
    "LOAD DATA of a pattern": lambda c, at: c.loading.load(c.load_table("s.t"), f"{at}/*", {"k": "1"}),
    "register_table": lambda c, at: c.register_table("s.x", location=at, format="csv", options={"header": "true"}),
    "register_table of a pattern": lambda c, at: c.register_table("s.x", location=f"{at}/{{a,k=*}}", format="csv"),
    "CREATE TABLE": lambda c, at: c.complete_definition(definition(c), at),
    "CREATE NAMESPACE": lambda c, at: c.create_namespace("n", location=at),
    "ALTER NAMESPACE": lambda c, at: c.alter_namespace("s", {"location": at}),
    "SET LOCATION": lambda c, at: c.alterations._checked_location(definition(c), at),
    "ADD PARTITION": lambda c, at: c.partition_commands._chosen_location(c.load_table("s.t"), "k=1", at),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", ["elsewhere/k=1", "elsewhere/missing", "warehouse/way-out/k=1", "index"])
def test_location_outside_the_roots_is_refused(standing: Catalog, lake: Path, command: str, place: str) -> None:
    """Before the store is asked: an error does not say what is there. Symbolic links are followed."""
    before = everything(lake)
    with pytest.raises(LocationNotAllowedError, match=r"is refused"):
        COMMANDS[command](standing, str(lake / place))
    assert everything(lake) == before


@pytest.mark.parametrize("allow", ["*", None])
@pytest.mark.parametrize("private", ["etc/token", "index/i.db", "index/i.db-wal"])
def test_index_and_token_are_never_loaded(standing: Catalog, lake: Path, private: str, allow: str | None) -> None:
    standing.allowed.restrict(allowed_locations({} if allow is None else {"storage.allow": allow}, standing=True))
    before = (lake / "etc" / "token").read_text(encoding="ascii")
    with pytest.raises(LocationNotAllowedError):
        standing.loading.load(standing.load_table("s.t"), str(lake / private), {"k": "1"})
    assert (lake / "etc" / "token").read_text(encoding="ascii") == before
    assert (lake / "index" / "i.db").exists()


def test_folder_that_shows_a_token_is_refused_by_a_standing_service(standing: Catalog, lake: Path) -> None:
    standing.allowed.restrict(allowed_locations({"storage.allow": str(lake)}, standing=True))
    for location in (str(lake / "etc"), str(lake), f"{lake}/e*/tok*", f"{lake}/{{etc,x}}"):
        with pytest.raises(LocationNotAllowedError):
            standing.allowed.require(location)
    standing.allowed.require(str(lake / "elsewhere"))
    standing.allowed.require(str(lake), reads=False)


def test_setting_allows_more_and_the_error_names_it(standing: Catalog, lake: Path) -> None:
    with pytest.raises(LocationNotAllowedError, match=r"storage\.allow .*CATALOG_EXT_STORAGE_ALLOW"):
        standing.register_table("s.x", location=str(lake / "elsewhere"), format="csv", schema="x STRING")
    standing.allowed.restrict(allowed_locations({"storage.allow": f"s3a://b/x, {lake}/elsewhere"}, standing=True))
    standing.register_table("s.x", location=str(lake / "elsewhere"), format="csv", schema="x STRING")
    standing.allowed.restrict(allowed_locations({}, standing=True))
    standing.allowed.require(str(lake / "elsewhere" / "k=1"))  # the location of a table now


def test_session_may_name_any_folder_of_its_user(lake: Path) -> None:
    with connect(index=str(lake / "index" / "i.db"), metastore=None, warehouse=str(lake / "warehouse")) as catalog:
        catalog.create_namespace("s")
        catalog.register_table("s.x", location=str(lake / "elsewhere"), format="csv", schema="x STRING")
        with pytest.raises(LocationNotAllowedError):
            catalog.loading.load(catalog.load_table("s.x"), str(lake / "index" / "i.db"), {"k": "1"})


def test_standing_service_of_a_bucket_serves_no_local_file(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a network the client would wait four seconds for the bucket's region, and two for the machine's keys.
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    settings = Settings.resolve(index=str(lake / "index" / "i.db"), metastore=None, warehouse="s3a://bucket/warehouse")
    with Catalog(settings, settings.open_storage) as catalog:
        catalog.create_namespace("s", location=str(lake / "elsewhere"))
        catalog.allowed.restrict(allowed_locations({}, standing=True))
        catalog.allowed.require("s3a://bucket/warehouse/s.db/t")
        for place in (
            str(lake / "elsewhere"),
            "s3a://bucket/warehouse2",
            "s3a://other/warehouse",
            "hdfs://n/warehouse",
        ):
            with pytest.raises(LocationNotAllowedError):
                catalog.allowed.require(place)


def test_service_refuses_an_adhoc_path_with_403(standing: Catalog, lake: Path) -> None:
    with Service(standing) as service:
        client = Client(service)
        for operation, more in (("paths/load", {"format": "csv"}), ("paths/plan", {"keys": []})):
            answer = client.call(operation, path=str(lake / "elsewhere"), **more)
            assert (answer.status, answer.error["code"]) == (403, "CATALOG_EXT_LOCATION_NOT_ALLOWED")
    assert PathPlan(str(lake), None, (), None).path == str(lake)


@pytest.mark.parametrize(
    "pattern", ["warehouse/t/k=*", "warehouse/{t,u}/k={0..3}/*.txt", "elsewhere/**", "ware{house,}/t"]
)
def test_pattern_is_allowed_by_the_directories_above_its_wildcards(standing: Catalog, lake: Path, pattern: str) -> None:
    standing.allowed.restrict(
        allowed_locations({"storage.allow": f"s3a://b/logs, {lake}/elsewhere, {lake}/ware"}, standing=True)
    )
    standing.allowed.require(f"{lake}/{pattern}")
    standing.allowed.require("s3a://b/logs/year=*/month={01..03}/*.parquet")
    for refused in (f"{lake}/{{elsewhere,etc}}/x*", f"{lake}/else*/k=1", "s3a://b/log*/year=1"):
        with pytest.raises(LocationNotAllowedError, match="is refused"):
            standing.allowed.require(refused)


def test_setting_that_names_no_location_is_refused() -> None:
    with pytest.raises(InvalidConfigurationError, match="give locations"):
        allowed_locations({"storage.allow": "relative/path"}, standing=True)


def test_links_of_roots_are_followed_too(lake: Path) -> None:
    (lake / "by-link").symlink_to(lake / "warehouse")
    allowed = AllowedLocations(Allowed(everything=False), lambda: [f"file://{lake}/by-link"], [])
    allowed.require(str(lake / "warehouse" / "t"))
    allowed.require(str(lake / "by-link" / "t"))


def test_many_locations_ask_for_the_known_roots_once(standing: Catalog, lake: Path) -> None:
    """Each partition of an import at a place of its own sent a query for each namespace."""
    standing.allowed.restrict(allowed_locations({"storage.allow": "*"}, standing=True))
    standing.register_table("s.x", location=str(lake / "elsewhere"), format="csv", schema="x STRING")
    standing.allowed.restrict(allowed_locations({}, standing=True))
    require, before = standing.allowed.for_many(), standing.index.query_count
    for i in range(10):
        require(Location.parse(str(lake / "elsewhere" / f"other/k={i}")))
    with pytest.raises(LocationNotAllowedError):
        require(Location.parse(str(lake / "etc")))
    assert standing.index.query_count - before == 1


def test_roots_of_many_namespaces_are_one_query(standing: Catalog, lake: Path) -> None:
    for number in range(20):
        standing.create_namespace(f"n{number}", location=str(lake / "warehouse" / f"n{number}"))
    asked: list[str] = []
    engine = standing.index._database.engine
    sa.event.listen(engine, "before_cursor_execute", lambda _, __, statement, *more: asked.append(statement))
    with pytest.raises(LocationNotAllowedError):
        standing.allowed.require(str(lake / "elsewhere"))
    assert len([statement for statement in asked if statement.lstrip().startswith("SELECT")]) == 1


@pytest.mark.parametrize("place", ["/proc/self/environ", "/proc", "/proc/1/fd", "/proc/self/root/proc/1/environ"])
def test_environment_of_processes_is_never_served(standing: Catalog, place: str) -> None:
    """Passwords of databases and stores are in it."""
    standing.allowed.restrict(allowed_locations({"storage.allow": "*"}, standing=True))
    with pytest.raises(LocationNotAllowedError):
        standing.allowed.require(place)
