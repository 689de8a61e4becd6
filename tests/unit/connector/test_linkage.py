"""The check of a jar's references against other jars, on class files that are written here byte by byte."""

from __future__ import annotations

import struct
import zipfile
from typing import TYPE_CHECKING

import pytest

from release import class_files, linkage

if TYPE_CHECKING:
    from pathlib import Path

PUBLIC, PRIVATE, PROTECTED, STATIC, ABSTRACT, FINAL = 0x0001, 0x0002, 0x0004, 0x0008, 0x0400, 0x0010
INTERFACE = 0x0200 | ABSTRACT
OBJECT = "java/lang/Object"
RUN = ("run", "()V")
CALL = ("call", "()V")
CONF = ("conf", "I")
GET_STATIC, PUT_STATIC, GET_FIELD, PUT_FIELD = 178, 179, 180, 181
VIRTUAL, SPECIAL, STATICALLY, INTERFACED, NEW = 182, 183, 184, 185, 187
# Instructions that are longer than others, at the start of a method: wide iinc, wide iload, a switch by a table and one
# by two keys, each filled up to a multiple of four.
LONG = (
    bytes((196, 132, 0, 1, 0, 1)) + bytes((196, 21, 0, 1)) + bytes((170, 0)) + struct.pack(">iiiii", 0, 3, 4, 0, 0)
    + bytes((171, 0, 0, 0)) + struct.pack(">iiiiii", 0, 2, 184, 0, 185, 0)
)  # fmt: skip


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
        fields: dict[tuple[str, str], int] | None = None,
        code: tuple[tuple[int, str, tuple[str, str] | None], ...] = (),
        handles: tuple[tuple[int, str, tuple[str, str]], ...] = (),
        forwards: tuple[tuple[str, tuple[str, str]], ...] = (),
    ) -> None:
        self.name = name
        self._pool: list[bytes] = []
        this, above = self._class(name), self._class(parent)
        mixed = [self._class(one) for one in interfaces]
        members = [
            struct.pack(">HHHH", access, self._text(method), self._text(descriptor), 0)
            for (method, descriptor), access in (methods or {}).items()
        ]
        kept = [
            struct.pack(">HHHH", access, self._text(field), self._text(descriptor), 0)
            for (field, descriptor), access in (fields or {}).items()
        ]
        for owner, called in calls:
            self._member(10, owner, called)
        for kind, owner, called in handles:
            self._add(struct.pack(">BBH", 15, kind, self._member(11 if kind == 9 else 10, owner, called)))
        if code:
            members.append(self._method(code))
        for owner, called in forwards:
            # aload_0, invokespecial, return
            content = b"\x2a" + struct.pack(">BH", SPECIAL, self._member(11, owner, called)) + b"\xb1"
            members.append(self._coded(called, content))
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
                struct.pack(">H", len(kept)),
                *kept,
                struct.pack(">H", len(members)),
                *members,
                struct.pack(">H", 0),
            ]
        )

    def _method(self, code: tuple[tuple[int, str, tuple[str, str] | None], ...]) -> bytes:
        content = LONG
        for opcode, owner, used in code:
            if used is None:
                content += struct.pack(">BH", opcode, self._class(owner))
            else:
                tag = 9 if opcode < VIRTUAL else 11 if opcode == INTERFACED else 10
                content += struct.pack(">BH", opcode, self._member(tag, owner, used))
                content += b"\x01\x00" if opcode == INTERFACED else b""
        return self._coded(("coded", "()V"), content)

    def _coded(self, member: tuple[str, str], content: bytes) -> bytes:
        # Limits of the stack and of variables, the instructions, no handlers, no attributes.
        attribute = struct.pack(">HHI", 9, 9, len(content)) + content + struct.pack(">HH", 0, 0)
        head = struct.pack(">HHHH", PUBLIC, self._text(member[0]), self._text(member[1]), 1)
        return head + struct.pack(">HI", self._text("Code"), len(attribute)) + attribute

    def _member(self, tag: int, owner: str, member: tuple[str, str]) -> int:
        named = self._add(struct.pack(">BHH", 12, self._text(member[0]), self._text(member[1])))
        return self._add(struct.pack(">BHH", tag, self._class(owner), named))

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

    def test_a_case_class_hides_nothing(self, tmp_path: Path) -> None:
        # As all of them it extends an interface of the runtime, which has no methods.
        plan = Written("spark/Plan", interfaces=("java/io/Serializable", "java/lang/AutoCloseable"))
        own = Written("own/Caller", calls=(("spark/Plan", RUN), ("spark/Plan", ("close", "()V"))))
        assert found(tmp_path, own, plan) == ["own/Caller: spark/Plan.run ()V is not there"]


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

    def test_method_that_only_forwards_to_a_missing_supertype_is_no_problem(self, tmp_path: Path) -> None:
        api = Written("spark/Api", flags=PUBLIC | INTERFACE)
        forwarding = Written("own/Scan", interfaces=("spark/Api",), forwards=(("spark/Api", RUN),))
        assert found(tmp_path, forwarding, api) == []
        calling = Written("own/Scan", interfaces=("spark/Api",), code=((SPECIAL, "spark/Api", RUN),))
        assert "own/Scan: spark/Api.run ()V is not there" in found(tmp_path, calling, api)

    def test_what_became_final(self, tmp_path: Path) -> None:
        above = Written("spark/Base", methods={RUN: PUBLIC | FINAL})
        own = Written("own/Scan", parent="spark/Base", methods={RUN: PUBLIC})
        assert found(tmp_path, own, above) == ["own/Scan: spark/Base.run ()V is final"]


