"""A metastore that does not answer is warned of once, and is the reason that what is pending has."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import catalog_ext

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_reason_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "t" / "k=1").mkdir(parents=True)
    with (
        caplog.at_level(logging.WARNING),
        catalog_ext.connect(
            index=str(tmp_path / "i.db"), metastore="thrift://127.0.0.1:1", warehouse=str(tmp_path / "w")
        ) as catalog,
    ):
        catalog.create_namespace("s")
        table = catalog.register_table(
            "s.t", location=str(tmp_path / "t"), format="csv", schema="x INT", partition_columns={"k": "INT"}
        )
        said = [record.getMessage() for record in caplog.records if "cannot be used" in record.getMessage()]
        assert len(said) == 1
        assert "--metastore none" in said[0]
        assert "Connection refused" in catalog.metastore_state(table)


def test_the_reason_is_logged_once_when_the_first_change_is_a_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "k=1").mkdir(parents=True)
    index, warehouse = str(tmp_path / "i.db"), str(tmp_path / "w")
    with catalog_ext.connect(index=index, metastore="thrift://127.0.0.1:1", warehouse=warehouse) as catalog:
        catalog.create_namespace("s")
    caplog.clear()
    with caplog.at_level(logging.WARNING), catalog_ext.connect(index=index) as catalog:
        for name in ("a", "b"):
            catalog.register_table(
                f"s.{name}", location=str(tmp_path / name), format="csv", schema="x INT", partition_columns={"k": "INT"}
            )
        said = [record.getMessage() for record in caplog.records if "cannot be used" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("Table s.a is registered in the index alone for now, and delivered later: ")
