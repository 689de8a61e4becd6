"""Says whether the classes of a jar link with other jars, as a JVM would find out only while it runs them.

A connector that was compiled against one patch of Spark runs with another if every class, field and method that it
refers to is there with the same types, nothing abstract was added to what it extends, and nothing that it overrides
became final. ``python -m release.patches`` (make patches) prints what is not so.

Class files are read by chapter 4 of the Java Virtual Machine Specification, references resolved by chapter 5.4.3.
"""

from __future__ import annotations

import struct
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_STATIC, _FINAL, _INTERFACE, _ABSTRACT, _PRIVATE = 0x0008, 0x0010, 0x0200, 0x0400, 0x0002
# By a constant's tag: how many bytes follow it. A string of bytes (1) has its length in front.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_CLASS, _FIELD, _METHOD, _INTERFACE_METHOD = 7, 9, 10, 11
# What every Java runtime has is not looked for.
_RUNTIME = ("java/", "javax/", "jdk/", "sun/", "org/xml/", "org/w3c/")

_OF_EVERY_OBJECT = {"clone", "equals", "finalize", "getClass", "hashCode", "notify", "notifyAll", "toString", "wait"}

Member = tuple[str, str]
"""Name and descriptor."""


@dataclass(frozen=True)
class Reference:
    """What a class names of another one; ``member`` is None where it is the class itself."""

    owner: str
    member: Member | None = None
    is_field: bool = False

    def __str__(self) -> str:
        return self.owner if self.member is None else f"{self.owner}.{self.member[0]} {self.member[1]}"


@dataclass(frozen=True)
class ClassFile:
    """A class: its supertypes, its members with their access flags, and what it refers to."""

    name: str
    flags: int
    supertypes: tuple[str, ...]
    fields: dict[Member, int] = field(repr=False)
    methods: dict[Member, int] = field(repr=False)
    references: frozenset[Reference] = field(repr=False)


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
    for _ in range(2):
        found, at = _members(content, at, pool)
        members.append(found)
    supertypes = tuple(name(index) for index in ((parent,) if parent else ()) + interfaces)
    return ClassFile(name(this), flags, supertypes, members[0], members[1], frozenset(_references(pool)))


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


def _members(content: bytes, at: int, pool: Pool) -> tuple[dict[Member, int], int]:
    (count,) = struct.unpack_from(">H", content, at)
    at += 2
    found: dict[Member, int] = {}
    for _ in range(count):
        flags, name, descriptor, attributes = struct.unpack_from(">HHHH", content, at)
        found[_text(pool, name), _text(pool, descriptor)] = flags
        at += 8
        for _ in range(attributes):
            (length,) = struct.unpack_from(">I", content, at + 2)
            at += 6 + length
    return found, at


def _references(pool: Pool) -> Iterator[Reference]:
    for index, (tag, _) in pool.items():
        if tag == _CLASS:
            yield Reference(_element(_text(pool, _pair(pool, index)[0])))
        elif tag in (_FIELD, _METHOD, _INTERFACE_METHOD):
            owner, member = _pair(pool, index)
            at, descriptor = _pair(pool, member)
            yield Reference(
                _element(_text(pool, _pair(pool, owner)[0])), (_text(pool, at), _text(pool, descriptor)), tag == _FIELD
            )


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


class Linkage:
    """What classes need of a class path, and whether it is there."""

    def __init__(self, path: ClassPath) -> None:
        self._path = path

    def problems(self, of: ClassFile) -> Iterator[str]:
        """Yield what keeps a class from being linked, or would fail at the call: one line each."""
        for reference in sorted(of.references, key=str):
            if not self._is_there(reference):
                yield f"{of.name}: {reference} is not there"
        if any(self._is_unknown(name) for name in self._ancestors(of.name)):
            return
        yield from self._overridden(of)
        if not of.flags & (_ABSTRACT | _INTERFACE) and not self._extends_runtime(of):
            yield from self._abstract(of)

    def _is_there(self, reference: Reference) -> bool:
        if not reference.owner or reference.owner.startswith(_RUNTIME):
            return True
        if self._path.find(reference.owner) is None:
            return False
        if reference.member is None:
            return True
        for name in self._ancestors(reference.owner):
            found = self._path.find(name)
            if name == "java/lang/Object":
                if reference.member[0] in _OF_EVERY_OBJECT:
                    return True
            # Of other classes of the runtime, and of one that is missing and reported by itself, nothing is known.
            elif found is None or reference.member in (found.fields if reference.is_field else found.methods):
                return True
        return False

    def _ancestors(self, name: str) -> Iterator[str]:
        seen, waiting = set(), [name]
        while waiting:
            one = waiting.pop(0)
            if one not in seen:
                seen.add(one)
                yield one
                found = self._path.find(one)
                waiting += found.supertypes if found else ()

    def _is_unknown(self, name: str) -> bool:
        return self._path.find(name) is None and not name.startswith(_RUNTIME)

    def _extends_runtime(self, of: ClassFile) -> bool:
        """Whether a class of the runtime, of which nothing is known here, may implement what is abstract."""
        parent: ClassFile | None = of
        while parent is not None and parent.supertypes:
            name = parent.supertypes[0]
            if name.startswith(_RUNTIME):
                return name != "java/lang/Object"
            parent = self._path.find(name)
        return False

    def _overridden(self, of: ClassFile) -> Iterator[str]:
        for name in list(self._ancestors(of.name))[1:]:
            found = self._path.find(name)
            if found is None:
                continue
            if found.flags & _FINAL:
                yield f"{of.name}: {name} is final"
            for member, flags in of.methods.items():
                above = found.methods.get(member, 0)
                if above & _FINAL and not (above | flags) & (_STATIC | _PRIVATE):
                    yield f"{of.name}: {name}.{member[0]} {member[1]} is final"

    def _abstract(self, of: ClassFile) -> Iterator[str]:
        wanted: dict[Member, str] = {}
        given: set[Member] = set()
        for name in self._ancestors(of.name):
            found = self._path.find(name)
            for member, flags in found.methods.items() if found else ():
                if flags & _ABSTRACT:
                    wanted.setdefault(member, name)
                elif not flags & _STATIC:
                    given.add(member)
        for member in sorted(wanted.keys() - given):
            if member[0] not in _OF_EVERY_OBJECT:
                yield f"{of.name}: {wanted[member]}.{member[0]} {member[1]} is abstract"


def problems(jar: Path, others: Sequence[Path]) -> list[str]:
    """Return what keeps the classes of ``jar`` from being linked with ``others``, sorted and without repetitions."""
    own = ClassPath([jar])
    linkage = Linkage(ClassPath([jar, *others]))
    found = (own.find(name) for name in own.names())
    return sorted({line for each in found if each is not None for line in linkage.problems(each)})
