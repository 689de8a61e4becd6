"""What a metastore gets of a view's text: what Hive engines can run."""

from __future__ import annotations

import pytest

from catalog_ext.metastore.hive.outbox.view_text import hive_text
from catalog_ext.metastore.messages import Delivery, PutView, payload_of, read_message
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.model.views import VIEW_FORMAT, ViewQuery

VIEW = TableDefinition(TableIdentifier("s", "v"), TableType.VIEW, VIEW_FORMAT, "", (Column("n", "int"),))

SAME = ""
"""The text stays."""


def of(text: str, current: str = "spark_catalog", namespace: tuple[str, ...] = ("default",), own: str = "lake") -> str:
    """What Hive gets for the query; its one column is ``id``."""
    whole = hive_text(VIEW, ViewQuery(text, current, namespace, query_columns=("id",), own_catalog=own))
    begin, end = "SELECT `id` AS `n` FROM (", ") `v`"
    inner = whole[len(begin) : -len(end)]
    assert whole == f"{begin}{inner}{end}"
    return inner


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT id FROM lake.db.t", "SELECT id FROM db.t"),
        ("SELECT id FROM LAKE.db.t x WHERE x.id > 1", "SELECT id FROM db.t AS x WHERE x.id > 1"),
        ("SELECT id FROM `lake`.`db`.`a b`", "SELECT id FROM `db`.`a b`"),
        ("SELECT id FROM `lake.db`.t", "SELECT id FROM `lake.db`.t"),
        ("SELECT id FROM spark_catalog.db.t", "SELECT id FROM db.t"),
        ("SELECT id FROM t", "SELECT id FROM default.t"),
        ("SELECT id FROM other.db.t", "SELECT id FROM other.db.t"),
        (
            "SELECT a.id FROM lake.db.a a JOIN lake.db.b b ON a.id = b.id",
            "SELECT a.id FROM db.a AS a JOIN db.b AS b ON a.id = b.id",
        ),
        (
            "SELECT id FROM (SELECT id FROM lake.db.t) q WHERE id IN (SELECT k FROM lake.db.u)",
            "SELECT id FROM (SELECT id FROM db.t) AS q WHERE id IN (SELECT k FROM db.u)",
        ),
        (
            "SELECT id FROM lake.db.t UNION ALL SELECT id FROM lake.db.u",
            "SELECT id FROM db.t UNION ALL SELECT id FROM db.u",
        ),
    ],
)  # fmt: skip
def test_tables_lose_our_catalog(text: str, wanted: str) -> None:
    assert of(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT lake.db.t.id FROM lake.db.t", "SELECT t.id FROM db.t"),
        ("SELECT lake.db.t.* FROM lake.db.t", "SELECT t.* FROM db.t"),
        ("SELECT db.t.id FROM lake.db.t", "SELECT t.id FROM db.t"),
        ("SELECT `lake`.`db`.`t`.`id` FROM lake.db.t", "SELECT t.`id` FROM db.t"),
        ("SELECT lake.db.t.s.id FROM lake.db.t", "SELECT t.s.id FROM db.t"),
        ("SELECT lake.db.t.s.x.id FROM lake.db.t", "SELECT t.s.x.id FROM db.t"),
        ("SELECT t.s.x.id FROM lake.db.t", "SELECT t.s.x.id FROM db.t"),
        ("SELECT lake.db.t.id FROM lake.db.x AS lake", "SELECT lake.db.t.id FROM db.x AS lake"),
        (
            "SELECT lake.a.t.id FROM lake.a.t JOIN lake.b.t ON lake.a.t.id = b.t.id",
            "SELECT `a_t`.id FROM a.t AS `a_t` JOIN b.t AS `b_t` ON `a_t`.id = `b_t`.id",
        ),
        (
            "SELECT id FROM lake.db.t WHERE EXISTS (SELECT 1 FROM lake.db.u WHERE lake.db.u.k = lake.db.t.id)",
            "SELECT id FROM db.t WHERE EXISTS(SELECT 1 FROM db.u WHERE u.k = t.id)",
        ),
    ],
)  # fmt: skip
def test_columns_lose_what_is_before_their_table(text: str, wanted: str) -> None:
    assert of(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT id FROM lake.db.t WHERE s = 'lake.db.t'", "SELECT id FROM db.t WHERE s = 'lake.db.t'"),
        ("SELECT /* of lake.db.t */ id FROM lake.db.t", "/* of lake.db.t */ SELECT id FROM db.t"),
        ("SELECT id AS `lake.id` FROM lake.db.t", "SELECT id AS `lake.id` FROM db.t"),
        ("SELECT lake.id FROM lake.db.t lake", "SELECT lake.id FROM db.t AS lake"),
        ("SELECT id FROM lake.lake.lake", "SELECT id FROM lake.lake"),
    ],
)
def test_what_is_no_catalogs_name_stays(text: str, wanted: str) -> None:
    assert of(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "WITH c AS (SELECT id FROM lake.db.t) SELECT id FROM c",
            "SELECT id FROM (SELECT id FROM db.t) AS c",
        ),
        (
            "WITH c AS (SELECT id FROM lake.db.t), d AS (SELECT id FROM c) SELECT x.id FROM d x JOIN C ON x.id = c.id",
            "SELECT x.id FROM (SELECT id FROM (SELECT id FROM db.t) AS c) AS x JOIN (SELECT id FROM db.t) AS c "
            "ON x.id = c.id",
        ),
        # A CTE of a table's name reads the table.
        ("WITH t AS (SELECT id FROM t) SELECT id FROM t", "SELECT id FROM (SELECT id FROM default.t) AS t"),
        (
            "WITH a AS (SELECT id FROM b), b AS (SELECT 1 AS id) SELECT a.id FROM a JOIN b",
            "SELECT a.id FROM (SELECT id FROM default.b) AS a JOIN (SELECT 1 AS id) AS b ON TRUE",
        ),
        # It ends with its query.
        (
            "SELECT id FROM (WITH c AS (SELECT 1 AS id) SELECT id FROM c) q JOIN c USING (id)",
            "SELECT id FROM (SELECT id FROM (SELECT 1 AS id) AS c) AS q JOIN default.c USING (id)",
        ),
        (
            "WITH c AS (SELECT 1 AS id) SELECT id FROM (WITH c AS (SELECT id + 1 AS id FROM c) SELECT id FROM c) q",
            "SELECT id FROM (SELECT id FROM (SELECT id + 1 AS id FROM (SELECT 1 AS id) AS c) AS c) AS q",
        ),
        ("WITH c AS (SELECT 1 AS id) SELECT id FROM lake.db.c", "SELECT id FROM db.c"),
        (
            "WITH c(id) AS (SELECT k FROM lake.db.t) SELECT c.id FROM c",
            "SELECT c.id FROM (SELECT k AS id FROM db.t) AS c",
        ),
        (
            "WITH `lake` AS (SELECT id FROM lake.db.t) SELECT lake.id FROM lake",
            "SELECT lake.id FROM (SELECT id FROM db.t) AS `lake`",
        ),
    ],
)  # fmt: skip
def test_a_cte_is_put_where_its_name_is(text: str, wanted: str) -> None:
    assert of(text) == wanted


