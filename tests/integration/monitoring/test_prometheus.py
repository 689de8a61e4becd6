"""The rules and the dashboard of spark_conf/monitoring, in a real Prometheus that scrapes a running service."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from catalog_ext.service.server import Service, new_token
from tests.kit.repair_cases import EU, local_catalog, register, write
from tests.kit.service_client import Client
from tests.servers.processes import free_ports
from tests.servers.prometheus import WITHOUT, Prometheus, prometheus_folder
from tests.service.test_writes import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.catalog import Catalog

MONITORING = Path(__file__).parents[3] / "spark_conf" / "monitoring"
RULES = MONITORING / "catalog-ext.rules.yml"
DASHBOARD = MONITORING / "catalog-ext.grafana.json"
_WAIT_S = 30.0


@pytest.fixture(scope="module")
def programs() -> Path:
    folder = prometheus_folder()
    if folder is None:
        pytest.skip(WITHOUT)
    return folder


def _rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


# The rules by themselves: for each alert the series for which it fires, and those that are as they should be. A
# series is `value at the start` + `change a minute` x minutes.
_UP = 'up{job="catalog-ext", instance="a:1"}'
_HERE = 'job="catalog-ext", instance="a:1"'


def _of(name: str, values: str, labels: str = "") -> tuple[str, str]:
    return f"catalog_ext_{name}{{{_HERE}{labels}}}", values


def _buckets(slow: bool) -> list[tuple[str, str]]:
    fast, all_ = ("0+1x60", "0+60x60") if slow else ("0+60x60", "0+60x60")
    name = "planning_duration_seconds_bucket"
    return [_of(name, fast, ', le="5"'), _of(name, all_, ', le="10"'), _of(name, all_, ', le="+Inf"')]


def _commits(committed: str, conflict: str) -> list[tuple[str, str]]:
    found = {"committed": committed, "conflict": conflict}
    return [_of("commits_total", values, f', outcome="{outcome}"') for outcome, values in found.items()]


ALERTS: dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    "CatalogExtDown": ([(_UP, "0x60")], [(_UP, "1x60")]),
    "CatalogExtIndexDown": ([_of("index_up", "0x60")], [_of("index_up", "1x60")]),
    "CatalogExtIndexBehind": ([_of("index_behind", "1x60")], [_of("index_behind", "0x60")]),
    "CatalogExtDeliveriesLate": (
        [_of("deliveries_oldest_age_seconds", "0+60x60")], [_of("deliveries_oldest_age_seconds", "20x60")],
    ),
    "CatalogExtDeliveriesRefused": (
        [_of("deliveries_total", "0x20 3x40", ', outcome="refused"')],
        [_of("deliveries_total", "3x60", ', outcome="refused"'),
         _of("deliveries_total", "0+9x60", ', outcome="delivered"')],
    ),
    "CatalogExtMetastoreErrors": (
        [_of("metastore_errors_total", "0+2x60", ', code="X"')], [_of("metastore_errors_total", "7x60", ', code="X"')],
    ),
    "CatalogExtStoreErrors": (
        [_of("storage_errors_total", "0+2x60", ', code="X"')], [_of("storage_errors_total", "0x30 3x30", ', code="X"')],
    ),
    "CatalogExtAbandonedTransactions": (
        [_of("transactions_abandoned", "2x60")], [_of("transactions_abandoned", "0x20 1x5 0x40")],
    ),
    "CatalogExtConflicts": (
        _commits("0+6x60", "0+4x60"), _commits("0+9x60", "0+1x60"),
    ),
    "CatalogExtPlanningSlow": (_buckets(slow=True), _buckets(slow=False)),
    "CatalogExtPoolExhausted": (
        [_of("index_pool_limit", "30x60"), _of("index_pool_connections", "29x60", ', state="in_use"')],
        [_of("index_pool_limit", "30x60"), _of("index_pool_connections", "3x60", ', state="in_use"'),
         _of("index_pool_connections", "30x60", ', state="idle"')],
    ),
    "CatalogExtCallsWaiting": (
        [_of("calls_waiting", "1x60", ', kind="long"')],
        [_of("calls_waiting", "0x20 9x4 0x40", ', kind="long"'), _of("threads_in_use", "24x60", ', kind="long"')],
    ),
    "CatalogExtRequestErrors": (
        [_of("request_errors_total", "0+1x60", ', code="CATALOG_EXT_ERROR"')],
        [_of("request_errors_total", "0+9x60", ', code="CATALOG_EXT_TABLE_NOT_FOUND"')],
    ),
    "CatalogExtTaskFailing": (
        [_of("background_runs_total", "0+1x60", ', task="recovery", outcome="failed"')],
        [_of("background_runs_total", "0+1x60", ', task="recovery", outcome="done"')],
    ),
    "CatalogExtFollowerBehind": (
        [_of("followed_age_seconds", "0+60x60")], [_of("followed_age_seconds", "1x60")],
    ),
}  # fmt: skip


def test_every_alert_fires_when_it_should_and_not_before(programs: Path, tmp_path: Path) -> None:
    assert set(ALERTS) == {rule["alert"] for rule in _rules()}
    shutil.copy(RULES, tmp_path)
    tests = [
        {
            "name": f"{alert} {expected}",
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in given],
            "promql_expr_test": [
                {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "35m", "exp_samples": found}
            ],
        }
        for alert, (bad, good) in ALERTS.items()
        for expected, given, found in (
            ("fires", bad, [{"labels": f'{{alertname="{alert}"}}', "value": 1}]),
            ("is quiet", good, []),
        )
    ]
    cases = tmp_path / "tests.yml"
    cases.write_text(yaml.safe_dump({"rule_files": [RULES.name], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run([programs / "promtool", "test", "rules", cases], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_the_configuration_and_its_rules_are_valid(programs: Path, tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    text = (MONITORING / "prometheus.yml").read_text()
    token = tmp_path / "token"
    token.write_text(new_token())
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/catalog-ext/metrics-token", str(token)))
    check = [programs / "promtool", "check", "config", tmp_path / "prometheus.yml"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(_rules())} rules found" in done.stdout + done.stderr


class Watched:
    """A service that is used and scraped each second."""

    def __init__(self, prometheus: Prometheus, catalog: Catalog, writer: Writer, index: Path) -> None:
        self.prometheus = prometheus
        self.catalog = catalog
        self.writer = writer
        self.index = index

    def use(self) -> None:
        """One request of each kind that the dashboard has a panel for."""
        self.writer.write("append", EU)
        # The second of two that overwrite one partition has read what the first has replaced.
        first, second = (self.writer.begun("overwrite_partitions") for _ in range(2))
        for begun in (first, second):
            self.writer.commit(begun, self.writer.stage(begun, EU))
        table = self.writer.client.load()
        pinned = {"table_id": table["table_id"], "version": table["version"]}
        plan = {"predicate": None, "among": None, "limit": None, "bounds": [], "staleness": None}
        assert self.writer.client.call("tables/plan", **pinned, **plan).rows
        self.writer.client.call("tables/load", namespace="s", name="nosuch")
        self.catalog.repair_partitions("s.t")

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Use the service until something holds of what Prometheus has."""
        deadline = time.monotonic() + _WAIT_S
        while not holds():
            assert time.monotonic() < deadline, f"{what} took more than {_WAIT_S:g} s"
            time.sleep(0.3)


