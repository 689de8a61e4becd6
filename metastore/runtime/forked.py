"""What a forked child forgets: leases, servers and processes are its parent's, and go on for that."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forgetful(Protocol):
    """Holds something that a forked child must not use, and not end."""

    def forget(self) -> None:
        """Let it go, in the child; the parent's goes on."""


_known: weakref.WeakSet[Forgetful] = weakref.WeakSet()


def forget_in_children(holder: Forgetful) -> None:
    """Have a holder forget in each child that is forked from now on, as long as it lives."""
    _known.add(holder)


def _forget_all() -> None:
    for holder in list(_known):
        holder.forget()


os.register_at_fork(after_in_child=_forget_all)
