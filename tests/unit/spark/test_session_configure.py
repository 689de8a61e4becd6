"""What ``configure`` refuses before it starts anything."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

import catalog_ext
from catalog_ext.connector import build
from catalog_ext.metastore.errors import EnvironmentSetupError, InvalidConfigurationError
from catalog_ext.spark import session
from catalog_ext.spark.submitted import add_to_running_jvm
from tests.kit.sparks import SPARK

if TYPE_CHECKING:
    from collections.abc import Callable

_SERVER = "sc://spark.example:15002"


def test_connect_client_gets_an_error_that_names_the_server() -> None:
    builder = SparkSession.Builder().config("spark.remote", f"{_SERVER}/;token=secret")
    with pytest.raises(InvalidConfigurationError, match=_SERVER) as caught:
        catalog_ext.configure(builder, metastore=None)
    assert "catalog-ext serve" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_environment_names_a_connect_server_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", _SERVER)
    with pytest.raises(InvalidConfigurationError, match=_SERVER):
        catalog_ext.configure(SparkSession.Builder(), metastore=None)


@pytest.mark.parametrize(("given", "name"), [(SparkSession, "SparkSession"), ("lake", "str")])
def test_what_is_no_builder_is_named(given: Any, name: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=rf"was given {name}\..*configure\(SparkSession\.builder\)"):
        catalog_ext.configure(given, metastore=None)


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "local:", "local://"])
def test_a_jar_for_another_spark_is_refused_however_it_is_named(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "connector.jar"
    build.write_zip(jar, [(build.VERSION_ENTRY, b"3.9.9")])
    monkeypatch.setattr(build, "connector_jar", lambda: jar)
    builder = SparkSession.Builder().config("spark.jars", f"https://example.org/other.jar,{scheme}{jar}")
    with pytest.raises(EnvironmentSetupError, match=r"catalog-ext for Spark 3\.9"):
        catalog_ext.configure(builder, warehouse=str(tmp_path), metastore=None)


class _Jvm:
    """A running JVM whose class loader keeps what it is given, or refuses it."""

    def __init__(self, *, refuses: bool) -> None:
        self.java = self.lang = self.net = self.Thread = self.System = self
        self.urls: list[str] = []
        self.properties: dict[str, str] = {}
        self._refuses = refuses

    def URL(self, text: str) -> str:
        return text

    def currentThread(self) -> _Jvm:
        return self

    def getProperty(self, key: str) -> str | None:
        return self.properties.get(key)

    def getContextClassLoader(self) -> _Jvm:
        return self

    def addURL(self, url: str) -> None:
        if self._refuses:
            raise Py4JError("addURL does not exist in the JVM")
        self.urls.append(url)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Callable[[_Jvm], None]:
    def run(jvm: _Jvm) -> None:
        monkeypatch.setattr(SparkContext, "_gateway", object())
        monkeypatch.setattr(SparkContext, "_jvm", jvm)
        monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda: None)

    return run


def test_a_jvm_that_runs_already_is_given_the_connector(running: Callable[[_Jvm], None]) -> None:
    jvm = _Jvm(refuses=False)
    running(jvm)
    add_to_running_jvm(Path("/opt/connector.jar"))
    assert jvm.urls == ["file:///opt/connector.jar"]


def test_jvm_that_does_not_take_it_is_an_error_with_the_remedy(running: Callable[[_Jvm], None]) -> None:
    running(_Jvm(refuses=True))
    with pytest.raises(EnvironmentSetupError, match=r"spark-submit --jars /opt/connector\.jar"):
        add_to_running_jvm(Path("/opt/connector.jar"))


def test_lists_that_spark_submit_has_begun_are_gone_on_with(
    running: Callable[[_Jvm], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jvm = _Jvm(refuses=False)
    jvm.properties = {"spark.jars": "/opt/udf.jar", "spark.sql.extensions": "io.delta.Extensions", "spark.master": "x"}
    running(jvm)
    monkeypatch.setattr(build, "connector_jar", lambda: Path("/opt/connector.jar"))
    conf = session.serve_catalog({}, warehouse=str(tmp_path / "w"), index=str(tmp_path / "index.db"), metastore=None)
    session.stop("lake")
    assert conf["spark.jars"] == "/opt/udf.jar,/opt/connector.jar"
    assert conf["spark.sql.extensions"] == f"io.delta.Extensions,{session.EXTENSIONS_CLASS}"
    assert "spark.master" not in conf


def test_error_without_java_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentSetupError, match="No Java was found"):
        catalog_ext.configure(SparkSession.Builder(), warehouse=str(tmp_path / "w"), metastore=None)
    assert list(tmp_path.iterdir()) == []


def test_unsuitable_java_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: Callable[[_Jvm], None]
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="11.0.22"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(EnvironmentSetupError, match=r"Java 11 at .* is too old"):
        catalog_ext.configure(SparkSession.Builder(), warehouse=str(tmp_path / "w"), metastore=None)
    assert not (tmp_path / "w").exists()
    # A JVM that runs has its Java.
    running(_Jvm(refuses=True))
    monkeypatch.setattr(build, "connector_jar", lambda: Path("/opt/connector.jar"))
    with pytest.raises(EnvironmentSetupError, match="does not take the connector"):
        catalog_ext.configure(SparkSession.Builder(), warehouse=str(tmp_path / "w"), metastore=None)


_FORKS = """
import json, os, sys, time, urllib.request
from pathlib import Path
from catalog_ext.connector import build
from catalog_ext.spark import session

