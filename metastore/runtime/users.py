"""The current user: the one that a request names, or the owner of this process."""

from __future__ import annotations

import getpass
import os
import unicodedata
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST = 128
_named: ContextVar[str | None] = ContextVar("catalog_ext_user", default=None)


def current_user() -> str:
    """Return the name of the user on whose behalf this thread works."""
    named = _named.get()
    if named:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # The process may run under a user number without a name, as in a container. Then use the number.
        return str(os.getuid())


@contextmanager
def acting_for(user: str | None) -> Iterator[None]:
    """Return a context in which ``current_user`` returns this user, cut to 128 characters; None: the process's user.

    Raises:
        InvalidInputError: The name has an unprintable character, or one that breaks lines or changes their direction.
    """
    if user is not None and any(map(_is_refused, user)):
        raise InvalidInputError(
            f"The user {user[:_LONGEST]!r} on whose behalf a request is made has a character that no name has. Send "
            "the name without characters that cannot be printed."
        )
    token = _named.set(None if user is None else user.strip()[:_LONGEST])
    try:
        yield
    finally:
        _named.reset(token)


def _is_refused(character: str) -> bool:
    # The connector replaces these characters before it sends a name. A character that is unassigned is accepted: the
    # JVM may have a newer version of Unicode than Python, and no statement may fail because of a name.
    return not character.isprintable() and unicodedata.category(character) != "Cn"


def signed(owner: str) -> str:
    """Return the name of a process with the current user in front: ``alice/app@host:4711``."""
    return f"{current_user().replace('/', '_')}/{owner}"


def user_of(owner: str) -> str:
    """Return the user in a process name that ``signed`` has made."""
    return owner.partition("/")[0]
