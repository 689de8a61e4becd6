"""What people see of a repair: the text, the JSON, the notebook's table, the entries as a sequence and as Arrow."""

from __future__ import annotations

import gc
import json
import os
from html.parser import HTMLParser
from pathlib import Path

import pytest

import catalog_ext
from catalog_ext.metastore.errors import StorageError
from catalog_ext.metastore.runtime.wording import format_bytes
from catalog_ext.repair.report import SCHEMA, RepairReport, ReportEntry
from catalog_ext.scan.scratch import Scratch

Row = tuple[str, str, str, int, int, str]
HOSTILE = "ds=<script>alert('1')</script>&\"\n\x1b[31mé"


def report(*rows: Row, **arguments: object) -> RepairReport:
    scratch = Scratch()
    scratch.add_entries(rows)
    given = {"table": "s.t", "mode": "sync", "where": None, "dry_run": False, "version": 7, **arguments}
    return RepairReport(scratch, **given)  # type: ignore[arg-type]


ROWS: list[Row] = [
    ("add", "ds=1", "ds=1", 2, 2048, "new on the store"),
    ("add", "ds=2", "ds=2", 1, 1024, "new on the store"),
    ("drop", "ds=3", "ds=3", 1, 10, "the directory has gone"),
    ("change", "ds=4", "ds=4/a", 1, 5, "file added"),
    ("change", "ds=4", "ds=4/b", 1, 5, "file gone"),
    ("skip", "", "stray.csv", 1, 5, "the file lies above the partition directories"),
]


def test_the_text_says_what_was_done_and_nothing_of_what_was_not() -> None:
    assert str(report(*ROWS)) == (
        "Repair of s.t (mode sync): version 7\n"
        "  added    2 partitions, 3 files, 3.0 KiB\n"
        "  dropped  1 partition, 1 file, 10 B\n"
        "  changed  1 partition, 2 files, 10 B\n"
        "  skipped  1 path\n"
        "  add      ds=1: new on the store\n"
        "  add      ds=2: new on the store\n"
        "  drop     ds=3: the directory has gone\n"
        "  change   ds=4/a: file added\n"
        "  change   ds=4/b: file gone\n"
        "  skip     stray.csv: the file lies above the partition directories"
    )
    assert str(report(ROWS[0], where="ds >= 1")) == (
        "Repair of s.t (mode sync where ds >= 1): version 7\n  added    1 partition, 2 files, 2.0 KiB\n"
        "  add      ds=1: new on the store"
    )


def test_the_text_of_a_preview_and_of_nothing() -> None:
    assert str(report(dry_run=True, mode="add")) == (
        "Preview of repair of s.t (mode add): nothing was changed\n  there is nothing to add"
    )
    assert str(report()).endswith("version 7\n  the index agrees with the store")


def test_the_text_where_there_is_nothing_but_skipped_paths() -> None:
    assert str(report(ROWS[-1])).splitlines()[1:] == [
        "  skipped  1 path",
        "  skip     stray.csv: the file lies above the partition directories",
        "  otherwise the index agrees with the store",
    ]


def test_the_text_names_what_was_added_and_the_metastore_cannot_hold() -> None:
    text = str(report(*ROWS[:2], ("add", "ds=", "ds=", 1, 1, "not representable in the metastore: the value is empty")))
    assert text.splitlines()[1:] == [
        "  added    3 partitions, 4 files, 3.0 KiB",
        "  add      ds=: not representable in the metastore: the value is empty",
        "  add      ds=1: new on the store",
        "  add      ds=2: new on the store",
    ]
    rows: list[Row] = [("add", f"ds={i}", f"ds={i}", 1, 1, "new on the store") for i in range(25)]
    *_, last, more = str(report(*rows)).splitlines()
    assert (last, more) == ("  add      ds=19: new on the store", "           … and 5 more")


