"""Says whether the classes of a jar link with other jars, as a JVM would find out only while it runs them.

A connector that was compiled against one patch of Spark runs with another if every class, field and method that it
refers to is there with the same types and can be used as it is used (from where it is used, as a static member or as
an object's, as a class or as an interface), nothing abstract was added to what it extends, and nothing that it
overrides became final. A method that overrides one in the first patch only still links, but is never called.
``python -m release.patches`` (make patches) prints what is not so.

References are resolved by chapter 5.4 of the Java Virtual Machine Specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from release.class_files import (
    ABSTRACT,
    FIELD,
    FINAL,
    INTERFACE,
    INTERFACE_METHOD,
    METHOD,
    NEW,
    ON_CLASSES,
    ON_OBJECTS,
    PRIVATE,
    PROTECTED,
    PUBLIC,
    PUT_FIELD,
    PUT_STATIC,
    STATIC,
    ClassFile,
    ClassPath,
    Member,
    Reference,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

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
        if not of.flags & (ABSTRACT | INTERFACE) and not self._extends_runtime(of):
            yield from self._abstract(of)

    def _reachable(self, of: ClassFile, reference: Reference) -> Iterator[str]:
        """Yield why a class cannot be linked with what it refers to, if so."""
        if not reference.owner or reference.owner.startswith(_RUNTIME):
            return
        owner = self._path.find(reference.owner)
        if owner is None:
            yield "not there"
        elif reference.member is None:
            if not owner.flags & PUBLIC and _package(owner.name) != _package(of.name):
                yield "not public"
        elif (found := self._member(reference)) is None:
            yield "not there"
        elif isinstance(found, tuple) and not self._is_visible(of, *found):
            yield "not visible from there"
        if owner is not None and reference.kind in (METHOD, INTERFACE_METHOD):
            is_interface = bool(owner.flags & INTERFACE)
            if is_interface != (reference.kind == INTERFACE_METHOD) and reference.member not in _OF_ARRAYS:
                yield "of an interface" if is_interface else "of a class"

    def _usable(self, of: ClassFile, opcode: int, reference: Reference) -> Iterator[str]:
        """Yield why an instruction cannot use what it refers to, if so."""
        if opcode == NEW:
            made = self._path.find(reference.owner)
            if made is not None and made.flags & ABSTRACT:
                yield "abstract"
            return
        found = self._member(reference)
        if not isinstance(found, tuple):
            return
        declaring, flags = found
        if opcode in ON_CLASSES and not flags & STATIC:
            yield "not static"
        if opcode in ON_OBJECTS and flags & STATIC:
            yield "static"
        if opcode in (PUT_FIELD, PUT_STATIC) and flags & FINAL and declaring.name != of.name:
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
                members = found.fields if reference.kind == FIELD else found.methods
                flags = members.get(reference.member)
                # Static and private methods of an interface are not inherited.
                own = found.flags & INTERFACE and name != reference.owner and reference.kind != FIELD
                if flags is not None and not (own and flags & (STATIC | PRIVATE)):
                    return found, flags
        return None

    def _is_visible(self, of: ClassFile, declaring: ClassFile, flags: int) -> bool:
        if flags & PUBLIC:
            return True
        if flags & PRIVATE:
            return _outermost(of.name) == _outermost(declaring.name)
        if _package(of.name) == _package(declaring.name):
            return True
        return bool(flags & PROTECTED) and declaring.name in self._ancestors(of.name)

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
            if found.flags & FINAL:
                yield f"{of.name}: {name} is final"
            for member, flags in of.methods.items():
                above = found.methods.get(member, 0)
                if above & FINAL and not (above | flags) & (STATIC | PRIVATE):
                    yield f"{of.name}: {name}.{member[0]} {member[1]} is final"

    def overrides(self, of: ClassFile, own: Collection[str]) -> dict[Member, str]:
        """Return the methods by which a class changes what others do that are not among ``own``, with those."""
        changing = [
            member for member, flags in of.methods.items()
            if not flags & (STATIC | PRIVATE) and member not in of.forwarders and not member[0].startswith("<")
        ]  # fmt: skip
        found: dict[Member, str] = {}
        for name in self._ancestors(of.name):
            above = None if name in own else self._path.find(name)
            inherited = above.methods if above else {}
            found |= {
                member: name for member in changing
                if member not in found and not inherited.get(member, PRIVATE) & (STATIC | PRIVATE)
            }  # fmt: skip
        return found

    def _abstract(self, of: ClassFile) -> Iterator[str]:
        wanted: dict[Member, str] = {}
        given: set[Member] = set()
        for name in self._ancestors(of.name):
            found = self._path.find(name)
            for member, flags in found.methods.items() if found else ():
                if flags & ABSTRACT:
                    wanted.setdefault(member, name)
                elif not flags & STATIC:
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


def _package(name: str) -> str:
    return name.rpartition("/")[0]


def _outermost(name: str) -> str:
    return name.partition("$")[0]
