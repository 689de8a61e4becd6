"""The command that writes Spark's configuration files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from catalog_ext.cli import EXIT_USAGE
from catalog_ext.cli.init_conf import FILES, for_this_spark
from catalog_ext.cli.main import main
from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.spark import storage

if TYPE_CHECKING:
    from pathlib import Path


def _content(folder: Path) -> dict[str, bytes]:
    files = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    return {name: for_this_spark(file.read_text()).encode() for name, file in files.items()}


def test_it_writes_every_file_and_names_what_to_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "conf"
    assert main(["init-conf", str(folder), "--json"]) == 0
    assert _content(folder) == _content(FILES)
    reported = {row["file"]: row for row in json.loads(capsys.readouterr().out)["files"]}
    defaults = reported[str(folder / "spark-defaults.conf")]
    lines = (folder / "spark-defaults.conf").read_text().splitlines()
    assert defaults["action"] == "written"
    assert len(defaults["change"]) == 5
    assert all(lines[number - 1].startswith("# CHANGE") for number in defaults["change"])
    assert reported[str(folder / "log4j2.properties")]["change"] == []
    assert len(reported[str(folder / "monitoring" / "prometheus.yml")]["change"]) == 2


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
    error = capsys.readouterr().err
    assert f"cannot be written to {tmp_path}/file/conf: Not a directory. Name a folder in which" in error
    assert "Errno" not in error


@pytest.mark.parametrize(
    ("installed", "sdk"),
    [
        ("3.4.1", "2.29.52"), ("3.4.2", "2.29.52"), ("3.5.0", "2.35.4"), (None, "2.35.4"),
        ("3.4.1-amzn-12", "2.29.52"), ("3.4.0", "2.29.52"), ("3.4.10", "2.35.4"), ("4.0", "2.35.4"),
    ],
)  # fmt: skip
def test_the_jars_of_s3a_are_the_installed_sparks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str | None, sdk: str
) -> None:
    def jar_version(name: str) -> str:
        if installed is None:
            raise EnvironmentSetupError(f"There is no {name}.")
        return installed

    monkeypatch.setattr(storage, "jar_version", jar_version)
    assert main(["init-conf", str(tmp_path)]) == 0
    packages = next(
        line for line in (tmp_path / "spark-defaults.conf").read_text().splitlines() if "hadoop-aws" in line
    )
    assert f"hadoop-aws:{installed or '3.5.0'},software.amazon.awssdk:s3:{sdk},software" in packages
    assert set(re.findall(r"awssdk:[\w-]+:([\d.]+)", packages)) == {sdk}
