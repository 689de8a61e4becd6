"""The command that writes Spark's configuration files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from catalog_ext.cli.exit_codes import EXIT_USAGE
from catalog_ext.cli.init_conf import FILES
from catalog_ext.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_it_writes_every_file_and_tells_what_to_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "conf"
    assert main(["init-conf", str(folder), "--json"]) == 0
    assert _content(folder) == _content(FILES)
    told = {row["file"]: row for row in json.loads(capsys.readouterr().out)["files"]}
    defaults = told[str(folder / "spark-defaults.conf")]
    lines = (folder / "spark-defaults.conf").read_text().splitlines()
    assert defaults["action"] == "written"
    assert len(defaults["change"]) == 5
    assert all(lines[number - 1].startswith("# CHANGE") for number in defaults["change"])
    assert told[str(folder / "log4j2.properties")]["change"] == []
    assert len(told[str(folder / "monitoring" / "prometheus.yml")]["change"]) == 2


def test_it_overwrites_nothing_unless_that_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "hive-site.xml"
    mine.write_text("mine")
    assert main(["init-conf", str(tmp_path)]) == EXIT_USAGE
    assert "has hive-site.xml already. Give --force" in capsys.readouterr().err
    assert _content(tmp_path) == {"hive-site.xml": b"mine"}
    assert main(["init-conf", str(tmp_path), "--force"]) == 0
    assert "overwritten" in capsys.readouterr().out
    assert _content(tmp_path) == _content(FILES)


def test_a_folder_that_cannot_be_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["init-conf", str(tmp_path / "file" / "conf")]) == EXIT_USAGE
    assert "cannot be written to" in capsys.readouterr().err
