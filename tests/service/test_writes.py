"""The service's operations of writes against their contract (docs/spec/service.md), as a connector would call them."""

from __future__ import annotations

import getpass
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.errors import RepairRefusedError
from catalog_ext.service.server import Service
from tests.kit.repair_cases import EU, US, catalog_of_files, indexed, walked, write
from tests.kit.service_client import Answer, Client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog

BEGUN = {
    "transaction", "duplicate", "location", "base", "staging", "promotion", "partition_locations", "directory",
    "partition_directories", "lease_ms", "table",
}  # fmt: skip


class Writer:
    """Writes a table's files as Spark's tasks do, and calls the service as its driver does."""

    def __init__(self, client: Client, root: Path) -> None:
        self.client = client
        self.root = root

    def begin(self, kind: str = "append", **changed: object) -> Answer:
        table = self.client.load()
        request = {
            "transaction": secrets.token_hex(16),
            "table_id": table["table_id"], "version": table["version"], "kind": kind, "operation": "INSERT",
            "owner": "test@host:1", "predicate": None, "app_id": None, "app_version": None,
            "options": {}, "definition": None,
        }  # fmt: skip
        return self.client.call("writes/begin", **{**request, **changed})

    def begun(self, kind: str = "append", **changed: object) -> dict[str, Any]:
        answer = self.begin(kind, **changed)
        assert answer.status == 200, answer.body
        assert set(answer.json) == BEGUN
        return answer.json  # type: ignore[no-any-return]

    @staticmethod
    def stage(begun: dict[str, Any], partition: str, rows: int = 1, number: int = 0) -> dict[str, Any]:
        """A staged file of the partition, on disk, as the contract describes it."""
        transaction = begun["transaction"]
        own = begun["partition_directories"].get(partition)
        folder = Path((own or f"{begun['directory']}/{partition}").removeprefix("file://"))
        folder.mkdir(parents=True, exist_ok=True)
        name = f"part-{number:05d}-{transaction}-a0-c000.csv"
        (folder / name).write_text("x\n" * rows)
        return {
            "partition": partition, "name": name, "size": 2 * rows, "rows": rows, "statistics": {}, "upload": None,
        }  # fmt: skip

    def stage_all(self, begun: dict[str, Any], *files: dict[str, Any], staged: int = 0) -> Answer:
        return self.client.call("writes/stage", transaction=begun["transaction"], files=list(files), staged=staged)

    def commit(self, begun: dict[str, Any], *files: dict[str, Any], keep: str | None = None, staged: int = 0) -> Answer:
        return self.client.call(
            "writes/commit", transaction=begun["transaction"], files=list(files), staged=staged, keep=keep,
            watermark_ms=None, final=False,
        )  # fmt: skip

    def write(self, kind: str, *partitions: str, **changed: object) -> dict[str, Any]:
        begun = self.begun(kind, **changed)
        answer = self.commit(begun, *(self.stage(begun, partition) for partition in partitions))
        assert answer.status == 200, answer.body
        return answer.json  # type: ignore[no-any-return]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def catalog(tmp_path: Path, root: Path) -> Iterator[Catalog]:
    with catalog_of_files(tmp_path, root, f"{EU}/old.csv") as catalog:
        yield catalog


@pytest.fixture
def writer(catalog: Catalog, root: Path) -> Iterator[Writer]:
    with Service(catalog) as service:
        yield Writer(Client(service), root)


def visible(root: Path) -> dict[str, dict[str, int]]:
    """What an engine sees that lists directories; it has to be what the index has."""
    return {name: files for name, files in walked(root, 2).items() if files}


