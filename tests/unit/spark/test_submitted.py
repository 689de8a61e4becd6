"""Lists of jars and extensions that spark-defaults.conf or spark-submit have begun: ``configure`` goes on with them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.connector import build
from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.spark import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OURS = "org.apache.spark.sql.catalogext.CatalogExtExtensions"
JAR = "/opt/connector.jar"


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, str]]]:
    """What a builder's settings become, on a machine with a folder of Spark's configuration."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    (tmp_path / "conf").mkdir()
    monkeypatch.setattr(build, "connector_jar", lambda: Path(JAR))

    def configure(warehouse: str = str(tmp_path / "w"), **options: str) -> dict[str, str]:
        given = {key.replace("_", "."): value for key, value in options.items()}
        return session.serve_catalog(given, warehouse=warehouse, index=str(tmp_path / "index.db"), metastore=None)

    yield configure
    session.stop("lake")


def defaults(folder: Path, text: str, name: str = "spark-defaults.conf") -> Path:
    file = folder / "conf" / name
    file.write_text(text)
    return file


@pytest.mark.slow
def test_what_spark_defaults_say_stays(configured: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    defaults(
        tmp_path,
        "# of the platform\n!spark.jars no\nspark.sql.extensions  \\\n   io.delta.Extensions\n"
        "spark.jars=/opt/a.jar,/opt/b.jar\n\nspark.master : local[2]\nspark.empty\n",
    )
    conf = configured()
    assert conf["spark.sql.extensions"] == f"io.delta.Extensions,{OURS}"
    assert conf["spark.jars"] == f"/opt/a.jar,/opt/b.jar,{JAR}"
    assert "spark.master" not in conf
    # A builder's own word takes its place, as without us.
    assert configured(spark_jars="/mine.jar")["spark.jars"] == f"/mine.jar,{JAR}"


@pytest.mark.slow
def test_options_of_the_submission_stay_and_go_before_the_file(
    configured: Callable[..., dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults(tmp_path, "spark.jars /of/the/file.jar\nspark.sql.extensions of.the.File\n")
    arguments = (
        "--jars '/opt/a b.jar' --conf spark.sql.extensions=x.Y --conf spark.app.name='a=b' --verbose pyspark-shell"
    )
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", arguments)
    conf = configured()
    assert (conf["spark.jars"], conf["spark.sql.extensions"]) == (f"/opt/a b.jar,{JAR}", f"x.Y,{OURS}")
    # spark-submit takes --jars before the setting.
    assert shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"]) == [
        "--jars", f"/opt/a b.jar,{JAR}", "--conf", "spark.sql.extensions=x.Y", "--conf", "spark.app.name=a=b",
        "--verbose", "pyspark-shell",
    ]  # fmt: skip
    assert configured()["spark.jars"] == f"/opt/a b.jar,{JAR}", "once"


def test_packages_of_the_submission_and_those_of_s3(
    configured: Callable[..., dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages=org.example:x:1 pyspark-shell")
    conf = configured(warehouse="s3a://bucket/w")
    assert conf["spark.jars.packages"].startswith("org.example:x:1,org.apache.hadoop:hadoop-aws:")
    option, _ = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
    assert option == f"--packages={conf['spark.jars.packages']}"


@pytest.mark.slow
def test_another_file_of_settings(
    configured: Callable[..., dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults(tmp_path, "spark.jars /default.jar\n")
    named = defaults(tmp_path, "spark.jars /named.jar\n", "mine.properties")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {named} pyspark-shell")
    assert configured()["spark.jars"] == f"/named.jar,{JAR}"
    defaults(tmp_path, "spark.jars /default.jar\nspark.sql.extensions of.the.Defaults\n")
    both = f"--load-spark-defaults --properties-file {named} pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", both)
    conf = configured()
    assert (conf["spark.jars"], conf["spark.sql.extensions"]) == (f"/named.jar,{JAR}", f"of.the.Defaults,{OURS}")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--properties-file /nowhere pyspark-shell --jars")
    assert configured()["spark.jars"] == JAR


def test_an_old_jar_that_spark_defaults_name_is_refused(
    configured: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    old = tmp_path / "old.jar"
    build.write_zip(old, [(build.VERSION_ENTRY, b"3.9.9")])
    defaults(tmp_path, f"spark.jars {old}\n")
    with pytest.raises(EnvironmentSetupError, match=r"old\.jar of spark\.jars is catalog-ext for Spark 3\.9"):
        configured()
