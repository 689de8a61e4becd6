"""The check of a jar's references against other jars, on class files that are written here byte by byte."""

from __future__ import annotations

import struct
import zipfile
from typing import TYPE_CHECKING

import pytest

from release import linkage

if TYPE_CHECKING:
    from pathlib import Path

PUBLIC, ABSTRACT, FINAL = 0x0001, 0x0400, 0x0010
INTERFACE = 0x0200 | ABSTRACT
OBJECT = "java/lang/Object"
RUN = ("run", "()V")


class Written:
    """A class file under construction."""

    def __init__(
        self,
        name: str,
        parent: str = OBJECT,
        interfaces: tuple[str, ...] = (),
        methods: dict[tuple[str, str], int] | None = None,
        calls: tuple[tuple[str, tuple[str, str]], ...] = (),
        flags: int = PUBLIC,
    ) -> None:
        self.name = name
        self._pool: list[bytes] = []
        this, above = self._class(name), self._class(parent)
        mixed = [self._class(one) for one in interfaces]
        members = [
            struct.pack(">HHHH", access, self._text(method), self._text(descriptor), 0)
            for (method, descriptor), access in (methods or {}).items()
        ]
        for owner, (method, descriptor) in calls:
            member = self._add(struct.pack(">BHH", 12, self._text(method), self._text(descriptor)))
            self._add(struct.pack(">BHH", 10, self._class(owner), member))
        # A long takes two places of the pool.
        self._pool += [struct.pack(">Bq", 5, 7), b""]
        self._text("after a long")
        self.content = b"".join(
            [
                b"\xca\xfe\xba\xbe",
                struct.pack(">HHH", 0, 61, len(self._pool) + 1),
                *self._pool,
                struct.pack(">HHHH", flags, this, above, len(mixed)),
                struct.pack(f">{len(mixed)}H", *mixed),
                struct.pack(">H", 0),
                struct.pack(">H", len(members)),
                *members,
                struct.pack(">H", 0),
            ]
        )

    def _add(self, constant: bytes) -> int:
        self._pool.append(constant)
        return len(self._pool)

    def _text(self, text: str) -> int:
        return self._add(struct.pack(">BH", 1, len(text)) + text.encode())

    def _class(self, name: str) -> int:
        return self._add(struct.pack(">BH", 7, self._text(name)))


def jar(path: Path, *classes: Written) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for each in classes:
            archive.writestr(f"{each.name}.class", each.content)
    return path


def found(folder: Path, own: Written, *others: Written) -> list[str]:
    return linkage.problems(jar(folder / "own.jar", own), [jar(folder / "others.jar", *others)])


class TestReferences:
    def test_what_is_there_is_no_problem(self, tmp_path: Path) -> None:
        spark = Written("spark/Child", parent="spark/Parent")
        above = Written("spark/Parent", methods={RUN: PUBLIC})
        own = Written("own/Caller", calls=(("spark/Child", RUN), ("spark/Child", ("hashCode", "()I"))))
        assert found(tmp_path, own, spark, above) == []

    def test_a_method_of_other_types_is_not_there(self, tmp_path: Path) -> None:
        own = Written("own/Caller", calls=(("spark/Plan", RUN),))
        changed = Written("spark/Plan", methods={("run", "(I)V"): PUBLIC})
        assert found(tmp_path, own, changed) == ["own/Caller: spark/Plan.run ()V is not there"]

    def test_a_class_that_is_gone(self, tmp_path: Path) -> None:
        own = Written("own/Caller", calls=(("[Lspark/Plan;", ("clone", "()V")),))
        assert found(tmp_path, own) == [
            "own/Caller: spark/Plan is not there",
            "own/Caller: spark/Plan.clone ()V is not there",
        ]

    def test_of_the_runtimes_classes_nothing_is_known(self, tmp_path: Path) -> None:
        spark = Written("spark/Failure", parent="java/lang/RuntimeException")
        own = Written("own/Caller", calls=(("spark/Failure", ("getMessage", "()V")), ("java/util/List", RUN)))
        assert found(tmp_path, own, spark) == []


class TestSupertypes:
    def test_a_method_that_was_added_without_a_body(self, tmp_path: Path) -> None:
        api = Written("spark/Api", methods={RUN: PUBLIC | ABSTRACT}, flags=PUBLIC | INTERFACE)
        own = Written("own/Scan", interfaces=("spark/Api",))
        assert found(tmp_path, own, api) == ["own/Scan: spark/Api.run ()V is abstract"]
        given = Written("own/Scan", interfaces=("spark/Api",), methods={RUN: PUBLIC})
        assert found(tmp_path, given, api) == []

    def test_a_default_is_a_body(self, tmp_path: Path) -> None:
        api = Written("spark/Api", methods={RUN: PUBLIC | ABSTRACT}, flags=PUBLIC | INTERFACE)
        more = Written("spark/More", interfaces=("spark/Api",), methods={RUN: PUBLIC}, flags=PUBLIC | INTERFACE)
        assert found(tmp_path, Written("own/Scan", interfaces=("spark/More",)), api, more) == []

    def test_what_became_final(self, tmp_path: Path) -> None:
        above = Written("spark/Base", methods={RUN: PUBLIC | FINAL})
        own = Written("own/Scan", parent="spark/Base", methods={RUN: PUBLIC})
        assert found(tmp_path, own, above) == ["own/Scan: spark/Base.run ()V is final"]


def test_what_is_no_class_file_is_refused() -> None:
    with pytest.raises(ValueError, match="CAFEBABE"):
        linkage.read(b"PK\x03\x04")
