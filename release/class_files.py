"""Reads the class files of jars: supertypes, members, references, and the uses of references by instructions.

Class files are read by chapter 4 of the Java Virtual Machine Specification, instructions by chapter 6.
"""

from __future__ import annotations

import struct
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

PUBLIC, PRIVATE, PROTECTED, STATIC, FINAL = 0x0001, 0x0002, 0x0004, 0x0008, 0x0010
INTERFACE, ABSTRACT = 0x0200, 0x0400
# By a constant's tag: how many bytes follow it. A string of bytes (1) has its length in front.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_CLASS, FIELD, METHOD, INTERFACE_METHOD, _HANDLE = 7, 9, 10, 11, 15
# Instructions that use a member or a class, by their opcodes.
_GET_STATIC, PUT_STATIC, _GET_FIELD, PUT_FIELD = 178, 179, 180, 181
_INVOKE_VIRTUAL, _INVOKE_SPECIAL, _INVOKE_STATIC, _INVOKE_INTERFACE, NEW = 182, 183, 184, 185, 187
ON_CLASSES = {_GET_STATIC, PUT_STATIC, _INVOKE_STATIC}
ON_OBJECTS = {_GET_FIELD, PUT_FIELD, _INVOKE_VIRTUAL, _INVOKE_SPECIAL, _INVOKE_INTERFACE}
# What a method handle, which a lambda is made of, does: by its kind.
_OF_HANDLES = {
    1: _GET_FIELD, 2: _GET_STATIC, 3: PUT_FIELD, 4: PUT_STATIC, 5: _INVOKE_VIRTUAL, 6: _INVOKE_STATIC,
    7: _INVOKE_SPECIAL, 8: _INVOKE_SPECIAL, 9: _INVOKE_INTERFACE,
}  # fmt: skip
# How long instructions are; one that is not here is its opcode alone. Three have a length of their own.
_LENGTHS = {
    **dict.fromkeys((16, 18, *range(21, 26), *range(54, 59), 169, 188), 2),
    **dict.fromkeys((17, 19, 20, 132, *range(153, 169), *range(178, 185), 187, 189, 192, 193, 198, 199), 3),
    **dict.fromkeys((197,), 4),
    **dict.fromkeys((185, 186, 200, 201), 5),
}
_TABLE_SWITCH, _LOOKUP_SWITCH, _WIDE, _INCREMENT = 170, 171, 196, 132
# Of a method that only calls its supertype's: it loads its arguments, calls, and returns.
_OF_FORWARDERS = {*range(21, 46), _INVOKE_SPECIAL, *range(172, 178)}

Member = tuple[str, str]
"""Name and descriptor."""


@dataclass(frozen=True)
class Reference:
    """What a class names of another one; ``member`` is None where it is the class itself.

    Attributes:
        kind: The tag of its constant: whether it is a class, a field, or the method of a class or of an interface.
    """

    owner: str
    member: Member | None = None
    kind: int = _CLASS

    def __str__(self) -> str:
        return self.owner if self.member is None else f"{self.owner}.{self.member[0]} {self.member[1]}"


@dataclass(frozen=True)
class ClassFile:
    """A class: its supertypes, its members with their access flags, and what it refers to.

    Attributes:
        uses: What its instructions do with what they refer to, by opcodes.
        forwarders: Methods that only call their supertype's, as Scala makes them of what a trait inherits.
    """

    name: str
    flags: int
    supertypes: tuple[str, ...]
    fields: dict[Member, int] = field(repr=False)
    methods: dict[Member, int] = field(repr=False)
    references: frozenset[Reference] = field(repr=False)
    uses: frozenset[tuple[int, Reference]] = field(repr=False)
    forwarders: frozenset[Member] = field(repr=False)


def read(content: bytes) -> ClassFile:
    """Return what a class file says.

    Raises:
        ValueError: it is no class file.
    """
    if content[:4] != b"\xca\xfe\xba\xbe":
        raise ValueError("no class file: it does not begin with CAFEBABE")
    pool, at = _constants(content)

    def name(index: int) -> str:
        return _text(pool, _pair(pool, index)[0])

    flags, this, parent, count = struct.unpack_from(">HHHH", content, at)
    interfaces = struct.unpack_from(f">{count}H", content, at + 8)
    at += 8 + 2 * count
    members: list[dict[Member, int]] = []
    codes: dict[Member, bytes] = {}
    for _ in range(2):
        found, more, at = _members(content, at, pool)
        members.append(found)
        codes |= more
    supertypes = tuple(name(index) for index in ((parent,) if parent else ()) + interfaces)
    references = dict(_references(pool))
    used = {(opcode, references[index]) for code in codes.values() for opcode, index in _used(code)}
    used |= {(_OF_HANDLES[kind], references[index]) for kind, index in _handles(pool)}
    forwarders = frozenset(member for member, code in codes.items() if _forwards(member, code, references))
    return ClassFile(
        name(this), flags, supertypes, members[0], members[1], frozenset(references.values()), frozenset(used),
        forwarders,
    )  # fmt: skip


