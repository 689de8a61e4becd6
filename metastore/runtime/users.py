"""The current user: the one that a request names, or the owner of this process."""

from __future__ import annotations

import getpass
import os
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
        # A container may run under a number that has no name.
        return str(os.getuid())


@contextmanager
def acting_for(user: str | None) -> Iterator[None]:
    """Return a context in which ``current_user`` is this one, or its first 128 characters; None for the process's.

    Raises:
        InvalidInputError: The name has a character that cannot be printed, or that breaks or turns lines.
    """
    if user is not None and not user.isprintable():
        raise InvalidInputError(
            f"The user {user[:_LONGEST]!r} on whose behalf a request is made has a character that no name has. Send "
            "the name without characters that cannot be printed."
        )
    token = _named.set(None if user is None else user.strip()[:_LONGEST])
    try:
        yield
    finally:
        _named.reset(token)


def signed(owner: str) -> str:
    """Return the name of a process with the current user's in front: ``alice/app@host:4711``."""
    return f"{current_user().replace('/', '_')}/{owner}"


def user_of(owner: str) -> str:
    """Return the user that an owner's name, as ``signed`` makes it, begins with."""
    return owner.partition("/")[0]