def test_the_text_of_deliveries_that_wait() -> None:
    waiting = report(ROWS[0], pending_deliveries=2, delivery_error="no\nconnection")
    assert str(waiting).splitlines()[-1] == (
        "  the metastore has not taken 2 changes yet (no\\nconnection); delivered later, in order"
    )
    assert "1 change yet;" in str(report(pending_deliveries=1))


def test_a_long_report_names_the_first_of_each_kind_and_counts_the_rest() -> None:
    rows: list[Row] = [("skip", "", f"x{i:04d}", 0, 0, "no key") for i in range(1234)]
    rows += [("drop", f"ds={i}", f"ds={i}", 1, 1, "gone") for i in range(20)]
    text = str(report(*rows))
    assert len(text.splitlines()) == 1 + 2 + 20 + 21
    assert text.splitlines()[-1] == "           … and 1,214 more"
    assert text.count("… and") == 1


def test_what_a_name_holds_does_not_reach_the_terminal() -> None:
    text = str(report(("skip", "", HOSTILE, 1, 1, f"bad {HOSTILE}"), ("skip", "", "x" * 5000, 1, 1, "long")))
    assert len(text.splitlines()) == 5
    assert "\x1b" not in text
    assert "\\x1b[31mé" in text
    assert max(map(len, text.splitlines())) < 400


def test_the_representation_is_one_line() -> None:
    assert repr(report(*ROWS)) == (
        "<RepairReport of s.t, mode sync: added 2 partitions, 3 files, 3.0 KiB, dropped 1 partition, 1 file, 10 B, "
        "changed 1 partition, 2 files, 10 B, skipped 1 path>"
    )
    assert repr(report(dry_run=True)) == "<RepairReport of s.t, mode sync, dry run: nothing to do>"
    assert (repr(report(*ROWS).added), repr(report(*ROWS).dropped)) == ("<2 entries>", "<1 entry>")


