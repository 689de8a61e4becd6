"""The packing of a PySpark, with a stand-in for its sources and for what packs them, from a folder and no network."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.metastore.runtime.cache import CACHE_VARIABLE
from release import pyspark_jars

if TYPE_CHECKING:
    from pathlib import Path

_BACKEND = """\
import pathlib, zipfile


class Backend:
    def get_requires_for_build_wheel(self, config_settings=None):
        return []

    def build_wheel(self, folder, config_settings=None, metadata_directory=None):
        name, info = "pyspark-4.3.0-py3-none-any.whl", "pyspark-4.3.0.dist-info"
        with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
            wheel.writestr("pyspark/jars/spark-core_2.13-4.3.0.jar", "packed by {version}")
            wheel.writestr(f"{{info}}/METADATA", "Metadata-Version: 2.1\\nName: pyspark\\nVersion: 4.3.0\\n")
            wheel.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
            wheel.writestr(f"{{info}}/RECORD", "")
        return name


__legacy__ = Backend()
"""


def _tool(folder: Path, version: str) -> Path:
    """Write a wheel that is called setuptools, and return it."""
    info = f"setuptools-{version}.dist-info"
    wheel = folder / f"setuptools-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("setuptools/__init__.py", "")
        archive.writestr("setuptools/build_meta.py", _BACKEND.format(version=version))
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: setuptools\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def _pin(name: str, file: Path) -> str:
    return f"{name} --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n"


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock of a PySpark whose sources lie in a folder, beside two versions of what packs it: the older is pinned."""
    folder = tmp_path / "index"
    folder.mkdir()
    sources = folder / "pyspark-4.3.0.tar.gz"
    with tarfile.open(sources, "w:gz") as archive:
        for name, content in (
            ("setup.py", b""),
            ("PKG-INFO", b"Metadata-Version: 2.1\nName: pyspark\nVersion: 4.3.0\n"),
        ):
            entry = tarfile.TarInfo(f"pyspark-4.3.0/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    _tool(folder, "999.2")
    (tmp_path / "build.lock").write_text(_pin("setuptools==999.1", _tool(folder, "999.1")))
    (tmp_path / "pyspark.lock").write_text(_pin("pyspark==4.3.0", sources))
    monkeypatch.setattr(pyspark_jars, "BUILD", tmp_path / "build.lock")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return tmp_path / "pyspark.lock"


@pytest.mark.slow
def test_what_packs_a_pyspark_is_the_one_that_is_pinned(lock: Path) -> None:
    (jar,) = pyspark_jars.pyspark_jars("4.3", lock)
    assert (jar.name, jar.read_text()) == ("spark-core_2.13-4.3.0.jar", "packed by 999.1")


@pytest.mark.slow
def test_what_packs_a_pyspark_has_the_pinned_checksum(lock: Path, tmp_path: Path) -> None:
    (tmp_path / "build.lock").write_text(f"setuptools==999.1 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(EnvironmentSetupError, match=r"pyspark==4\.3\.0 could not be fetched"):
        pyspark_jars.pyspark_jars("4.3", lock)


def test_the_pins_of_this_tree_are_whole() -> None:
    pins = [line for line in pyspark_jars.BUILD.read_text().splitlines() if line and not line.startswith("#")]
    assert pins[0].startswith("setuptools==")
    assert all("--hash=sha256:" in line for line in pins[1:])
