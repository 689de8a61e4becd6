"""Tags in Python, in SQL's CALL and metadata table, and on the command line."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.cli.main import main
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import InvalidInputError, VersionExpiredError, VersionNotFoundError
from catalog_ext.metastore.model.as_of import AsOf
from catalog_ext.metastore.runtime.users import current_user
from catalog_ext.procedures.registry import find_procedure
from tests.kit.repair_cases import EU, catalog_of_files
from tests.kit.writes import insert

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A table of the versions 0 to 3; the last two are relocating overwrites."""
    with catalog_of_files(tmp_path, tmp_path / "t", f"{EU}/old.csv") as catalog:
        for _ in range(2):
            insert(catalog, EU, kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
        yield catalog


def call(catalog: Catalog, procedure: str, **arguments: object) -> list[dict[str, Any]]:
    result = find_procedure(procedure).call(catalog, arguments)
    return [row for batch in result.batches for row in batch.to_pylist()]


def test_procedures_and_the_metadata_table_show_tags(catalog: Catalog) -> None:
    row = {"name": "before-load", "version": 2, "until": None, "user": current_user(), "readable": "yes"}
    assert call(catalog, "tag", table="s.t", version=2, name="before-load") == [row]
    table = catalog.load_table("s.t")
    assert catalog.metadata_tables.read(table.table_id, "tags").read_all().to_pylist() == [row]
    assert catalog.time_travel.load(table, AsOf(tag="before-load")).version == 2
    with pytest.raises(VersionNotFoundError, match="Its tags: before-load"):
        catalog.time_travel.load(table, AsOf(tag="other"))
    assert call(catalog, "untag", table="s.t", name="before-load") == [row]
    assert catalog.tags("s.t") == []


@pytest.mark.parametrize("version", ["2", True, 2.0, None])
def test_version_of_the_procedure_is_a_number(catalog: Catalog, version: object) -> None:
    with pytest.raises(InvalidInputError, match=r"must be a bigint|cannot be NULL"):
        call(catalog, "tag", table="s.t", version=version, name="x")


@pytest.mark.parametrize(
    ("until", "at"),
    [
        ("2999-01-31", datetime(2999, 1, 31, tzinfo=timezone.utc)),
        ("2999-01-31T12:00:00+01:00", datetime(2999, 1, 31, 11, tzinfo=timezone.utc)),
        ("2999-01-31T12:00:00Z", datetime(2999, 1, 31, 12, tzinfo=timezone.utc)),
        (datetime(2999, 1, 31, 1, tzinfo=timezone(timedelta(hours=1))), datetime(2999, 1, 31, tzinfo=timezone.utc)),
    ],
)  # fmt: skip
def test_tag_ends_at_a_time(catalog: Catalog, until: str | datetime, at: datetime) -> None:
    assert catalog.tag("s.t", 2, "x", until).until_ms == round(at.timestamp() * 1000)


@pytest.mark.parametrize("until", ["soon", "2001-01-31"])
def test_time_that_is_no_end_of_a_tag_is_refused(catalog: Catalog, until: str) -> None:
    with pytest.raises(InvalidInputError, match=r"is not a time|in the past"):
        catalog.tag("s.t", 2, "x", until)


def test_background_expiry_and_vacuum_keep_a_tag(catalog: Catalog) -> None:
    catalog.alterations.alter("s.t", set_={"vacuum.retention": "0s"})
    catalog.tag("s.t", 1, "one")
    catalog.write_maintenance.expire_versions()
    (kept,) = catalog.vacuum("s.t").kept
    assert "held by the tag 'one' of version 1" in kept.reason
    catalog.write_maintenance.expire_versions()
    table = catalog.load_table("s.t")
    for _ in range(2):
        held = catalog.reads.plan_files(table.table_id, 1).read_all()
        assert held.column("path").to_pylist() == ["old.csv"]
        with pytest.raises(VersionExpiredError):
            catalog.reads.plan_files(table.table_id, 2).read_all()
        assert [version.version for version in catalog.history("s.t")] == [3, 1]
        assert catalog.vacuum("s.t").kept == (kept,)


def test_command_line_tags_and_untags(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CATALOG_EXT_METASTORE", "none")
    monkeypatch.setenv("CATALOG_EXT_INDEX", str(tmp_path / "index.db"))
    monkeypatch.setenv("CATALOG_EXT_WAREHOUSE", str(tmp_path / "warehouse"))

    def run(*arguments: str) -> tuple[int, str]:
        code = main(arguments)
        return code, capsys.readouterr().out

    assert run("tag", "s.t", "2", "before-load", "--until", "2999-01-31")[0] == 0
    code, text = run("tags", "s.t", "--json")
    assert code == 0
    (tag,) = json.loads(text)["tags"]
    assert (tag["name"], tag["version"], tag["readable"]) == ("before-load", 2, "yes")
    shown = run("tags", "s.t")[1]
    assert "before-load" in shown
    assert "2999-01-31" in shown
    assert run("tag", "s.t", "2", "41")[0] != 0
    assert run("untag", "s.t", "before-load")[0] == 0
    assert "No version is tagged." in run("tags", "s.t")[1]
    assert run("untag", "s.t", "before-load")[0] != 0