def test_a_write_is_seen_whole_and_at_once(writer: Writer, catalog: Catalog, root: Path) -> None:
    begun = writer.begun()
    assert (begun["duplicate"], begun["promotion"], begun["staging"]) == (False, "rename", "_catalog_ext_staging")
    assert begun["location"] == begun["base"] == f"file://{root}"
    assert begun["directory"] == f"file://{root}/_catalog_ext_staging/{begun['transaction']}"
    loaded = writer.client.load()
    assert {**begun["table"], "settings": loaded["settings"]} == loaded
    assert begun["lease_ms"] == 600_000
    files = [writer.stage(begun, EU, 3), writer.stage(begun, US, 2)]
    staged = writer.client.call("writes/stage", transaction=begun["transaction"], files=files[:1], staged=0)
    assert staged.json == {"staged": 1}
    assert visible(root) == {EU: {"old.csv": 1}}, "nothing is seen before the commit"
    outcome = writer.commit(begun, *files[1:], staged=1).json
    assert {k: v for k, v in outcome.items() if k != "commit_ms"} == {
        "transaction": begun["transaction"], "table_id": begun["table"]["table_id"], "table": "s.t",
        "operation": "INSERT", "version": 2, "partitions_added": 1, "partitions_removed": 0, "partitions_changed": 1,
        "files_added": 2, "files_removed": 0, "rows": 5, "bytes": 10, "waiting": 0, "duplicate": False,
        "pending_deliveries": 0,
    }  # fmt: skip
    assert indexed(catalog) == visible(root)
    assert not (root / "_catalog_ext_staging").exists()
    assert {**writer.commit(begun).json, "commit_ms": outcome["commit_ms"]} == outcome, (
        "asked again, the answer is the same"
    )
    assert catalog.repair_partitions("s.t", strict=True).version == 2, "and a repair finds nothing to do"


def test_request_repeated_with_other_files_is_refused(writer: Writer, catalog: Catalog, root: Path) -> None:
    begun = writer.begun()
    first, second, third, fourth = (writer.stage(begun, EU, number=number) for number in range(4))
    assert writer.stage_all(begun, first, second).status == 200
    assert writer.stage_all(begun, first, second).status == 200
    for others in ((first, third), (second, first), (first, {**second, "rows": 7})):
        refused = writer.stage_all(begun, *others)
        assert (refused.status, refused.json["error"]["code"]) == (400, "CATALOG_EXT_INVALID_INPUT")
    (root / "_catalog_ext_staging" / begun["transaction"] / EU / fourth["name"]).unlink()
    outcome = writer.commit(begun, third, staged=2)
    assert outcome.status == 200
    assert writer.commit(begun, third, staged=2).json["version"] == outcome.json["version"]
    for staged, others in ((2, (fourth,)), (2, (third, fourth)), (1, (third,))):
        refused = writer.commit(begun, *others, staged=staged)
        assert (refused.status, refused.json["error"]["code"]) == (400, "CATALOG_EXT_INVALID_INPUT")
        assert "has got other files" in refused.json["error"]["message"]
    assert indexed(catalog) == visible(root)
    assert len(visible(root)[EU]) == 4


def test_the_end_of_a_stream_commits_what_its_epochs_kept_back(writer: Writer, catalog: Catalog, root: Path) -> None:
    options = {"sink.partition-commit.trigger": "partition-time"}
    begun = writer.begun(operation="STREAMING", app_id="query", app_version=0, options=options)
    epoch = writer.client.call(
        "writes/commit", transaction=begun["transaction"], files=[writer.stage(begun, US, 3)], staged=0, keep=None,
        watermark_ms=0, final=False,
    ).json  # fmt: skip
    assert (epoch["waiting"], epoch["files_added"], epoch["rows"]) == (1, 0, 0)
    assert indexed(catalog) == visible(root) == {EU: {"old.csv": 1}}

    def release(query: str) -> dict[str, Any]:
        request = {"table_id": begun["table"]["table_id"], "app_id": query, "owner": "test@host:1", "options": options}
        return writer.client.call("writes/release", **request).json  # type: ignore[no-any-return]

    assert release("another") == {"released": False}
    released = release("query")
    assert (released["released"], released["operation"]) == (True, "STREAMING")
    assert (released["files_added"], released["rows"]) == (1, 3)
    assert set(indexed(catalog)) == {EU, US}
    assert indexed(catalog) == visible(root)
    assert release("query") == {"released": False}


