"""Says whether the classes of a jar link with other jars, as a JVM would find out only while it runs them.

A connector that was compiled against one patch of Spark runs with another if every class, field and method that it
refers to is there with the same types and can be used as it is used (from where it is used, as a static member or as
an object's, as a class or as an interface), nothing abstract was added to what it extends, and nothing that it
overrides became final. A method that overrides one in the first patch only still links, but is never called.
``python -m release.patches`` (make patches) prints what is not so.

Class files are read by chapter 4 of the Java Virtual Machine Specification, instructions by chapter 6, references
resolved by chapter 5.4.
"""

from __future__ import annotations

import struct
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

_PUBLIC, _PRIVATE, _PROTECTED, _STATIC, _FINAL = 0x0001, 0x0002, 0x0004, 0x0008, 0x0010
_INTERFACE, _ABSTRACT = 0x0200, 0x0400
# By a constant's tag: how many bytes follow it. A string of bytes (1) has its length in front.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_CLASS, _FIELD, _METHOD, _INTERFACE_METHOD, _HANDLE = 7, 9, 10, 11, 15
# Instructions that use a member or a class, by their opcodes.
_GET_STATIC, _PUT_STATIC, _GET_FIELD, _PUT_FIELD = 178, 179, 180, 181
_INVOKE_VIRTUAL, _INVOKE_SPECIAL, _INVOKE_STATIC, _INVOKE_INTERFACE, _NEW = 182, 183, 184, 185, 187
_ON_CLASSES = {_GET_STATIC, _PUT_STATIC, _INVOKE_STATIC}
_ON_OBJECTS = {_GET_FIELD, _PUT_FIELD, _INVOKE_VIRTUAL, _INVOKE_SPECIAL, _INVOKE_INTERFACE}
# What a method handle, which a lambda is made of, does: by its kind.
_OF_HANDLES = {
    1: _GET_FIELD, 2: _GET_STATIC, 3: _PUT_FIELD, 4: _PUT_STATIC, 5: _INVOKE_VIRTUAL, 6: _INVOKE_STATIC,
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
# What every Java runtime has is not looked for.
_RUNTIME = ("java/", "javax/", "jdk/", "sun/", "org/xml/", "org/w3c/")

# Arrays have it by the class of their elements.
_OF_ARRAYS = {("clone", "()Ljava/lang/Object;")}
_OF_EVERY_OBJECT = {"clone", "equals", "finalize", "getClass", "hashCode", "notify", "notifyAll", "toString", "wait"}
# The runtime's interfaces that Spark's classes extend by the hundreds, case classes among them, and their methods.
_OF_INTERFACES = {
    "java/io/Serializable": set[str](), "java/lang/Cloneable": set[str](), "java/io/Closeable": {"close"},
    "java/lang/AutoCloseable": {"close"}, "java/lang/Comparable": {"compareTo"}, "java/util/EventListener": set[str](),
}  # fmt: skip

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
        if opcode in _ON_CLASSES or opcode in _ON_OBJECTS or opcode == _NEW:
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
        elif tag in (_FIELD, _METHOD, _INTERFACE_METHOD):
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


def _package(name: str) -> str:
    return name.rpartition("/")[0]


def _outermost(name: str) -> str:
    return name.partition("$")[0]


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
            # A forwarder without a target is never called.
            if reference.member in of.forwarders and reference.owner in self._ancestors(of.name):
                continue
            yield from (f"{of.name}: {reference} is {what}" for what in self._reachable(of, reference))
        for opcode, reference in of.uses:
            yield from (f"{of.name}: {reference} is {what}" for what in self._usable(of, opcode, reference))
        if any(self._is_unknown(name) for name in self._ancestors(of.name)):
            return
        yield from self._overridden(of)
        if not of.flags & (_ABSTRACT | _INTERFACE) and not self._extends_runtime(of):
            yield from self._abstract(of)

    def _reachable(self, of: ClassFile, reference: Reference) -> Iterator[str]:
        """Yield why a class cannot be linked with what it refers to, if so."""
        if not reference.owner or reference.owner.startswith(_RUNTIME):
            return
        owner = self._path.find(reference.owner)
        if owner is None:
            yield "not there"
        elif reference.member is None:
            if not owner.flags & _PUBLIC and _package(owner.name) != _package(of.name):
                yield "not public"
        elif (found := self._member(reference)) is None:
            yield "not there"
        elif isinstance(found, tuple) and not self._is_visible(of, *found):
            yield "not visible from there"
        if owner is not None and reference.kind in (_METHOD, _INTERFACE_METHOD):
            is_interface = bool(owner.flags & _INTERFACE)
            if is_interface != (reference.kind == _INTERFACE_METHOD) and reference.member not in _OF_ARRAYS:
                yield "of an interface" if is_interface else "of a class"

    def _usable(self, of: ClassFile, opcode: int, reference: Reference) -> Iterator[str]:
        """Yield why an instruction cannot use what it refers to, if so."""
        if opcode == _NEW:
            made = self._path.find(reference.owner)
            if made is not None and made.flags & _ABSTRACT:
                yield "abstract"
            return
        found = self._member(reference)
        if not isinstance(found, tuple):
            return
        declaring, flags = found
        if opcode in _ON_CLASSES and not flags & _STATIC:
            yield "not static"
        if opcode in _ON_OBJECTS and flags & _STATIC:
            yield "static"
        if opcode in (_PUT_FIELD, _PUT_STATIC) and flags & _FINAL and declaring.name != of.name:
            yield "final"

    def _member(self, reference: Reference) -> tuple[ClassFile, int] | bool | None:
        """Return the class that declares a member, and its flags; True where nothing is known, None without it."""
        if not reference.owner or reference.owner.startswith(_RUNTIME) or reference.member is None:
            return True
        for name in self._ancestors(reference.owner):
            found = self._path.find(name)
            if name == "java/lang/Object":
                if reference.member[0] in _OF_EVERY_OBJECT:
                    return True
            elif name in _OF_INTERFACES:
                if reference.member[0] in _OF_INTERFACES[name]:
                    return True
            # Of other classes of the runtime, and of one that is missing and reported by itself, nothing is known.
            elif found is None:
                return True
            else:
                members = found.fields if reference.kind == _FIELD else found.methods
                flags = members.get(reference.member)
                # Static and private methods of an interface are not inherited.
                own = found.flags & _INTERFACE and name != reference.owner and reference.kind != _FIELD
                if flags is not None and not (own and flags & (_STATIC | _PRIVATE)):
                    return found, flags
        return None

    def _is_visible(self, of: ClassFile, declaring: ClassFile, flags: int) -> bool:
        if flags & _PUBLIC:
            return True
        if flags & _PRIVATE:
            return _outermost(of.name) == _outermost(declaring.name)
        if _package(of.name) == _package(declaring.name):
            return True
        return bool(flags & _PROTECTED) and declaring.name in self._ancestors(of.name)

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

    def overrides(self, of: ClassFile, own: Collection[str]) -> dict[Member, str]:
        """Return the methods by which a class changes what others do that are not among ``own``, with those."""
        changing = [
            member for member, flags in of.methods.items()
            if not flags & (_STATIC | _PRIVATE) and member not in of.forwarders and not member[0].startswith("<")
        ]  # fmt: skip
        found: dict[Member, str] = {}
        for name in self._ancestors(of.name):
            above = None if name in own else self._path.find(name)
            inherited = above.methods if above else {}
            found |= {
                member: name for member in changing
                if member not in found and not inherited.get(member, _PRIVATE) & (_STATIC | _PRIVATE)
            }  # fmt: skip
        return found

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


def uncalled(jar: Path, compiled: Sequence[Path], others: Sequence[Path]) -> list[str]:
    """Return the methods of ``jar`` that override one of the jars that it was compiled with, and none of ``others``."""
    own = ClassPath([jar])
    names = set(own.names())
    before, after = (Linkage(ClassPath([jar, *jars])) for jars in (compiled, others))
    lost: list[str] = []
    for of in map(own.find, names):
        if of is None:
            continue
        there = after.overrides(of, names)
        lost += [
            f"{of.name}: {above}.{member[0]} {member[1]} is not there to be overridden"
            for member, above in before.overrides(of, names).items() if member not in there
        ]  # fmt: skip
    return sorted(lost)
