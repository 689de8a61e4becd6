"""Processes of this host: whether they run, their share of the processor, and state that a forked child must reset."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import socket
import time
import weakref
from pathlib import Path
from typing import Protocol

logger = logging.getLogger(__name__)

LEAST_SHARE = 19
"""The niceness of a session that others go before."""

_SHARE_ATTEMPTS = 5
_OWNER = re.compile(r"(?:.*[@/])?(?P<host>[^@/]+):(?P<pid>\d{1,10})", re.DOTALL)


_HEX = 8


def this_host() -> str:
    """Return an id of the group of processes that this process can see: ``name#machine``.

    Containers may share a host name; ``machine`` is made of the kernel's boot id and the PID namespace, and is
    left out if the system reports neither.
    """
    name = socket.gethostname()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        return name
    return f"{name}#{hashlib.sha256(f'{boot} {numbers}'.encode()).hexdigest()[:_HEX]}"


def this_process() -> str:
    """Return the name of this process, for people: ``host:pid``."""
    return f"{this_host()}:{os.getpid()}"


def runs(pid: int) -> bool:
    """Return whether a process of this number runs here."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def share_processor(pid: int, niceness: int) -> None:
    """Set the share of the processor of a process's session, where Linux divides it among sessions.

    There (``sched_autogroup_enabled``) the niceness of a process counts only within its own session.

    Args:
        pid: The process.
        niceness: As for a process: 0 is the usual share.
    """
    autogroup = Path(f"/proc/{pid}/autogroup")
    if not autogroup.exists():  # not Linux, or one whose sessions do not matter
        return
    for attempt in range(_SHARE_ATTEMPTS):
        try:
            autogroup.write_text(str(niceness), encoding="ascii")
            return
        except BlockingIOError:  # the whole machine may do so ten times a second
            time.sleep(0.12 * (attempt + 1))
        except OSError as error:  # it has ended, which others notice, or /proc is not to be written
            logger.debug("The session of process %d keeps its share of the processor: %s", pid, error)
            return


def is_gone(owner: str) -> bool:
    """Return whether an owner (``user/application@host:pid``) was a process of this host that has ended.

    Of other hosts nothing is known. A number that another process has got since counts as running.
    """
    found = _OWNER.fullmatch(owner)
    if found is None or found["host"] != this_host() or not 0 < int(found["pid"]) < 2**31:
        return False
    return not runs(int(found["pid"]))


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
