"""Shows the methods that a catalog forwards to its parts as its own, in the API reference.

``forwarded.py`` of the package does it for ``help``, when the program runs; this does it where nothing is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from griffe import Alias, Attribute, ExprAttribute, ExprCall, Extension

if TYPE_CHECKING:
    from griffe import Class


class ForwardedMethods(Extension):
    """``name = Forwarded(…, Part.method)`` is an alias of ``Part.method``."""

    def on_class(self, *, cls: Class, **kwargs: object) -> None:
        """Replace the attributes of a class that are forwarded methods."""
        for name, member in list(cls.members.items()):
            if isinstance(member, Attribute) and (target := _target(member)):
                cls.members[name] = Alias(name, target, lineno=member.lineno, endlineno=member.endlineno, parent=cls)


def _target(attribute: Attribute) -> str | None:
    call = attribute.value
    if not isinstance(call, ExprCall) or str(call.function) != "Forwarded":
        return None
    method = call.arguments[1]
    assert isinstance(method, ExprAttribute), method
    return method.canonical_path
