"""The token for reading: it opens what changes nothing, and every other operation is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.cli.serve import _read_token
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.page.sign_in import Sessions
from catalog_ext.procedures.registry import PROCEDURES
from catalog_ext.service.authentication import READABLE, READABLE_PROCEDURES
from catalog_ext.service.operations import operations_of
from catalog_ext.service.server import Service, new_token
from tests.kit.repair_cases import EU, catalog_of_files
from tests.kit.service_client import Answer, Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

TOKEN = new_token()


@pytest.fixture(name="catalog", scope="module")
def module_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    folder = tmp_path_factory.mktemp("reading")
    with catalog_of_files(folder, folder / "t", f"{EU}/1.csv") as made:
        yield made


@pytest.fixture(name="client", scope="module")
def module_client(catalog: Catalog) -> Iterator[Client]:
    with Service(catalog, read_token=TOKEN) as service:
        yield Client(service)


def ask(client: Client, operation: str, **fields: Any) -> Answer:
    return client.send(f"/v1/{operation}", json.dumps(fields).encode(), token=TOKEN)


def test_tables_are_listed_loaded_and_planned(client: Client) -> None:
    assert ask(client, "tables/list", namespace="s").json == {"tables": ["t"]}
    table = ask(client, "tables/load", namespace="s", name="t", metadata=None).json
    plan = client.call("tables/plan", table_id=table["table_id"], version=table["version"])
    read = ask(client, "tables/plan", table_id=table["table_id"], version=table["version"])
    assert (read.status, read.body == plan.body) == (200, True)


def test_every_operation_that_changes_something_is_refused(client: Client, catalog: Catalog) -> None:
    """Operations that are new are refused until they are said to read."""
    before = catalog.load_table("s.t")
    refused = sorted(set(operations_of(catalog)) - READABLE)
    assert {"writes/begin", "writes/commit", "tables/alter", "tables/drop", "partitions/add", "views/put"} <= {*refused}
    for operation in refused:
        answer = ask(client, operation, namespace="s", name="t")
        assert (answer.status, answer.error["code"]) == (403, "CATALOG_EXT_READ_ONLY_TOKEN"), operation
        assert answer.error["message"].startswith(f"{operation} is refused")
        assert "token-file" in answer.error["message"]
    assert set(operations_of(catalog)) >= READABLE
    assert catalog.load_table("s.t") == before


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda each: each.name)
def test_procedures_that_change_something_are_refused(client: Client, procedure: Any) -> None:
    answer = ask(client, "procedures/call", procedure=procedure.name.upper(), arguments={"table": "s.t"})
    if procedure.name in READABLE_PROCEDURES:
        assert answer.status != 403
        assert not procedure.touches
    else:
        assert (answer.status, answer.error["code"]) == (403, "CATALOG_EXT_READ_ONLY_TOKEN")


def test_nothing_else_is_opened_by_it(client: Client, catalog: Catalog) -> None:
    assert client.send("/metrics", b"", method="GET", token=TOKEN).status == 401
    assert client.send("/v1/ping", token=f"{TOKEN}x").status == 401
    assert ask(client, "nosuch").status == 404
    with Service(catalog) as other:
        assert Client(other).send("/v1/ping", token=TOKEN).status == 401


def test_user_name_gives_no_right(client: Client) -> None:
    client.user = "admin"
    assert ask(client, "tables/drop", namespace="s", name="t").status == 403


def test_page_takes_both_tokens() -> None:
    sessions = Sessions(["one", "two"])
    assert [sessions.open(token) is not None for token in ("one", "two", "onetwo", "")] == [True, True, False, False]


def test_token_for_reading_is_another_one(tmp_path: Path) -> None:
    file = tmp_path / "read"
    token = _read_token(file, "own")
    assert token == file.read_text().strip()
    with pytest.raises(InvalidConfigurationError, match="which may write"):
        _read_token(file, str(token))
    assert _read_token(None, "own") is None