class TestOverridden:
    """A method of ours that Spark never calls, because the method that it overrides does not exist."""

    RENAMED = Written("spark/Api", methods={("runs", "()V"): PUBLIC}, flags=PUBLIC | INTERFACE)

    def uncalled(self, folder: Path, own: Written, *others: Written) -> list[str]:
        api = Written("spark/Api", methods={RUN: PUBLIC, CALL: PUBLIC}, flags=PUBLIC | INTERFACE)
        compiled, there = (jar(folder / f"{name}.jar", *of) for name, of in (("new", (api,)), ("old", others)))
        return linkage.uncalled(jar(folder / "own.jar", own), [compiled], [there])

    def test_a_method_that_was_added(self, tmp_path: Path) -> None:
        own = Written("own/Scan", interfaces=("spark/Api",), methods={RUN: PUBLIC})
        assert self.uncalled(tmp_path, own, self.RENAMED) == [
            "own/Scan: spark/Api.run ()V is not there to be overridden"
        ]

    def test_one_that_another_supertype_has(self, tmp_path: Path) -> None:
        above = Written("spark/Above", methods={RUN: PUBLIC}, flags=PUBLIC | INTERFACE)
        api = Written("spark/Api", interfaces=("spark/Above",), flags=PUBLIC | INTERFACE)
        own = Written("own/Scan", interfaces=("spark/Api",), methods={RUN: PUBLIC})
        assert self.uncalled(tmp_path, own, api, above) == []

    def test_what_overrides_nothing_or_changes_nothing(self, tmp_path: Path) -> None:
        methods = {("own", "()V"): PUBLIC, RUN: PUBLIC | STATIC}
        own = Written("own/Scan", interfaces=("spark/Api",), methods=methods, forwards=(("spark/Api", CALL),))
        assert self.uncalled(tmp_path, own, self.RENAMED) == []