def test_overwrites_deletes_and_truncates(writer: Writer, catalog: Catalog, root: Path) -> None:
    assert writer.write("append", US)["partitions_added"] == 1
    dynamic = writer.write("overwrite_partitions", EU)
    assert (dynamic["files_added"], dynamic["files_removed"], dynamic["partitions_changed"]) == (1, 1, 1)
    assert indexed(catalog) == visible(root)
    assert set(indexed(catalog)) == {EU, US}
    is_us = {"op": "=", "column": "region", "value": "us"}
    static = writer.write("overwrite", "ds=2025-01-04/region=us", predicate=is_us)
    assert (static["partitions_added"], static["partitions_removed"]) == (1, 1)
    assert set(indexed(catalog)) == {EU, "ds=2025-01-04/region=us"}
    assert indexed(catalog) == visible(root)

    def delete(operation: str, predicate: object) -> Answer:
        table = writer.client.load()
        return writer.client.call(
            "writes/delete", table_id=table["table_id"], version=table["version"], operation=operation,
            predicate=predicate,
        )  # fmt: skip

    is_eu = {"op": "=", "column": "region", "value": "eu"}
    for predicate, command in ((None, "TRUNCATE TABLE is"), (is_eu, "TRUNCATE TABLE ... PARTITION is")):
        refused = delete("truncate", predicate)
        assert (refused.status, refused.json["error"]["code"]) == (400, "CATALOG_EXT_NOT_SUPPORTED")
        assert refused.json["error"]["message"] == (
            f"{command} not for external tables, and s.t is one: others own its files. DELETE FROM ... WHERE "
            "deletes those of the partitions that it names; the table property 'external.table.purge'='true' lets "
            "DELETE and TRUNCATE have all of them."
        )
    nulls = {"op": "is_null", "column": "ds"}
    for always in (None, {"op": "true"}, {"op": "or", "args": [nulls, {"op": "not", "arg": nulls}]}):
        refused = delete("delete", always)
        assert (refused.status, refused.json["error"]["code"]) == (400, "CATALOG_EXT_NOT_SUPPORTED")
        assert refused.json["error"]["message"].startswith("DELETE FROM without a condition is not for external tables")
    assert indexed(catalog) == visible(root)
    catalog.alterations.alter("s.t", set_={"External.Table.Purge": "TRUE"})
    emptied = delete("truncate", None).json
    assert (emptied["files_removed"], emptied["partitions_removed"]) == (2, 0)
    assert indexed(catalog) == {EU: {}, "ds=2025-01-04/region=us": {}}
    assert visible(root) == {}
    assert delete("delete", {"op": "is_not_null", "column": "ds"}).json["partitions_removed"] == 2
    assert indexed(catalog) == {}
    assert delete("delete", {"op": "=", "column": "x", "value": "1"}).status == 400
    assert delete("drop", None).status == 400


def test_an_overwrite_by_a_condition_adds_to_what_it_does_not_cover(
    writer: Writer, catalog: Catalog, root: Path
) -> None:
    write(root, f"{EU}/unknown.csv")
    writer.write("append", US)
    is_us = {"op": "=", "column": "region", "value": "us"}
    refused = writer.begun("overwrite", predicate=is_us)
    answer = writer.commit(refused, writer.stage(refused, EU))
    assert (answer.status, answer.error["code"]) == (400, "CATALOG_EXT_INVALID_INPUT")
    assert answer.error["parameters"]["partition"] == EU
    adds = {"replace-where-mismatch": "add"}
    outcome = writer.write("overwrite", EU, predicate=is_us, options=adds)
    assert (outcome["partitions_removed"], outcome["partitions_changed"], outcome["files_removed"]) == (1, 1, 1)
    assert len(indexed(catalog)[EU]) == 2, "rows of another partition than the condition's lose no rows"
    assert visible(root) == {EU: {**indexed(catalog)[EU], "unknown.csv": 1}}
    begun = writer.begun("overwrite", predicate=is_us, options={**adds, "overwrite-mode": "relocate"})
    split = writer.commit(begun, writer.stage(begun, EU))
    assert (split.status, split.error["code"]) == (400, "CATALOG_EXT_INVALID_INPUT")
    assert not (root / "_catalog_ext_data").exists()


def test_a_static_partition_stays_without_rows(writer: Writer, catalog: Catalog) -> None:
    begun = writer.begun("overwrite", predicate={"op": "=", "column": "region", "value": "xx"})
    assert writer.commit(begun, keep="ds=2025-01-03/region=xx").status == 200
    assert indexed(catalog)["ds=2025-01-03/region=xx"] == {}


