"""The command line with a real S3 and a real metastore: options for both, import, and what `doctor` finds."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet as pq

from catalog_ext.cli.main import main
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.servers.hive import HiveMetastore
    from tests.servers.stores import S3Server


def test_register_repair_and_import(
    s3_server: S3Server, hive_metastore: HiveMetastore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = s3_server.make_bucket(f"cli-{secrets.token_hex(4)}")
    namespace = f"cli_{secrets.token_hex(4)}"
    storage = {
        "endpoint": s3_server.endpoint,
        "access_key": s3_server.access_key,
        "secret_key": s3_server.secret_key,
        "region": s3_server.region,
    }
    _fill(Storage(storage), bucket)
    options = [f"--storage={key}={value}" for key, value in storage.items()]
    options += ["--index", str(tmp_path / "index.db"), "--warehouse", f"s3a://{bucket}/warehouse"]

    def run(*arguments: str, metastore: str = hive_metastore.uri) -> dict[str, Any]:
        code = main(["--metastore", metastore, *options, *arguments, "--json"])
        captured = capsys.readouterr()
        assert (code, captured.err) == (0, "")
        answer: dict[str, Any] = json.loads(captured.out)
        return answer

    table = f"{namespace}.trips"
    registered = run("register", table, f"s3://{bucket}/trips", "--create-namespace", "--key", "ds=DATE")
    assert registered["location"] == f"s3a://{bucket}/trips"
    assert registered["metastore"] == "in sync"
    assert len(run("repair", table)["added"]) == 3
    assert len(run("files", table, "-p", "ds=2025-01-02")["files"]) == 1

    assert run("unregister", table)["totals"]["partitions"] == 3
    assert run("import", table)["totals"]["partitions"] == 3
    assert run("repair", table)["added"] == []

    states = {c["check"]: c["state"] for c in run("doctor", "--quick")["checks"]}
    assert (states["reachable"], states["warehouse"], states["changes for the metastore"]) == ("ok", "ok", "ok")


def test_a_metastore_that_is_down_does_not_hinder_registering(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "t" / "k=1"
    root.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), root / "a.parquet")
    options = [
        "--metastore",
        "thrift://127.0.0.1:1",
        "--index",
        str(tmp_path / "index.db"),
        "--warehouse",
        str(tmp_path),
    ]
    assert main([*options, "register", "s.t", str(tmp_path / "t"), "--create-namespace"]) == 0
    captured = capsys.readouterr()
    assert "pending" in captured.out
    assert captured.err.startswith("warning: ")
    assert main([*options, "doctor", "--quick", "--json"]) == 1
    found = {(c["area"], c["check"]): c for c in json.loads(capsys.readouterr().out)["checks"]}
    assert found["metastore", "reachable"]["state"] == "wrong"
    assert found["index", "changes for the metastore"]["state"] == "wrong"


def _fill(storage: Storage, bucket: str) -> None:
    for day in (1, 2, 3):
        place = Location("s3a", bucket, f"trips/ds=2025-01-0{day}/a.parquet")
        with storage.filesystem(place).open_output_stream(place.path) as out:
            pq.write_table(pa.table({"id": [day]}), out)
