from __future__ import annotations

from typing import TYPE_CHECKING

from tests.checks.docs_check import (
    PROJECT,
    anchors,
    broken_examples,
    broken_links,
    misplaced_sources,
    pages,
    stale_files,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A Title: with `code`\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[good](other.md) [good](other.md#a-title-with-code) [web](https://example.org) `[code](nowhere.md)`\n"
        "```\n[in a block](nowhere.md)\n```\n"
        "[bad](missing.md) [bad](other.md#missing)\n",
        encoding="utf-8",
    )
    found = list(broken_links(page))
    assert len(found) == 2
    assert "missing.md leads nowhere" in found[0]
    assert "other.md#missing" in found[1]


def test_headings_in_code_are_no_anchors() -> None:
    assert anchors("# One\n```\n# Two\n```\n## Three & four\n") == {"one", "three--four"}


def test_examples_must_parse(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text\n\n```python\nx = 1\ny = (\n```\n\n   ```python\n   z = 1\n   ```\n", encoding="utf-8")
    (problem,) = broken_examples(page)
    assert f"{page}:5: the Python example does not parse" in problem


def test_the_projects_own_pages_are_looked_at() -> None:
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"} <= {page.name for page in pages(PROJECT)}


def test_the_connectors_page_and_its_sources_agree_in_both_directions(tmp_path: Path) -> None:
    scala = "scala/org/apache/spark/sql/catalogext"
    for name in ("main/{}/Top", "main/{}/scan/Reader", "main/{}/scan/Unlisted", "spark-4.3/{}/scan/Shim"):
        file = tmp_path / "src" / f"{name.format(scala)}.scala"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    page = tmp_path / "README.md"
    rows = "### `.`: names\n| file | why |\n| `Top` | x |\n### `scan`: reads\n| `Reader` | x |\n| `Shim` | x |\n"
    page.write_text(f"{rows}### `write`\n| `Reader` | in another room |\n", encoding="utf-8")
    missing, absent = misplaced_sources(page, tmp_path / "src")
    assert missing.endswith("the source file scan/Unlisted.scala is missing in the table")
    assert absent.endswith("there is no source file write/Reader.scala")


def test_files_that_are_named_are_there(tmp_path: Path) -> None:
    (tmp_path / "metastore" / "commit").mkdir(parents=True)
    (tmp_path / "metastore" / "commit" / "rules.py").write_text('"""See `commit/gone.py`."""\n', encoding="utf-8")
    (tmp_path / "README.md").write_text(
        "`rules.py` `commit/rules.py` `metastore/commit` `metastore/commit/` `tables/load` `x.parquet` rules.md\n"
        "`moved.py`, and `metastore/moved`\n",
        encoding="utf-8",
    )
    (tmp_path / "CHANGELOG.md").write_text("`old.py`\n", encoding="utf-8")
    assert list(stale_files(tmp_path)) == [
        f"{tmp_path}/README.md:2: there is no moved.py",
        f"{tmp_path}/README.md:2: there is no metastore/moved",
        f"{tmp_path}/metastore/commit/rules.py:1: there is no commit/gone.py",
    ]