def test_an_aborted_write_leaves_nothing(writer: Writer, catalog: Catalog, root: Path) -> None:
    begun = writer.begun()
    file = writer.stage(begun, US)
    heartbeat = writer.client.call("writes/heartbeat", transaction=begun["transaction"]).json
    assert heartbeat["expires_at_ms"] > catalog.index.now_ms()
    aborted = writer.client.call("writes/abort", transaction=begun["transaction"], reason="the job failed")
    assert aborted.json == {"aborted": True}
    assert not (root / "_catalog_ext_staging").exists()
    assert visible(root) == {EU: {"old.csv": 1}}
    late = writer.commit(begun, file)
    assert (late.status, late.error["code"]) == (409, "CATALOG_EXT_TRANSACTION_STATE")
    assert "the job failed" in late.error["message"]


@pytest.mark.parametrize(
    "partition",
    [
        "", "ds=2025-01-01", "ds=2025-01-01/region=eu/x=1", "region=eu/ds=2025-01-01", "ds=2025-13-01/region=eu",
        "../outside", "ds=2025-01-01/region=eu/..", "ds=2025-01-01/region=\x00", "ds=2025-01-01/region=\ud800",
        "ds=2025-01-01/region=" + "x" * 2000,
    ],
)  # fmt: skip
def test_invalid_partition_is_refused_and_leaves_nothing(
    writer: Writer, catalog: Catalog, root: Path, tmp_path: Path, partition: str
) -> None:
    begun = writer.begun()
    # Where the file system has such a directory, the file is there all the same.
    at = US if partition.isprintable() is False or len(partition) > 255 else partition
    file = {**writer.stage(begun, at), "partition": partition}
    answer = writer.commit(begun, file)
    assert (answer.status, answer.error["code"][:19]) == (400, "CATALOG_EXT_INVALID"), answer.body
    assert catalog.list_transactions("s.t")[0].state in ("aborted", "open")
    catalog.recover(older_than=0)
    assert indexed(catalog) == visible(root) == {EU: {"old.csv": 1}}
    assert {name for name in os.listdir(tmp_path) if not name.startswith("index.db")} == {"t"}


def test_a_name_that_the_store_cannot_have_is_undone_whole(writer: Writer, catalog: Catalog, root: Path) -> None:
    begun = writer.begun()
    file = {**writer.stage(begun, US), "partition": f"ds=2025-01-01/region={'x' * 300}"}
    answer = writer.commit(begun, file)
    assert answer.error["code"] == "CATALOG_EXT_STAGED_FILE_MISSING"
    assert catalog.list_transactions("s.t")[0].state == "aborted"
    assert indexed(catalog) == visible(root) == {EU: {"old.csv": 1}}


def test_a_conflict_is_retryable_and_leaves_nothing(writer: Writer, catalog: Catalog, root: Path) -> None:
    slow = writer.begun("overwrite_partitions")
    file = writer.stage(slow, EU)
    writer.write("append", EU)
    lost = writer.commit(slow, file)
    assert (lost.status, lost.error["code"], lost.error["retryable"]) == (409, "CATALOG_EXT_CONFLICT", True)
    assert indexed(catalog) == visible(root)
    assert not (root / "_catalog_ext_staging").exists()


def test_a_batch_is_committed_once(writer: Writer) -> None:
    batch = {"app_id": "nightly", "app_version": 7}
    first = writer.write("append", US, **batch)
    again = writer.begun(**batch)
    assert (again["transaction"], again["duplicate"]) == (None, True)
    assert writer.write("append", US, app_id="nightly", app_version=8)["version"] == first["version"] + 1
    half = writer.begin(app_id="nightly")
    assert (half.status, half.error["code"]) == (400, "CATALOG_EXT_INVALID_INPUT")


DEFINITION = {
    "namespace": "s", "name": "new", "table_type": "MANAGED", "format": "csv", "location": None,
    "columns": [{"name": "x", "type": "int"}],
    "partition_columns": [{"name": "ds", "type": "date"}, {"name": "region", "type": "string"}], "options": {},
    "properties": {}, "comment": None,
}  # fmt: skip


