"""What an installed wheel holds, and that nothing of a user's folder gets in its way."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PROJECT = Path(__file__).resolve().parents[2]
SCRIPT = """
import os, catalog_ext
with catalog_ext.connect(metastore=None, warehouse="wh", index="index.db") as catalog:
    catalog.create_namespace("n")
    catalog.register_table("n.t", location=os.path.abspath("data"), partition_columns={"k": "int"})
    print(catalog.repair_partitions("n.t").version, catalog.partitions("n.t").num_rows, catalog_ext.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    options = ["--quiet", "--no-build-isolation", "--offline", "--python", sys.executable, "--out-dir", str(folder)]
    # From the sources' archive, as a release is made: the links of the tree are files there.
    subprocess.run([str(uv), "build", "--sdist", *options, str(PROJECT)], check=True)
    (archive,) = folder.glob("*.tar.gz")
    subprocess.run([str(uv), "build", "--wheel", *options, str(archive)], check=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel is installed in."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_a_wheel_has_one_namespace_and_the_product_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"catalog_ext"}
    rooms = {name.split("/")[1] for name in names if name.startswith("catalog_ext/")}
    assert {"metastore", "migrations", "connector"} <= rooms
    assert not {"demo", "examples", "tests", "tools", "docs"} & {part for name in names for part in name.split("/")}
    sources = {str(p.relative_to(PROJECT)) for p in (PROJECT / "metastore").rglob("*") if p.suffix in {".py", ".java"}}
    assert {f"catalog_ext/{source}" for source in sources} <= set(names)
    assert {f"catalog_ext/migrations/versions/{p.name}" for p in PROJECT.glob("migrations/versions/*.py")} <= set(names)
    assert [name for name in names if name.endswith(".scala")]


def test_files_of_a_job_with_our_names_are_in_nobodys_way(installed: Path, tmp_path: Path) -> None:
    for name in ("metastore.py", "conf.py", "errors.py", "migrations/__init__.py", "migrations/env.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise RuntimeError('the file of a user, which nobody asked for')\n")
    (tmp_path / "data" / "k=1").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "data" / "k=1" / "a.parquet")

    def run(*command: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        answer = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    assert run("-c", SCRIPT).split() == ["1", "1", str(installed / "catalog_ext" / "__init__.py")]
    # `-m` puts the working directory in front, as a notebook does.
    options = ("--index", "index.db", "--metastore", "none", "--warehouse", "wh")
    assert "n.t" in run("-m", "catalog_ext.cli.main", *options, "tables")
    # Theirs is found by its name, and ours is not: no module of a common name is installed.
    found = run(
        "-c", "import importlib.util as u; print(*(u.find_spec(n).origin for n in ('metastore', 'migrations')))"
    )
    assert found.split() == [str(tmp_path / "metastore.py"), str(tmp_path / "migrations" / "__init__.py")]