class TestUses:
    """A member that is there, and cannot be used as it is."""

    @pytest.mark.parametrize(
        ("opcode", "flags", "found_as"),
        [
            (VIRTUAL, PUBLIC, None),
            (VIRTUAL, PUBLIC | STATIC, "static"),
            (SPECIAL, PUBLIC | STATIC, "static"),
            (STATICALLY, PUBLIC | STATIC, None),
            (STATICALLY, PUBLIC, "not static"),
        ],
    )
    def test_methods_of_objects_and_of_classes(
        self, tmp_path: Path, opcode: int, flags: int, found_as: str | None
    ) -> None:
        spark = Written("spark/Child", parent="spark/Plan")
        above = Written("spark/Plan", methods={RUN: flags})
        own = Written("own/Caller", code=((opcode, "spark/Child", RUN),))
        expected = [f"own/Caller: spark/Child.run ()V is {found_as}"] if found_as else []
        assert found(tmp_path, own, spark, above) == expected

    @pytest.mark.parametrize(
        ("opcode", "flags", "found_as"),
        [
            (GET_FIELD, PUBLIC | FINAL, None),
            (GET_FIELD, PUBLIC | STATIC, "static"),
            (GET_STATIC, PUBLIC, "not static"),
            (PUT_FIELD, PUBLIC, None),
            (PUT_FIELD, PUBLIC | FINAL, "final"),
            (PUT_STATIC, PUBLIC | STATIC | FINAL, "final"),
        ],
    )
    def test_fields(self, tmp_path: Path, opcode: int, flags: int, found_as: str | None) -> None:
        spark = Written("spark/Plan", fields={CONF: flags})
        own = Written("own/Caller", code=((opcode, "spark/Plan", CONF),))
        expected = [f"own/Caller: spark/Plan.conf I is {found_as}"] if found_as else []
        assert found(tmp_path, own, spark) == expected

    @pytest.mark.parametrize(("kind", "found_as"), [(5, "static"), (6, None), (7, "static")])
    def test_what_a_lambda_calls(self, tmp_path: Path, kind: int, found_as: str | None) -> None:
        spark = Written("spark/Plan", methods={RUN: PUBLIC | STATIC})
        own = Written("own/Caller", handles=((kind, "spark/Plan", RUN),))
        expected = [f"own/Caller: spark/Plan.run ()V is {found_as}"] if found_as else []
        assert found(tmp_path, own, spark) == expected

    @pytest.mark.parametrize(
        ("flags", "caller", "parent", "is_seen"),
        [
            (PRIVATE, "spark/Other", OBJECT, False),
            (PRIVATE, "spark/Plan$Inner", OBJECT, True),
            (0, "own/Caller", OBJECT, False),
            (0, "spark/Other", OBJECT, True),
            (PROTECTED, "own/Caller", OBJECT, False),
            (PROTECTED, "own/Caller", "spark/Plan", True),
        ],
    )
    def test_members_that_are_not_public(
        self, tmp_path: Path, flags: int, caller: str, parent: str, *, is_seen: bool
    ) -> None:
        spark = Written("spark/Plan", methods={RUN: flags})
        own = Written(caller, parent=parent, calls=(("spark/Plan", RUN),))
        expected = [] if is_seen else [f"{caller}: spark/Plan.run ()V is not visible from there"]
        assert found(tmp_path, own, spark) == expected

    def test_a_class_that_is_not_public(self, tmp_path: Path) -> None:
        own = Written("own/Caller", code=((NEW, "spark/Plan", None),))
        assert found(tmp_path, own, Written("spark/Plan", flags=0)) == ["own/Caller: spark/Plan is not public"]
        assert (
            found(tmp_path, Written("spark/Caller", code=((NEW, "spark/Plan", None),)), Written("spark/Plan", flags=0))
            == []
        )

    def test_an_object_of_a_class_that_became_abstract(self, tmp_path: Path) -> None:
        own = Written("own/Caller", code=((NEW, "spark/Plan", None),))
        assert found(tmp_path, own, Written("spark/Plan")) == []
        changed = Written("spark/Plan", flags=PUBLIC | ABSTRACT)
        assert found(tmp_path, own, changed) == ["own/Caller: spark/Plan is abstract"]

    def test_a_class_that_became_an_interface(self, tmp_path: Path) -> None:
        as_class = Written("spark/Api", methods={RUN: PUBLIC})
        as_interface = Written("spark/Api", methods={RUN: PUBLIC | ABSTRACT}, flags=PUBLIC | INTERFACE)
        of_class = Written("own/Caller", code=((VIRTUAL, "spark/Api", RUN),))
        of_interface = Written("own/Caller", code=((INTERFACED, "spark/Api", RUN),))
        assert found(tmp_path, of_class, as_class) == []
        assert found(tmp_path, of_interface, as_interface) == []
        assert found(tmp_path, of_class, as_interface) == ["own/Caller: spark/Api.run ()V is of an interface"]
        assert found(tmp_path, of_interface, as_class) == ["own/Caller: spark/Api.run ()V is of a class"]

    def test_static_methods_of_an_interface_are_not_inherited(self, tmp_path: Path) -> None:
        api = Written("spark/Api", methods={RUN: PUBLIC | STATIC}, flags=PUBLIC | INTERFACE)
        child = Written("spark/Child", interfaces=("spark/Api",))
        own = Written("own/Caller", code=((STATICALLY, "spark/Child", RUN),))
        assert found(tmp_path, own, api, child) == ["own/Caller: spark/Child.run ()V is not there"]


def test_what_is_no_class_file_is_refused() -> None:
    with pytest.raises(ValueError, match="CAFEBABE"):
        class_files.read(b"PK\x03\x04")