def creation(writer: Writer, kind: str = "create", **changed: object) -> Answer:
    return writer.begin(kind, table_id=None, version=None, operation="CTAS", definition={**DEFINITION, **changed})


def test_a_table_is_created_with_its_rows_or_not_at_all(writer: Writer, catalog: Catalog) -> None:
    begun = creation(writer).json
    assert (begun["table"]["table_id"], begun["table"]["version"], begun["table"]["name"]) == (None, None, "new")
    assert begun["table"]["partition_mode"] == "declared"
    assert "new" not in catalog.list_tables("s")
    outcome = writer.commit(begun, writer.stage(begun, EU, 2)).json
    assert (outcome["table"], outcome["rows"]) == ("s.new", 2)
    assert indexed(catalog, "s.new") == {EU: {f"part-00000-{begun['transaction']}-a0-c000.csv": 4}}
    assert creation(writer).error["code"] == "CATALOG_EXT_TABLE_ALREADY_EXISTS"
    assert creation(writer, "replace", name="none").error["code"] == "CATALOG_EXT_TABLE_NOT_FOUND"
    replaced = creation(writer, "create_or_replace").json
    assert writer.commit(replaced, writer.stage(replaced, US, 3)).status == 200
    assert set(indexed(catalog, "s.new")) == {US}
    assert visible(Path(replaced["location"].removeprefix("file://"))) == indexed(catalog, "s.new")


@pytest.mark.parametrize(
    "changed",
    [
        {"format": "avro"},
        {"columns": [{"name": "x", "type": "nothing"}]},
        {"columns": [{"name": "ds", "type": "int"}]},
        {"properties": {"overwrite-mode": "sometimes"}},
        {"name": "a/b"},
        {"nonsense": 1},
    ],
)
def test_a_definition_is_checked_as_by_create_table(writer: Writer, changed: dict[str, object]) -> None:
    assert creation(writer, **changed).status == 400
    assert writer.client.call("tables/create", **{**DEFINITION, **changed}).status == 400


@pytest.mark.parametrize(
    ("kind", "changed", "status"),
    [
        ("upsert", {}, 400),
        ("append", {"table_id": None}, 400),
        ("append", {"version": None}, 400),
        ("append", {"definition": DEFINITION}, 400),
        ("append", {"table_id": 10**9}, 404),
        ("append", {"options": {"overwrite-mode": "sometimes"}}, 400),
        ("append", {"options": {"staging-dir": "visible"}}, 400),
        ("append", {"options": {"transaction.lease": "soon"}}, 400),
        ("append", {"nonsense": 1}, 400),
        ("append", {"operation": "x" * 65}, 400),
        ("append", {"operation": "\x00"}, 400),
        ("append", {"app_id": "\ud800", "app_version": 1}, 400),
        ("create", {}, 400),
        ("overwrite", {"predicate": {"op": "=", "column": "x", "value": "1"}}, 400),
        ("overwrite", {"predicate": 7}, 400),
    ],
)
def test_writes_that_are_wrong_are_refused_before_they_begin(
    writer: Writer, catalog: Catalog, kind: str, changed: dict[str, object], status: int
) -> None:
    answer = writer.begin(kind, **changed)
    assert answer.status == status, answer.body
    assert answer.error["message"]
    assert catalog.list_transactions("s.t") == []


def test_options_go_before_the_tables_properties(writer: Writer, catalog: Catalog, root: Path) -> None:
    catalog.alter_table_properties("s.t", {"overwrite-mode": "relocate", "hive_staging_dir": ".mine"})
    begun = writer.begun("overwrite_partitions")
    assert begun["staging"] == ".mine"
    assert begun["base"] == f"file://{root}/_catalog_ext_data/{begun['transaction']}"
    own = writer.begun("overwrite_partitions", options={"overwrite-mode": "in-place", "transaction.lease": "30s"})
    assert (own["base"], own["lease_ms"]) == (own["location"], 30_000)