def test_the_current_catalog_decides_what_a_name_means() -> None:
    assert of("SELECT id FROM t JOIN x.u USING (id)", "lake", ("s",)) == "SELECT id FROM s.t JOIN x.u USING (id)"
    # Before sessions said what they call this catalog, it was the current one.
    assert of("SELECT id FROM lake.s.t", "lake", ("s",), own="") == "SELECT id FROM s.t"
    # Of a catalog that Hive does not know: engines say what they miss, and read no table of the same name.
    assert (
        of("SELECT id FROM t JOIN lake.s.u USING (id)", "ice", ("n",)) == "SELECT id FROM ice.n.t JOIN s.u USING (id)"
    )


@pytest.mark.parametrize(
    "text",
    [
        "WITH RECURSIVE c AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM c WHERE id < 3) SELECT id FROM c",
        "SELECT id FROM (lake.db.t",
    ],
)
def test_what_hive_cannot_have_goes_as_it_is(text: str) -> None:
    assert hive_text(VIEW, ViewQuery(text, own_catalog="lake")) == text


def test_the_message_keeps_the_catalogs_name() -> None:
    message = PutView(VIEW, ViewQuery("SELECT id FROM lake.db.t", "spark_catalog", ("default",), own_catalog="lake"))
    delivery = Delivery(1, "put_view", "s", "v", payload_of(message))
    assert read_message(delivery) == message
