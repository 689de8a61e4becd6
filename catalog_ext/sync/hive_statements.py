"""HiveQL statements that create tables, partitions and views in the form that the metastore stores."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from catalog_ext.metastore.hive.mapping.conversion import partition_values_of, to_hive
from catalog_ext.metastore.hive.mapping.descriptors import columns_of_descriptor
from catalog_ext.metastore.hive.mapping.model import EXTERNAL_TABLE
from catalog_ext.metastore.hive.outbox.views import to_hive_view
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.messages import PublishedPartition
    from catalog_ext.metastore.model.tables import Column, Namespace, Table
    from catalog_ext.metastore.model.views import View

_AT_ONCE = 100
_SPECIAL = re.compile(r"""['"\\;$\x00-\x1f\x7f]""")
"""Characters that end or change a string literal, or that Hive's command line interprets first: a semicolon, ``${``."""

_NOT_SAID = "no statement of Hive adds a partition of NULL: MSCK REPAIR TABLE finds it, and --to brings it"


def quoted(text: str) -> str:
    r"""Return a string literal; characters that Hive's command line interprets become ``\uXXXX``.

    >>> quoted("it's; a")
    "'it\\u0027s\\u003B a'"
    """
    return "'" + _SPECIAL.sub(lambda found: f"\\u{ord(found.group()):04X}", text) + "'"


def name(text: str) -> str:
    """Return an identifier in backticks."""
    return "`" + text.replace("`", "``") + "`"


def left_out(what: str, why: str) -> str:
    """Return a comment about an object that no statement can create."""
    line = f"-- {what} is left out: {why}"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def database_statements(namespace: Namespace) -> Iterator[str]:
    """Yield the statement that creates a database if it does not exist; ``default`` always exists."""
    if namespace.name == "default":
        return
    statement = f"CREATE DATABASE IF NOT EXISTS {name(namespace.name)}"
    statement += f"\nCOMMENT {quoted(namespace.comment)}" if namespace.comment else ""
    statement += f"\nLOCATION {quoted(namespace.location)}" if namespace.location else ""
    yield statement + (f"\nWITH DBPROPERTIES {_pairs(namespace.properties)}" if namespace.properties else "")


def table_statements(index: Index, table: Table) -> Iterator[str]:
    """Yield the statements that create a table and add its partitions, 100 per statement, if they do not exist."""
    hive = to_hive(table.definition)
    yield create_table(hive)
    if not hive.partition_columns:
        return
    used = False
    for page in index.publications.pages(table):
        for some in batched(page, _AT_ONCE):
            clauses = [_partition(hive, partition) for partition in some]
            said = [text for text in clauses if not text.startswith("--")]
            yield from (text for text in clauses if text.startswith("--"))
            if said:
                yield "\n  ".join([f"ALTER TABLE {_full(hive)} ADD IF NOT EXISTS", *said])
            own = [text for partition in some for text in _descriptor_statements(hive, partition)]
            if own and not used:
                # Hive 2.3 ignores the database in ALTER TABLE … PARTITION and uses the current one, so make it current.
                yield f"USE {name(hive.database)}"
                used = True
            yield from own


def create_table(table: HiveTable) -> str:
    """Return the statement that creates a table."""
    storage = table.storage
    external = "EXTERNAL " if table.table_type == EXTERNAL_TABLE else ""
    parameters = {k: v for k, v in table.parameters.items() if k not in ("EXTERNAL", "comment")}
    lines = [
        f"CREATE {external}TABLE IF NOT EXISTS {_full(table)} (\n  {_columns(table.columns)}\n)",
        f"COMMENT {quoted(table.comment)}" if table.comment else "",
        f"PARTITIONED BY ({_columns(table.partition_columns)})" if table.partition_columns else "",
        f"ROW FORMAT SERDE {quoted(storage.serde)}",
        f"WITH SERDEPROPERTIES {_pairs(storage.serde_parameters)}" if storage.serde_parameters else "",
        f"STORED AS INPUTFORMAT {quoted(storage.input_format)} OUTPUTFORMAT {quoted(storage.output_format)}",
        f"LOCATION {quoted(table.location)}",
        f"TBLPROPERTIES {_pairs(parameters)}" if parameters else "",
    ]
    return "\n".join(line for line in lines if line)


def view_statements(index: Index, view: View) -> Iterator[str]:
    """Yield the statements that create a view and add its partitions."""
    hive = to_hive_view(view.table.definition, view.query)
    keys = ", ".join(name(c.name) for c in hive.partition_columns)
    partitioned = f"\nPARTITIONED ON ({keys})" if keys else ""
    comment = f"\nCOMMENT {quoted(hive.comment)}" if hive.comment else ""
    yield f"CREATE VIEW IF NOT EXISTS {_full(hive)}{comment}{partitioned}\nAS {hive.view_expanded_text}"
    if not keys:
        return
    for page in index.publications.pages(view.table):
        for some in batched(page, _AT_ONCE):
            specs = [_partition(hive, p, view=True) for p in some]
            yield from (text for text in specs if text.startswith("--"))
            if said := [text for text in specs if not text.startswith("--")]:
                yield "\n  ".join([f"ALTER VIEW {_full(hive)} ADD IF NOT EXISTS", *said])


def _descriptor_statements(table: HiveTable, partition: PublishedPartition) -> Iterator[str]:
    """Yield the statements that set a partition's own format and settings, if it has them. They need ``USE`` before."""
    spec = _partition(table, partition, view=True)
    if not partition.descriptor or spec.startswith("--"):
        return
    own, alter = partition.descriptor["hive"], f"ALTER TABLE {name(table.name)} {spec}"
    classes = (own["input_format"], own["output_format"], own["serde"])
    yield "{} SET FILEFORMAT INPUTFORMAT {} OUTPUTFORMAT {} SERDE {}".format(alter, *map(quoted, classes))
    if own["serde_parameters"]:
        yield f"{alter} SET SERDEPROPERTIES {_pairs(own['serde_parameters'])}"
    columns = columns_of_descriptor(own)
    if [(c.name, c.type) for c in columns] != [(c.name, c.type) for c in table.columns]:
        yield f"{alter} REPLACE COLUMNS ({_columns(columns)})"


def _partition(table: HiveTable, partition: PublishedPartition, *, view: bool = False) -> str:
    """Return the PARTITION clause of a partition, or a comment if no clause can express it."""
    values = partition_values_of(table, partition.name)
    if DEFAULT_PARTITION in values:
        return left_out(f"the partition {partition.name} of {table}", _NOT_SAID)
    pairs = zip((c.name for c in table.partition_columns), map(quoted, values), strict=True)
    spec = "PARTITION (" + ", ".join(f"{name(key)}={value}" for key, value in pairs) + ")"
    return spec if view or not partition.location else f"{spec} LOCATION {quoted(partition.location)}"


def _full(table: HiveTable) -> str:
    return f"{name(table.database)}.{name(table.name)}"


def _columns(columns: Sequence[Column]) -> str:
    return ", ".join(map(_column, columns))


def _column(column: Column) -> str:
    return f"{name(column.name)} {column.type}" + (f" COMMENT {quoted(column.comment)}" if column.comment else "")


def _pairs(pairs: Mapping[str, str]) -> str:
    items: Iterable[tuple[str, str]] = sorted(pairs.items())
    return "(" + ", ".join(f"{quoted(key)}={quoted(value)}" for key, value in items) + ")"
