"""Plain Python scripts: on a cluster beside a standing service, and with the service inside them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

import catalog_ext
from catalog_ext.connector.build import connector_jar
from tests.integration.client_servers import SparkServer
from tests.integration.standing_service import conf_folder, program, run
from tests.servers.certificates import PASSWORD, Authority
from tests.servers.processes import free_ports
from tests.servers.tls_proxy import TlsProxy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.integration.standing_service import StandingService

pytestmark = pytest.mark.spark

_ON_A_CLUSTER = """
import json
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("plain").getOrCreate()
spark.sql("CREATE NAMESPACE lake.s")
spark.sql("CREATE TABLE lake.s.t PARTITIONED BY (k) AS SELECT id, id % 3 AS k FROM range(0, 90, 1, 6)")
spark.range(10).selectExpr("id", "7L AS k").writeTo("lake.s.t").append()
spark.sql("ALTER TABLE lake.s.t DROP PARTITION (k < 1)")
found = {
    "sums": [list(row) for row in spark.sql("SELECT k, sum(id) FROM lake.s.t GROUP BY k ORDER BY k").collect()],
    "executors": spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
}
try:
    spark.table("lake.s.nope")
except PySparkException as error:
    found["error"] = error.getCondition()
print(json.dumps(found))
spark.stop()
"""

_INSIDE = """
import json, os, shutil
import catalog_ext
from catalog_ext.spark.session import _running
from pyspark.sql import SparkSession

builder = SparkSession.builder
if "CONNECT" in os.environ:
    builder = builder.remote(os.environ["CONNECT"])
settings = {"warehouse": "warehouse", "index": "index.db", "metastore": None}
spark = catalog_ext.configure(builder, **settings).getOrCreate()
spark.sql("CREATE NAMESPACE lake.s")
spark.range(6).selectExpr("id", "id % 2 AS k").writeTo("lake.s.t").partitionedBy("k").create()
shutil.rmtree("warehouse/s.db/t/k=0")
report = catalog_ext.repair_partitions("lake.s.t")
# As a cell of a notebook that is run twice.
assert catalog_ext.configure(SparkSession.builder, **settings).getOrCreate() is spark
with catalog_ext.connect(index="index.db", warehouse="warehouse", metastore=None) as catalog:
    partitions = catalog.partitions("s.t")["partition"].to_pylist()
rows = spark.sql("SELECT k, count(*) FROM lake.s.t GROUP BY k").collect()
(running,) = _running.values()
assert running.token_file.stat().st_mode & 0o77 == 0
for process in os.listdir("/proc"):
    try:
        shown = open(f"/proc/{process}/cmdline").read()
    except OSError:
        continue
    assert running.service.token not in shown
print(json.dumps([type(spark).__module__, len(report.dropped), partitions, [list(row) for row in rows]]))
spark.stop()
"""


_INTERRUPTED = """
import json, os, signal, time
import catalog_ext
from catalog_ext.metastore.commit.fault_points import armed
from pyspark.sql import SparkSession

settings = {"warehouse": "warehouse", "index": "index.db", "metastore": None}
spark = catalog_ext.configure(SparkSession.builder, **settings).getOrCreate()
spark.sql("CREATE NAMESPACE lake.s")
spark.sql("CREATE TABLE lake.s.t (id BIGINT, k INT) PARTITIONED BY (k)")

def interrupt(_):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(3)

with armed("promote.before", interrupt):
    try:
        spark.sql("INSERT INTO lake.s.t SELECT id, id % 3 FROM range(9)")
    except KeyboardInterrupt:
        print(json.dumps("interrupted"))
"""


def _printed(
    command: Sequence[str], script: str, conf: Path | None, folder: Path, further: dict[str, str] | None = None
) -> Any:
    """What the script has printed last, in JSON."""
    file = folder / "script.py"
    file.write_text(script)
    done = run([*command, str(file)], conf, folder, further)
    assert done.returncode == 0, done.stderr[-3000:]
    # spark-submit puts what Python writes to standard error there as well.
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a standalone master with two workers, each with room for one executor."""
    port, *others = free_ports(4)
    at = ["--host", "127.0.0.1", "--webui-port"]
    deploy = [program("bin/spark-class"), "org.apache.spark.deploy"]
    master = f"spark://127.0.0.1:{port}"

    def server(name: str, port: int, *command: str) -> SparkServer:
        return SparkServer(name, [deploy[0], f"{deploy[1]}.{command[0]}", *command[1:]], port, None, tmp_path)

    servers = [server("master", port, "master.Master", *at, str(others[0]), "--port", str(port))]
    for number in (1, 2):
        room = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work-{number}")]
        ui = str(others[number])
        servers.append(server(f"worker {number}", int(ui), "worker.Worker", master, *at, ui, *room))
    try:
        for each in servers:
            each.wait()
        yield master
    finally:
        for each in reversed(servers):
            each.stop()


@pytest.mark.slow
def test_spark_submit_on_a_cluster_beside_a_standing_service(
    standing_service: StandingService, cluster: str, tmp_path: Path
) -> None:
    # The driver speaks TLS with a proxy before the service; its JVM has to trust who signed the certificate.
    authority = Authority(tmp_path)
    proxy = TlsProxy(tmp_path, authority, urlsplit(standing_service.uri).netloc)
    trusting = {"": authority.trust_store(), "Type": "PKCS12", "Password": PASSWORD}
    settings = {
        "spark.master": cluster,
        "spark.executor.memory": "600m",
        # The tasks wait for both executors, however busy the machine is.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.driver.extraJavaOptions": " ".join(
            f"-Djavax.net.ssl.trustStore{name}={value}" for name, value in trusting.items()
        ),
        "spark.sql.catalog.lake.uri": proxy.uri,
    }
    try:
        conf = conf_folder(standing_service, settings)
        assert _printed([program("bin/spark-submit"), "--deploy-mode", "client"], _ON_A_CLUSTER, conf, tmp_path) == {
            "sums": [[1, 1335], [2, 1365], [7, 45]],
            "executors": 2,
            "error": "TABLE_OR_VIEW_NOT_FOUND",
        }
    finally:
        proxy.stop()
    for number in (1, 2):
        assert list((tmp_path / f"work-{number}").glob(f"app-*/*/{connector_jar().name}")), "its executor got the jar"


def test_spark_submit_with_the_service_inside(tmp_path: Path) -> None:
    command = [program("bin/spark-submit"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    expected = ["pyspark.sql.session", 1, ["k=1"], [[1, 3]]]
    assert _printed(command, _INSIDE, None, tmp_path) == expected


def test_a_spark_connect_server_of_ones_own_with_the_service_inside(tmp_path: Path) -> None:
    expected = ["pyspark.sql.connect.session", 1, ["k=1"], [[1, 3]]]
    assert _printed([sys.executable], _INSIDE, None, tmp_path, {"CONNECT": "local[2]"}) == expected


def test_commit_in_flight_when_an_interrupted_script_ends_is_complete(tmp_path: Path) -> None:
    """Cut off in the middle a later recovery would finish it, and its rows be there twice after another try."""
    assert _printed([sys.executable], _INTERRUPTED, None, tmp_path) == "interrupted"
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), warehouse=str(tmp_path / "warehouse"), metastore=None
    ) as catalog:
        (written,) = [each for each in catalog.list_transactions("s.t") if each.operation == "INSERT"]
        assert (written.state, catalog.load_table("s.t").totals.rows) == ("finished", 9)
