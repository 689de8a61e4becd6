"""An index is moved from SQLite to PostgreSQL by the commands of docs/operations.md, followed literally."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from catalog_ext.catalog import connect
from catalog_ext.cli.main import main
from tests.kit.fakes_metastore import FakeMetastore, serving

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operations.md"
METASTORE = "thrift://metastore:9083"


def commands() -> list[list[str]]:
    """The commands of the section, block by block."""
    section = (
        PAGE.read_text(encoding="utf-8").partition("### How do I move or rebuild an index?\n")[2].partition("\n#")[0]
    )
    blocks = re.findall(r"^ *```bash\n(.*?)^ *```", section, re.MULTILINE | re.DOTALL)
    return [[line.strip() for line in block.strip().splitlines()] for block in blocks]


@pytest.fixture
def metastore(monkeypatch: pytest.MonkeyPatch) -> FakeMetastore:
    fake = FakeMetastore()
    monkeypatch.setattr("catalog_ext.conf.resolved.Settings.connect_metastore", serving(lambda _: fake))
    return fake


def fill(catalog: Catalog, root: Path) -> None:
    for day in ("1", "2"):
        (root / f"ds={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2]}), root / f"ds={day}" / "a.parquet")
    catalog.create_namespace("sales")
    catalog.register_table("sales.trips", location=str(root), partition_columns={"ds": "STRING"}, schema="id BIGINT")
    catalog.repair_partitions("sales.trips")


def test_index_moves_to_postgresql(
    metastore: FakeMetastore, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    warehouse = tmp_path / "warehouse"
    with connect(index="lake.db", metastore=METASTORE, warehouse=str(warehouse)) as old:
        fill(old, tmp_path / "trips")
        rows = old.partitions("sales.trips").drop_columns(["partition_id", "created_ms"])
    here = {"postgresql://index-host/lake": postgres_url, "s3a://bucket/warehouse": str(warehouse)}

    def run(line: str) -> int:
        for there, mine in here.items():
            line = line.replace(there, mine)
        program, *arguments = shlex.split(line)
        assert program == "catalog-ext"
        return main(arguments)

    publish, new, checked = commands()
    # One remedy for a database without an index, whichever command meets it.
    assert run(f"catalog-ext --index {postgres_url} status") != 0
    assert " init" in capsys.readouterr().err
    assert run(f"catalog-ext --index {postgres_url} doctor --quick") == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "holds no index yet." in out
    assert "Run: catalog-ext init" in out
    assert "refused a statement" not in out
    assert "migrate" not in out

    assert [run(line) for line in (*publish, *new, *checked)] == [0] * 6
    assert "All sides agree." in capsys.readouterr().out
    with connect(index=postgres_url) as moved:
        assert moved.settings.metastore == METASTORE
        assert moved.settings.warehouse == warehouse.as_uri()
        assert moved.partitions("sales.trips").drop_columns(["partition_id", "created_ms"]).equals(rows)
        assert [v.operation for v in moved.history("sales.trips")] != [], "history begins anew"
