"""A notebook's kernel, with the service inside it: what cells show, and an interrupted one."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.manager import start_new_kernel

from tests.integration.standing_service import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_client.blocking.client import BlockingKernelClient
    from jupyter_client.manager import KernelManager

pytestmark = pytest.mark.spark

_TIMEOUT_S = 120
_CONFIGURE = """
import catalog_ext
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).config("spark.driver.memory", "1g")
builder = builder.config("spark.sql.shuffle.partitions", 2)
spark = catalog_ext.configure(builder, warehouse="warehouse", index="index.db", metastore=None).getOrCreate()
"""


class Notebook:
    """Runs cells, and collects what they show."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient, folder: Path) -> None:
        self.folder = folder
        self._manager = manager
        self._client = client

    def show(self, code: str, *, interrupt_at: str | None = None) -> dict[str, str]:
        """What a cell shows, by its kind: a MIME type, ``stdout``, ``stderr``, ``bar`` or the name of an exception.

        Args:
            code: The cell.
            interrupt_at: The kernel is interrupted when the cell has written this.
        """
        cell = self._client.execute(code, allow_stdin=False)
        shown: dict[str, str] = {}
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=_TIMEOUT_S)
            except queue.Empty:
                pytest.fail(f"The cell {code!r} did not end; it has shown {shown}")
            if message["parent_header"].get("msg_id") != cell:
                continue
            content: dict[str, Any] = message["content"]
            match message["msg_type"]:
                case "stream":
                    shown[content["name"]] = shown.get(content["name"], "") + content["text"]
                case "display_data" | "update_display_data" if content.get("transient", {}).get("display_id"):
                    shown["bar"] = shown.get("bar", "") + (content["data"]["text/html"] or "(gone)")
                case "execute_result" | "display_data":
                    shown |= content["data"]
                case "error":
                    shown[content["ename"]] = content["evalue"]
                case "status" if content["execution_state"] == "idle":
                    return shown
            if interrupt_at is not None and interrupt_at in "".join(shown.values()):
                self._manager.interrupt_kernel()
                interrupt_at = None


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    folder = tmp_path_factory.mktemp("notebook")
    home = {"IPYTHONDIR": str(folder), "JUPYTER_RUNTIME_DIR": str(folder)}
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(folder), env=environment(None) | home)
    notebook = Notebook(manager, client, folder)
    try:
        shown = notebook.show(_CONFIGURE)
        assert set(shown) <= {"stderr"}, shown
        notebook.show("spark.sql('CREATE NAMESPACE lake.s')")
        yield notebook
    finally:
        notebook.show("spark.stop()")
        client.stop_channels()
        manager.shutdown_kernel()


def test_cells_show_rows_and_reports(notebook: Notebook, tmp_path: Path) -> None:
    notebook.show("spark.range(6).selectExpr('id', 'id % 3 AS k').writeTo('lake.s.t').partitionedBy('k').create()")
    shown = notebook.show("spark.sql('SELECT k, sum(id) AS s FROM lake.s.t WHERE k > 1 GROUP BY k').show()")
    assert shown["stdout"] == "+---+---+\n|  k|  s|\n+---+---+\n|  2|  7|\n+---+---+\n\n"
    notebook.show("spark.conf.set('spark.sql.repl.eagerEval.enabled', True)")
    assert (
        "<tr><td>2</td><td>5</td></tr>"
        in notebook.show("spark.sql('SELECT k, id FROM lake.s.t WHERE id = 5')")["text/html"]
    )
    notebook.show("import shutil; shutil.rmtree('warehouse/s.db/t/k=1')")
    shown = notebook.show("catalog_ext.repair_partitions('lake.s.t')")
    assert "dropped 1 partition" in shown["text/plain"]
    assert '<table class="cx-rows">' in shown["text/html"]
    # No codes of a terminal beside it, and a bar only where it takes a while.
    assert set(shown) - {"bar"} == {"text/plain", "text/html"}
    # A cell that is run again finds the session that is there.
    assert notebook.show(_CONFIGURE + "\nspark.table('lake.s.t').count()")["text/plain"] == "4"
    for name, other in (("index", '"index.db"'), ("warehouse", '"warehouse"'), ("metastore", "None")):
        changed = _CONFIGURE.replace(f"{name}={other}", f"{name}={'embedded' if name == 'metastore' else 'other'!r}")
        assert f"of the running session has another {name}" in notebook.show(changed)["InvalidConfigurationError"]
    assert not (notebook.folder / "other").exists()
    notebook.show("builder = SparkSession.builder")
    assert notebook.show("type(catalog_ext.configure(builder)) is type(builder)")["text/plain"] == "True"