@pytest.fixture(scope="module")
def watched(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("prometheus")
    (closed,) = free_ports(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CATALOG_EXT_RECOVERY_INTERVAL", "500ms")
        token = new_token()
        with (
            # The metastore is not there: what is committed waits for it.
            local_catalog(folder, metastore=f"thrift://127.0.0.1:{closed}") as catalog,
            Service(catalog, metrics_token=token) as service,
        ):
            write(folder / "t", f"{EU}/1.csv")
            register(catalog, folder / "t")
            (folder / "token").write_text(token)
            config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
            config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
            (job,) = config["scrape_configs"]
            job["authorization"]["credentials_file"] = str(folder / "token")
            job["static_configs"] = [{"targets": [f"{service.host}:{service.port}"]}]
            # A test does not wait for minutes until an alert is sure of itself.
            rules = yaml.safe_load(RULES.read_text())
            for rule in rules["groups"][0]["rules"]:
                rule.pop("for", None)
            (folder / RULES.name).write_text(yaml.safe_dump(rules))
            (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
            prometheus = Prometheus(programs, folder, folder / "prometheus.yml")
            yield Watched(prometheus, catalog, Writer(Client(service), folder / "t"), folder / "index.db")
            prometheus.stop()


def _expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    values = {"$__rate_interval": "1m", "$job": "catalog-ext", "$instance": ".*"}
    found = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    for name, value in values.items():
        found = [expression.replace(name, value) for expression in found]
    return found


def test_every_panel_of_the_dashboard_has_data(watched: Watched) -> None:
    expressions = _expressions()
    assert len(expressions) > 30
    missing = list(expressions)

    def all_there() -> bool:
        watched.use()
        missing[:] = [
            each for each in missing
            if not any(math.isfinite(float(s["value"][1])) for s in watched.prometheus.query(each))
        ]  # fmt: skip
        return not missing

    try:
        watched.until(all_there, "the data of the panels")
    except AssertionError as error:
        raise AssertionError(f"{error}: {missing}") from error
    values = {name: watched.prometheus.query(f"sum(catalog_ext_{name})")[0]["value"][1] for name in (
        "tables", "deliveries_pending", 'commits_total{outcome="conflict"}', "index_up",
    )}  # fmt: skip
    assert values["tables"] == values["index_up"] == "1"
    assert float(values["deliveries_pending"]) > 0
    assert float(values['commits_total{outcome="conflict"}']) > 0


def test_prometheus_evaluates_the_rules_and_an_alert_fires(watched: Watched) -> None:
    def alerts() -> set[str]:
        return {a["labels"]["alertname"] for a in watched.prometheus.get("alerts")["alerts"] if a["state"] == "firing"}

    (group,) = watched.prometheus.get("rules")["groups"]
    assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}
    assert len(group["rules"]) == len(_rules())
    watched.until(lambda: watched.prometheus.query("catalog_ext_index_up == 1"), "the first look")
    assert "CatalogExtIndexDown" not in alerts()
    with closing(sqlite3.connect(watched.index)) as connection, connection:
        ((head,),) = connection.execute("SELECT version_num FROM catalog_ext_schema_version").fetchall()
        connection.execute("UPDATE catalog_ext_schema_version SET version_num = '0000'")
    try:
        watched.until(lambda: "CatalogExtIndexDown" in alerts(), "the alert")
        # The outage is reported as such, and not as an index without tables.
        assert watched.prometheus.query("catalog_ext_tables") == []
    finally:
        with closing(sqlite3.connect(watched.index)) as connection, connection:
            connection.execute("UPDATE catalog_ext_schema_version SET version_num = ?", (head,))
    watched.until(lambda: "CatalogExtIndexDown" not in alerts(), "the end of the alert")
    (group,) = watched.prometheus.get("rules")["groups"]
    assert {rule["name"]: rule.get("lastError") for rule in group["rules"] if rule["health"] != "ok"} == {}
