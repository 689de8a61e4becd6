from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.checks.plain_english_check import (
    LONGEST_TEST_NAME,
    MOST_EXCEPTIONS,
    PROJECT,
    Place,
    checked_files,
    class_problems,
    long_name_problems,
    module_problems,
    refused_words,
    word_problems,
)

if TYPE_CHECKING:
    from pathlib import Path


def write(file: Path, text: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Nobody writes it.", ["nobody"]),
        ("Somebody else's, WHOEVER it is", ["somebody", "whoever"]),
        ("it tells, told and untold", ["tells", "told", "untold"]),
        ("def test_a_port_that_somebody_listens_on():", ["somebody"]),
        ("def bring_in_step(): isTold(x)", ["in step", "told"]),
        ("class _Told:", ["told"]),
        ("None where there is none.", ["is none"]),
        ("it comes to\n    the same", ["comes to the same"]),
        ("# it has\n# yet to begin", ["has yet to"]),
        (" * it lets\n * go of it", ["lets go of"]),
        ('return "in step"', ['"in step"']),
        ("`nobody`", ['"nobody"']),
        ('"not in step"', ["in step"]),
        # Python's constant, ordinals, and words that contain a refused one
        ("if x is None and isNone(x):", []),
        ("the warehouse in step 2", []),
        ("intelligent, retold, theirs, foretelling, an instep", []),
    ],
)
def test_refused_words_are_found_as_whole_words_in_any_case(text: str, words: list[str]) -> None:
    assert [word for _, word in refused_words(text)] == words


def test_a_refused_word_has_its_line() -> None:
    assert list(refused_words("one\ntwo isTold\nbring_in\n_step\n")) == [(2, "told"), (3, "in step")]


def test_sources_docs_and_two_pages_are_checked(tmp_path: Path) -> None:
    checked = ["README.md", "catalog_ext/a.py", "catalog_ext/b/C.scala", "docs/d.json", "docs/e/f.md", "tests/G.java"]
    for name in [*checked, "CONTRIBUTING.md", "build/h.py", "catalog_ext/i.json", "docs/j.png"]:
        write(tmp_path / name)
    (tmp_path / "catalog_ext" / "linked").symlink_to(tmp_path / "tests")
    assert [file.relative_to(tmp_path).as_posix() for file in checked_files(tmp_path)] == checked


def test_the_projects_own_files_are_checked() -> None:
    checked = {file.relative_to(PROJECT).as_posix() for file in checked_files(PROJECT)}
    assert {"CHANGELOG.md", "docs/errors.md", "metastore/errors/input.py", "tests/conftest.py"} <= checked


def test_words_are_refused_but_at_listed_places(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.md", 'one\nNobody\n"nobody"\n')
    write(tmp_path / "docs" / "b.md", "told\n`nobody`\n")
    exceptions = (Place("docs/b.md", "told", "Hive's message"), Place("*", '"nobody"', "a state"))
    (problem,) = word_problems(tmp_path, exceptions)
    assert problem.startswith("docs/a.md:2: 'nobody' is refused")


def test_an_exception_without_its_word_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.md", "told\n")
    exceptions = (Place("docs/a.md", "told", "x"), Place("docs/a.md", "heir", "x"), Place("docs/b.md", "told", "x"))
    assert list(word_problems(tmp_path, exceptions)) == [
        "docs/a.md: 'heir' is not there, remove it from EXCEPTIONS",
        "docs/b.md: 'told' is not there, remove it from EXCEPTIONS",
    ]


def test_too_many_exceptions_are_refused(tmp_path: Path) -> None:
    exceptions = []
    for number in range(MOST_EXCEPTIONS + 1):
        write(tmp_path / "docs" / f"{number}.md", "told\n")
        exceptions.append(Place(f"docs/{number}.md", "told", "x"))
    assert list(word_problems(tmp_path, exceptions)) == ["EXCEPTIONS has 21 places, at most 20"]
    assert list(word_problems(tmp_path, [Place("docs/*.md", "told", "x")])) == []


def test_two_modules_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a/tables", "b/tables", "a/views", "b/views", "cli/views", "a/__init__", "b/__init__", "c/alone"):
        write(tmp_path / "catalog_ext" / f"{name}.py")
    # The same name in another package tree is another module.
    write(tmp_path / "metastore" / "c" / "alone.py")
    same, unused = module_problems(tmp_path, {"catalog_ext/views": "…", "catalog_ext/alone": "…"})
    assert same.startswith("catalog_ext/a/tables.py, catalog_ext/b/tables.py: one base name")
    assert unused == "catalog_ext/alone: remove it from SAME_MODULE_NAMES"


def test_modules_of_an_interface_may_have_their_subjects_name(tmp_path: Path) -> None:
    for folder in ("tables", "cli", "procedures", "service/handlers"):
        write(tmp_path / "catalog_ext" / folder / "tables.py")
    assert list(module_problems(tmp_path, {})) == []


def test_two_public_classes_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "catalog_ext" / "a.py", "class Verdict: ...\nclass _Own: ...\nclass Known: ...\n")
    write(tmp_path / "metastore" / "b.py", "class Verdict: ...\nclass _Own: ...\nclass Known: ...\nclass Once: ...\n")
    same, unused = class_problems(tmp_path, {"Known": "…", "Once": "…"})
    assert same.startswith("catalog_ext/a.py, metastore/b.py: each has a class Verdict")
    assert unused == "Once: remove it from SAME_CLASS_NAMES"


def test_long_test_names_are_refused(tmp_path: Path) -> None:
    fits, long = f"test_{'x' * (LONGEST_TEST_NAME - 5)}", f"test_{'x' * (LONGEST_TEST_NAME - 4)}"
    text = f"def {fits}() -> None:\n    ...\n\n\nclass TestIt:\n    def {long}(self) -> None: ...\n"
    write(tmp_path / "tests" / "new" / "test_it.py", text)
    assert list(long_name_problems(tmp_path)) == [
        f"tests/new/test_it.py:6: {long} has more than {LONGEST_TEST_NAME} characters",
    ]