build.connector_jar = lambda: Path("/opt/connector.jar")
conf = session.serve_catalog({}, warehouse=sys.argv[1], index=sys.argv[1] + "/index.db", metastore=None)
child = os.fork()
if child == 0:
    sys.exit(len(session._running))  # by the way of every program, past what is registered for its end
deadline = time.monotonic() + 20
while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
    time.sleep(0.05)
if ended == (0, 0):
    os.kill(child, 9)
token = Path(conf["spark.sql.catalog.lake.token-file"]).read_text()
request = urllib.request.Request(conf["spark.sql.catalog.lake.uri"] + "/health", headers={"Authorization": token})
answer = urllib.request.urlopen(request, timeout=10).status
print(json.dumps({"child": ended[1], "service": answer, "namespaces": session.active_catalog().list_namespaces()}))
"""


@pytest.mark.slow
def test_threads_that_configure_one_catalog_leave_one_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "connector_jar", lambda: Path("/opt/connector.jar"))
    together = threading.Barrier(2)
    stop = session.stop

    def stops(catalog: str, drain_seconds: int | None = None) -> None:
        stop(catalog, drain_seconds)
        together.wait(10)

    monkeypatch.setattr(session, "stop", stops)

    def configured() -> str:
        index = str(tmp_path / "index.db")
        conf = session.serve_catalog({}, warehouse=str(tmp_path), index=index, metastore=None)
        return conf["spark.sql.catalog.lake.uri"]

    with ThreadPoolExecutor(2) as threads:
        uris = {thread.result() for thread in [threads.submit(configured), threads.submit(configured)]}
    try:
        left = session._running["lake"].service.uri
        (ended,) = uris - {left}
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(ended + "/health", timeout=5)
    finally:
        stop("lake")


@pytest.mark.slow
def test_a_forked_child_leaves_the_service_to_its_parent(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORKS, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"child": 0, "service": 200, "namespaces": []}


def test_spark_home_of_another_spark_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With it SQL works, and `toPandas` fails in words of Py4J."""
    other = "4.0.5" if SPARK != (4, 0) else "4.3.0"
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"spark-core_2.13-{other}.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(EnvironmentSetupError, match="to be of one minor version: unset SPARK_HOME"):
        catalog_ext.configure(SparkSession.Builder(), warehouse=str(tmp_path / "w"), metastore=None)
    assert not (tmp_path / "w").exists()