class Tags(HTMLParser):
    """Collects the tags and the text, and notices those that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, _: object) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(of: RepairReport) -> Tags:
    tags = Tags()
    tags.feed(of._repr_html_())
    assert tags.open == []
    return tags


def test_the_notebooks_table_escapes_what_names_hold() -> None:
    hostile = report(
        ("skip", HOSTILE, HOSTILE, 1, 1, HOSTILE), where="ds = '<b>'", delivery_error="<i>", pending_deliveries=1
    )
    tags = parsed(hostile)
    assert not {"script", "b", "i"} & set(tags.seen)
    assert any("<script>alert('1')</script>" in text for text in tags.text)
    assert any("ds = '<b>'" in text for text in tags.text)


def test_the_notebooks_table_is_bounded() -> None:
    rows: list[Row] = [("skip", "", f"x{i}", 0, 0, "no key") for i in range(150)]
    tags = parsed(report(*rows, *(("add", f"k={i}", f"k={i}", 0, 0, "new on the store") for i in range(150))))
    assert tags.seen.count("tr") == 2 + 1 + 25 + 25
    assert {"x0", "k=0"} <= set(tags.text)
    assert "… and 250 more" in tags.text
    assert "table" not in parsed(report()).seen


def test_the_json_holds_everything() -> None:
    whole = json.loads(
        report(*ROWS, ("skip", "", HOSTILE, 1, 1, HOSTILE), where="ds > 0", delivery_error="e").to_json()
    )
    assert {k: v for k, v in whole.items() if not isinstance(v, list)} == {
        "table": "s.t", "mode": "sync", "where": "ds > 0", "dry_run": False, "refused": None, "version": 7,
        "pending_deliveries": 0, "delivery_error": "e",
    }  # fmt: skip
    assert {k: len(v) for k, v in whole.items() if isinstance(v, list)} == {
        "added": 2, "dropped": 1, "changed": 2, "skipped": 2, "warnings": 0,
    }  # fmt: skip
    assert whole["skipped"][1]["path"] == HOSTILE
    assert json.loads(report().to_json())["added"] == []


def test_entries_are_a_sequence() -> None:
    entries = report(*(("add", f"ds={i}", f"ds={i}", i, 0, "new") for i in range(10))).added
    assert len(entries) == 10
    assert entries[0] == ReportEntry("add", "ds=0", "ds=0", 0, 0, "new")
    assert [e.files for e in entries] == list(range(10))
    for index in (
        slice(None),
        slice(2, 5),
        slice(None, None, -1),
        slice(8, 2, -3),
        slice(5, 5),
        slice(-3, None),
        slice(1, 99, 4),
    ):
        assert [e.files for e in entries[index]] == list(range(10))[index]
    assert (entries[-1].files, entries[9].files) == (9, 9)
    for index in (10, -11):
        with pytest.raises(IndexError):
            entries[index]
    assert entries[3] in entries
    assert list(reversed(entries))[0].files == 9  # noqa: RUF015 -- the protocol is what is tested
    assert not report().added


def test_all_entries_come_in_the_order_of_the_actions() -> None:
    # What was skipped comes first, so that the first rows of a preview show it, however much is added.
    assert [e.action for e in report(*reversed(ROWS))] == ["skip", "add", "add", "drop", "change", "change"]
    assert len(report(*ROWS)) == 6


def test_counts_are_of_distinct_partitions() -> None:
    counts = report(*ROWS).counts("change")
    assert (counts.partitions, counts.files, counts.bytes) == (1, 2, 10)


def test_arrow_has_the_entries_in_batches() -> None:
    whole = report(*ROWS)
    assert whole.to_arrow().schema == SCHEMA
    assert whole.to_arrow().to_pylist() == [
        {"action": a, "partition": p, "path": x, "files": f, "bytes": b, "reason": r}
        for a, p, x, f, b, r in sorted(ROWS, key=lambda row: row[0] != "skip")
    ]
    assert [b.num_rows for b in whole.batches(4)] == [4, 2]
    assert report().to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (3_500_000, "3.3 MiB"),
        (2**60, "1048576.0 TiB"),
    ],
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert format_bytes(size) == text


# The scratch database


def open_scratch_files() -> set[str]:
    """SQLite's temporary files that this process has open; what other tests' servers have open does not count."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(entry)
        except FileNotFoundError:
            continue
        if "/etilqs_" in target:
            found.add(f"{entry.name} {target}")
    return found


@pytest.mark.slow
def test_the_scratch_file_has_no_name_and_goes_with_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    before = open_scratch_files()
    whole = report()
    scratch = whole._scratch
    scratch.insert("listed_files", ((f"ds={i}", "x" * 1000, 1, 1, None) for i in range(60_000)))
    assert len(open_scratch_files() - before) == 1, "beyond its cache it is on disk"
    assert list(tmp_path.iterdir()) == []
    del whole, scratch
    gc.collect()
    assert open_scratch_files() <= before


def test_a_scratch_file_that_fails_says_what_to_do() -> None:
    scratch = Scratch()
    scratch.close()
    for use in (
        lambda: scratch.count("SELECT 1"),
        lambda: scratch.execute("SELECT 1"),
        lambda: list(scratch.rows("SELECT 1")),
    ):
        with pytest.raises(StorageError, match="SQLITE_TMPDIR"):
            use()


def test_the_public_surface() -> None:
    assert sorted(catalog_ext.__all__) == [
        "Catalog", "CatalogExtError", "CatalogTable", "Page", "RepairProgress", "RepairReport", "ReportEntry",
        "active_catalog", "adopt", "configure", "connect", "open_page", "repair_partitions", "traced",
    ]  # fmt: skip
    for name in catalog_ext.__all__:
        getattr(catalog_ext, name)  # resolved at the first use
    assert {name for name in vars(catalog_ext) if name in catalog_ext.__all__} == set(catalog_ext.__all__)