Pool = dict[int, tuple[int, bytes]]


def _constants(content: bytes) -> tuple[Pool, int]:
    (count,) = struct.unpack_from(">H", content, 8)
    pool: Pool = {}
    at, index = 10, 1
    while index < count:
        tag = content[at]
        start = at + 1
        size = 2 + int(struct.unpack_from(">H", content, start)[0]) if tag == 1 else _SIZES[tag]
        pool[index] = (tag, content[start : start + size])
        at = start + size
        # Long and double take two places.
        index += 2 if tag in (5, 6) else 1
    return pool, at


def _text(pool: Pool, index: int) -> str:
    return pool[index][1][2:].decode("utf-8", errors="surrogatepass")


def _pair(pool: Pool, index: int) -> tuple[int, ...]:
    content = pool[index][1]
    return struct.unpack(f">{len(content) // 2}H", content)


def _members(content: bytes, at: int, pool: Pool) -> tuple[dict[Member, int], dict[Member, bytes], int]:
    """Return the members with their flags, the instructions of those that have any, and where they end."""
    (count,) = struct.unpack_from(">H", content, at)
    at += 2
    found: dict[Member, int] = {}
    codes: dict[Member, bytes] = {}
    for _ in range(count):
        flags, name, descriptor, attributes = struct.unpack_from(">HHHH", content, at)
        member = (_text(pool, name), _text(pool, descriptor))
        found[member] = flags
        at += 8
        for _ in range(attributes):
            attribute, length = struct.unpack_from(">HI", content, at)
            if _text(pool, attribute) == "Code":
                (size,) = struct.unpack_from(">I", content, at + 10)
                codes[member] = content[at + 14 : at + 14 + size]
            at += 6 + length
    return found, codes, at


def _instructions(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield each instruction's opcode and place."""
    at = 0
    while at < len(code):
        yield code[at], at
        at += _length(code, at)


def _used(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield the opcodes of instructions that use a member or make an object, and the index of what they use."""
    for opcode, at in _instructions(code):
        if opcode in ON_CLASSES or opcode in ON_OBJECTS or opcode == NEW:
            yield opcode, struct.unpack_from(">H", code, at + 1)[0]


def _forwards(member: Member, code: bytes, references: Mapping[int, Reference]) -> bool:
    if member[0].startswith("<") or any(opcode not in _OF_FORWARDERS for opcode, _ in _instructions(code)):
        return False
    return [references[index].member for _, index in _used(code)] == [member]


def _length(code: bytes, at: int) -> int:
    opcode = code[at]
    if opcode == _WIDE:
        return 6 if code[at + 1] == _INCREMENT else 4
    if opcode not in (_TABLE_SWITCH, _LOOKUP_SWITCH):
        return _LENGTHS.get(opcode, 1)
    # Its numbers begin at the next multiple of four.
    start = at + 4 - at % 4
    if opcode == _LOOKUP_SWITCH:
        (pairs,) = struct.unpack_from(">i", code, start + 4)
        return int(start + 8 + 8 * pairs - at)
    low, high = struct.unpack_from(">ii", code, start + 4)
    return int(start + 12 + 4 * (high - low + 1) - at)


def _handles(pool: Pool) -> Iterator[tuple[int, int]]:
    """Yield the kind and the member of each method handle."""
    return (struct.unpack(">BH", content) for tag, content in pool.values() if tag == _HANDLE)


def _references(pool: Pool) -> Iterator[tuple[int, Reference]]:
    for index, (tag, _) in pool.items():
        if tag == _CLASS:
            yield index, Reference(_element(_text(pool, _pair(pool, index)[0])))
        elif tag in (FIELD, METHOD, INTERFACE_METHOD):
            owner, member = _pair(pool, index)
            at, descriptor = _pair(pool, member)
            of = _element(_text(pool, _pair(pool, owner)[0]))
            yield index, Reference(of, (_text(pool, at), _text(pool, descriptor)), tag)


def _element(name: str) -> str:
    """Return the class that an array is of; the empty text for a primitive one."""
    if not name.startswith("["):
        return name
    kind = name.lstrip("[")
    return kind[1:-1] if kind.startswith("L") else ""


class ClassPath:
    """The classes of jars, the first of a name before others, read when they are asked for."""

    def __init__(self, jars: Sequence[Path]) -> None:
        self._archives = [zipfile.ZipFile(jar) for jar in jars]
        self._known: dict[str, ClassFile | None] = {}

    @cached_property
    def _places(self) -> dict[str, zipfile.ZipFile]:
        return {name: archive for archive in reversed(self._archives) for name in archive.namelist()}

    def names(self) -> list[str]:
        """Return the names of all classes."""
        return sorted(name.removesuffix(".class") for name in self._places if name.endswith(".class"))

    def find(self, name: str) -> ClassFile | None:
        """Return the class of this name; None where no jar has it."""
        if name not in self._known:
            archive = self._places.get(f"{name}.class")
            self._known[name] = None if archive is None else read(archive.read(f"{name}.class"))
        return self._known[name]