@pytest.mark.parametrize("operation", ["heartbeat", "locations", "stage", "commit", "abort"])
def test_a_transaction_that_is_not_there_is_404(writer: Writer, operation: str) -> None:
    rest: dict[str, dict[str, object]] = {
        "stage": {"files": [], "staged": 0}, "abort": {"reason": "x"},
        "locations": {"partitions": []},
        "commit": {"files": [], "staged": 0, "keep": None, "watermark_ms": None, "final": False},
    }  # fmt: skip
    answer = writer.client.call(f"writes/{operation}", transaction="0" * 32, **rest.get(operation, {}))
    assert (answer.status, answer.error["code"]) == (404, "CATALOG_EXT_TRANSACTION_NOT_FOUND")


def test_changes_and_metadata(writer: Writer) -> None:
    table_id = writer.client.load()["table_id"]
    writer.write("append", US)
    begun = writer.begun(app_id="a", app_version=1)
    changes = writer.client.call("tables/changes", table_id=table_id, after=1, upto=2).rows
    assert [(r["version"], r["position"], r["partition"]) for r in changes] == [(2, 0, US)]
    both = writer.client.call("tables/changes", table_id=table_id, after=0, upto=2).rows
    assert [r["version"] for r in both] == [1, 2]
    assert writer.client.call("tables/changes", table_id=table_id, after=0, upto=2, removals="refuse").rows == both
    assert writer.client.call("tables/changes", table_id=table_id, after=0, upto=2, removals="drop").status == 400
    history = writer.client.call("tables/metadata", table_id=table_id, name="history").rows
    assert (history[0]["version"], history[0]["operation"], history[0]["files_added"]) == (2, "INSERT", 1)
    transactions = writer.client.call("tables/metadata", table_id=table_id, name="transactions").rows
    assert [(r["state"], r["app_id"], r["owner"]) for r in transactions] == [
        ("open", "a", f"{getpass.getuser()}/test@host:1"), ("finished", None, f"{getpass.getuser()}/test@host:1"),
    ]  # fmt: skip
    assert transactions[0]["transaction"] == begun["transaction"]
    partitions = writer.client.call("tables/metadata", table_id=table_id, name="partitions").rows
    assert [(r["partition"], r["files"], r["state"]) for r in partitions] == [
        (EU, 1, "committed"), (US, 1, "committed"),
    ]  # fmt: skip
    assert writer.client.call("tables/metadata", table_id=table_id, name="nosuch").status == 400


def test_a_request_names_its_user(writer: Writer) -> None:
    table_id = writer.client.load()["table_id"]
    names = {"%67race%20%C3%A9%2B": "grace é+", "%20": getpass.getuser(), "a" * 300: "a" * 128, "%ff": "\ufffd"}
    for sent, kept in names.items():
        writer.client.user = sent
        writer.write("append", US)
        history = writer.client.call("tables/metadata", table_id=table_id, name="history").rows
        assert history[0]["user"] == kept
    for sent in ("a%0Ab", "a%00", "%7F", "a%C2%85"):
        writer.client.user = sent
        answer = writer.client.call("ping")
        assert (answer.status, answer.error["code"]) == (400, "CATALOG_EXT_INVALID_INPUT")
        assert "that cannot be printed" in answer.error["message"]
    writer.client.user = "mallory"
    assert writer.client.send("/v1/ping", token="wrong").status == 401, "a name is no token"