@pytest.mark.parametrize("name", ["s.cached", "lake.s.cached", "`s`.`cached`"])
def test_what_is_cached_is_read_anew_after_a_repair(notebook: Notebook, name: str) -> None:
    notebook.show("spark.sql('CREATE OR REPLACE TABLE lake.s.cached (id INT, k INT) PARTITIONED BY (k)')")
    notebook.show("spark.sql('INSERT INTO lake.s.cached VALUES (1, 1)')")
    assert notebook.show("spark.table('lake.s.cached').cache().count()")["text/plain"] == "1"
    place = "next(pathlib.Path('warehouse/s.db').glob('cached*'))"
    notebook.show(f"import pathlib, shutil; place = {place}; shutil.copytree(place / 'k=1', place / 'k=2')")
    notebook.show(f"catalog_ext.repair_partitions({name!r})")
    assert notebook.show("spark.table('lake.s.cached').count()")["text/plain"] == "2"
    notebook.show("spark.sql('DROP TABLE lake.s.cached')")


def test_cells_show_cards_lists_and_bars(notebook: Notebook) -> None:
    notebook.show("spark.sql('CREATE TABLE lake.s.c (id BIGINT, k BIGINT) PARTITIONED BY (k)')")
    notebook.show("spark.sql('INSERT INTO lake.s.c SELECT id, id % 3 FROM range(6)')")
    notebook.show("lake = catalog_ext.active_catalog()")
    assert "lake.s.c" in notebook.show("lake.table('s.c')")["text/html"]
    assert notebook.show("lake.table('s.c')")["text/plain"].startswith("lake.s.c (managed table)")
    assert "s.c" in notebook.show("lake")["text/html"]
    shown = notebook.show("lake.partitions('s.c')")
    assert "<bdi>k=2</bdi>" in shown["text/html"]
    assert shown["text/plain"].splitlines()[0].startswith("partition")
    assert "pyarrow.Table" in notebook.show("import pyarrow; pyarrow.table({'a': [1]})")["text/plain"]
    shown = notebook.show("lake.history('s.c')")
    assert "<bdi>INSERT</bdi>" in shown["text/html"]
    assert shown["text/plain"].splitlines()[2].split()[:2] == ["1", "INSERT"]
    assert "<svg" in notebook.show("lake.table('s.c').plot_partitions()")["text/html"]
    notebook.show("import catalog_ext.notebook.cell_progress as bars; bars.AFTER_S = bars.EVERY_S = 0.0")
    bar = notebook.show("lake.repair_partitions('s.c');")["bar"]
    assert "<progress" in bar
    assert bar.endswith("(gone)")
    # A service's thread works for another client.
    assert "bar" not in notebook.show("spark.sql('CALL lake.system.repair_partitions(\\'s.c\\')').collect();")


def test_an_error_is_sparks(notebook: Notebook) -> None:
    shown = notebook.show("spark.sql(\"CALL lake.system.repair_partitions('s.nope')\")")
    assert shown["AnalysisException"].startswith("[CATALOG_EXT_TABLE_NOT_FOUND]")
    assert "s.nope" in shown["AnalysisException"]


def test_an_interrupted_write_leaves_nothing(notebook: Notebook) -> None:
    notebook.show("spark.sql('CREATE TABLE lake.s.w (id BIGINT, k BIGINT) PARTITIONED BY (k)')")
    forever = "spark.sql('INSERT INTO lake.s.w SELECT sum(id), 1 FROM range(100000000000) WHERE hash(id) = 0')"
    # Spark's own bar says that it runs.
    assert "KeyboardInterrupt" in notebook.show(forever, interrupt_at="[Stage")
    # IPython's interrupt does not reach Spark: the job is cancelled by Spark's own call.
    notebook.show("spark.sparkContext.cancelAllJobs()")
    # The write's own end; a write that is under way would be listed as such.
    shown = notebook.show(
        "import time\n"
        "deadline = time.monotonic() + 60\n"
        "while (left := spark.table('lake.s.w.transactions').where(\"state <> 'aborted'\").collect()):\n"
        "    assert time.monotonic() < deadline, left\n"
        "    time.sleep(0.05)\n"
        "print(spark.table('lake.s.w').count())"
    )
    assert shown["stdout"] == "0\n", shown
