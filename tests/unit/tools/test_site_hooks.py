"""What the site makes of Markdown and of notebooks before MkDocs sees it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import markdown
import pytest
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.site import hooks
from tests.checks.docs_check import anchors

if TYPE_CHECKING:
    from pathlib import Path


def shown(text: str) -> str:
    """The HTML that the site has for a text, without its lines' ends."""
    made = markdown.markdown("\n".join(hooks.rewritten(text.split("\n"))), extensions=["tables", "fenced_code"])
    return made.replace("\n", "")


def test_a_list_right_below_a_paragraph_is_a_list() -> None:
    assert shown("It has\n* one,\n* two.") == "<p>It has</p><ul><li>one,</li><li>two.</li></ul>"


def test_what_is_nested_by_the_width_of_its_marker_is_nested() -> None:
    assert shown("1. one\n   * a\n   * b\n2. two") == "<ol><li>one<ul><li>a</li><li>b</li></ul></li><li>two</li></ol>"


def test_an_item_of_several_blocks_ends_with_the_next_item() -> None:
    text = "1. one\n   * a\n\n   more\n2. two"
    assert shown(text) == ("<ol><li><p>one</p><ul><li>a</li></ul><p>more</p></li><li><p>two</p></li></ol>")


def test_code_in_a_list_stays_in_it() -> None:
    assert "<li>" in (made := shown("* so:\n  ```\n  a  b\n  ```\n* and"))
    assert "a  b" in made
    assert made.count("<ul>") == 1


def test_a_pipe_in_the_code_of_a_table_is_no_backslash() -> None:
    assert "<code>a|b</code>" in shown("| x |\n|---|\n| `a\\|b` |")


def test_a_block_of_code_is_left_alone() -> None:
    lines = ["```", "text", "* no list", "   1. nor this", "", "| x |", "```"]
    assert hooks.rewritten(lines) == lines


@pytest.mark.parametrize(
    "title", ["One", "a `b` & c: d", "CATALOG_EXT_CONFLICT", "`partition.auto.keys.<ns.table>`", "é!"]
)
def test_anchors_are_those_that_the_pages_are_checked_by(title: str) -> None:
    assert {hooks.github_anchor(title, "-")} == anchors(f"## {title}")


@pytest.mark.slow
def test_a_notebook_becomes_a_page_with_its_outputs(tmp_path: Path) -> None:
    picture = b"\x89PNG\r\n\x1a\n"
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "printed\n"},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(picture).decode()}, "metadata": {}},
        {"output_type": "display_data", "data": {"text/html": "<table><tr><td>7</td></tr></table>"}, "metadata": {}},
    ]
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# First\n\n[sql](sql.md)"},
        {"cell_type": "code", "id": "b", "metadata": {}, "execution_count": 1, "source": "1 + 1", "outputs": outputs},
    ]
    notebook = {"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    pages, site = tmp_path / "pages", tmp_path / "site"
    (pages / "part").mkdir(parents=True)
    (pages / "part" / "lesson.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    config = MkDocsConfig()
    config.load_dict({"site_name": "x", "docs_dir": str(pages), "site_dir": str(site)})
    assert config.validate() == ([], [])
    config.plugins._current_plugin = "hooks"  # as while MkDocs calls it
    found = hooks.on_files(Files([File("part/lesson.ipynb", str(pages), str(site), False)]), config)
    assert found.get_file_from_path("part/lesson.ipynb") is None
    page = found.get_file_from_path("part/lesson.md")
    assert page is not None
    assert page.content_string.startswith("# First")
    for part in ("```python\n1 + 1\n```", "printed", "<td>7</td>", "![png](lesson_files/lesson_1_1.png)"):
        assert part in page.content_string
    (made,) = [file for file in found if file.src_uri.endswith(".png") and "lesson" in file.src_uri]
    assert (made.src_uri, made.content_bytes) == ("part/lesson_files/lesson_1_1.png", picture)