def test_metadata_of_files_and_repairs(writer: Writer, catalog: Catalog, root: Path) -> None:
    table_id = writer.client.load()["table_id"]
    begun = writer.begun()
    staged = {**writer.stage(begun, US), "statistics": {"v": {"min": "1", "max": "2", "nulls": 0}}}
    assert writer.commit(begun, staged).status == 200
    us = {"op": "=", "column": "region", "value": "us"}

    def metadata(name: str, predicate: object = None) -> Answer:
        return writer.client.call("tables/metadata", table_id=table_id, name=name, predicate=predicate)

    files = metadata("files").rows
    assert [(r["partition"], r["path"]) for r in files] == [
        (EU, f"file://{root}/{EU}/old.csv"), (US, f"file://{root}/{US}/{staged['name']}"),
    ]  # fmt: skip
    assert [(r["version"], r["rows"], r["statistics"]) for r in files] == [
        (1, None, None), (2, 1, '{"v":{"max":"2","min":"1","nulls":0}}'),
    ]  # fmt: skip
    assert [r["partition"] for r in metadata("files", us).rows] == [US]
    (only,) = metadata("partitions", us).rows
    assert (only["partition"], only["created_at"] > files[0]["modified_at"]) == (US, True)
    assert metadata("files", {"op": "=", "column": "v", "value": "1"}).status == 400
    assert metadata("history", us).error["code"] == "CATALOG_EXT_INVALID_INPUT"

    before = len(metadata("repairs").rows)
    (root / "stray.csv").write_text("x")
    catalog.repair_partitions("s.t", where="region = 'us'")
    catalog.repair_partitions("s.t", mode="add", dry_run=True)
    with pytest.raises(RepairRefusedError):
        catalog.repair_partitions("s.t", strict=True)
    refused, idle = metadata("repairs").rows[: -before or None]
    assert (idle["mode"], idle["where"], idle["version_before"], idle["version_after"]) == (
        "sync", "region = 'us'", 2, 2,
    )  # fmt: skip
    assert (idle["added"], idle["dropped"], idle["changed"], idle["error"]) == (0, 0, 0, None)
    assert (refused["strict"], refused["skipped"]) == (True, 1)
    assert refused["error"].startswith("Nothing was changed")
    assert catalog.index.repairs.expire(table_id, catalog.index.now_ms() + 1, dry_run=True) == before + 2
    catalog.vacuum("s.t", retention="0s", allow_short_retention=True)
    assert metadata("repairs").rows == []


def test_a_table_that_is_dropped_fails_its_writes_which_leave_nothing(
    writer: Writer, catalog: Catalog, root: Path
) -> None:
    begun = writer.begun()
    file = writer.stage(begun, US)
    catalog.unregister_table("s.t")
    lost = writer.commit(begun, file)
    assert (lost.status, lost.error["code"]) == (404, "CATALOG_EXT_TABLE_NOT_FOUND")
    assert visible(root) == {EU: {"old.csv": 1}}
    assert not (root / "_catalog_ext_staging").exists()


def test_a_session_goes_before_the_table_and_after_the_write(writer: Writer, catalog: Catalog) -> None:
    catalog.alterations.alter("s.t", set_={"staging-dir": "_of_table"})
    session = {"hive_staging_dir": "_of_session", "sink.partition-commit.trigger": "partition-time"}
    assert writer.begun()["staging"] == "_of_table"
    assert writer.begun(session=session)["staging"] == "_of_session"
    assert writer.begun(session=session, options={"Staging-Dir": "_of_write"})["staging"] == "_of_write"


def test_settings_come_with_the_table_or_are_asked_for(writer: Writer, catalog: Catalog) -> None:
    catalog.alterations.alter("s.t", set_={"Write.Max-File-Size": "2 mb", "hive.mapred.mode": "strict"})
    table = writer.client.load()
    settings = table["settings"]
    assert set(settings) == {"read", "write", "insert", "stream", "session", "session_catalog"}
    assert settings["write"]["values"]["write.max-file-size"] == 2**21
    assert settings["read"]["values"]["strict"] == "hive.mapred.mode = strict (table s.t)"
    assert settings["session"] == {"names": ["use_hive_partitioning"], "values": {"use_hive_partitioning": True}}

    new = writer.client.call("settings/load", table="s.t", properties=table["properties"])
    assert new.json == {"settings": settings}

    def resolve(**changed: object) -> Answer:
        request = {"use": "write", "table": "s.t", "catalog": "lake", "properties": table["properties"]}
        return writer.client.call("settings/resolve", **{**request, **changed})

    assert resolve().json == {"values": settings["write"]["values"]}
    given = {"options": {"hive_sink_max_file_size": "1 g"}, "catalog_conf": {"write.distribution-mode": "HASH"}}
    values = resolve(**given).json["values"]
    assert (values["write.max-file-size"], values["write.distribution-mode"]) == (2**30, "hash")
    wrong = resolve(options={"write.max-file-size": "1 x"})
    assert (wrong.status, wrong.error["code"]) == (400, "CATALOG_EXT_INVALID_CONFIGURATION")
    assert resolve(use="nothing").error["code"] == "CATALOG_EXT_INVALID_INPUT"
