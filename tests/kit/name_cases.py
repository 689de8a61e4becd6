"""Random object names, and the expected action of a repair for each: registered, hidden or skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.storage.locations import Location
from tests.kit.repair_cases import indexed, skipped

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog_ext.catalog import Catalog

KEYS = {"day": "INT", "h": "STRING"}
GOOD = "day=3/h=a/good.csv"
"""A file beside the others, which has to be registered whatever they are named."""

_ODD = [
    "day=1", "day=01", "day=", "day=x", "day==1", "DAY=2", "day=1 ", "day=%31", "day=__HIVE_DEFAULT_PARTITION__",
    "day=1_$folder$", "h=a", "h=", "h=%2F", "h=%", "h=%zz", "h=a b", "h=+", "h=a&b", "h=<x>", "h=\n", "h=\x7f",
    "h=\x01", "h=é", "h=e\u0301", "h=日本", "h=😀", "h=*", "h={1,2}", "h=?", "h=[a]", "h=\\", "h='\"", "h=:", "h=#?",
    "=", "=1", "a", "a b", "_h", ".h", "_h=1", "$folder$", "part=0_$folder$", "*", "~", "\ufeff", "\u2028",
    "h=" + "x" * 200,
]  # fmt: skip
_NOT_IN_S3_PATHS = ["", ".", ".."]

_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\x00"), min_size=1, max_size=12)
components = st.one_of(st.sampled_from(_ODD), st.sampled_from(["day=1", "day=2", "h=a", "h=b"]), _texts)
posix_components = st.one_of(components, st.binary(min_size=1, max_size=8)).filter(
    lambda name: (
        name not in (".", "..", b".", b"..") and not (isinstance(name, bytes) and (b"/" in name or b"\x00" in name))
    )
)
hdfs_components = components.filter(lambda name: ":" not in name)
s3_keys = st.lists(st.one_of(components, st.sampled_from(_NOT_IN_S3_PATHS)), min_size=1, max_size=4).map("/".join)


def check_repair(catalog: Catalog, table: str, paths: Collection[str]) -> None:
    """Repair a table and check that every path has its place in the index or in the report, and that nothing is lost.

    Args:
        catalog: The catalog.
        table: A table with the partition columns ``KEYS``.
        paths: All that lies there, relative to the table: files, and directories that end in a slash; as the report
            writes them.
    """
    preview = catalog.repair_partitions(table, dry_run=True)
    report = catalog.repair_partitions(table)
    assert list(preview) == list(report)
    held = indexed(catalog, table)
    assert "good.csv" in held["day=3/h=a"]
    registered = {f"{name}/{file}" for name, files in held.items() for file in files}
    reasons = skipped(report)
    assert all(reasons.values())
    for path in paths:
        assert path in registered or _is_hidden(path) or _has_reason(path, reasons) or path.endswith("/"), path
    for path in registered:
        assert path in paths
        assert str(Location.parse(f"s3a://b/{path}")) == f"s3a://b/{path}", "readers find the file by its path"
    assert [entry for entry in catalog.repair_partitions(table) if entry.action != "skip"] == []


def _is_hidden(path: str) -> bool:
    # An object `<directory>_$folder$` marks a directory: Hadoop's old S3 client wrote them.
    return path.endswith("_$folder$") or any(is_hidden(component) for component in path.rstrip("/").split("/"))


def _has_reason(path: str, reasons: Collection[str]) -> bool:
    return any(
        path in (reason, f"{reason}/") or path.startswith("/" if reason == "/" else f"{reason}/") for reason in reasons
    )
