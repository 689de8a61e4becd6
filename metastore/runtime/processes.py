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
"""The niceness of a session that gets the smallest share of the processor."""

_SHARE_ATTEMPTS = 5
_OWNER = re.compile(r"(?:.*[@/])?(?P<host>[^@/]+):(?P<pid>\d{1,10})", re.DOTALL)


_HEX = 8


def this_host() -> str:
    """Return an id of this host, ``name#machine``, that is equal for all processes that can see each other.

    Containers may share a host name; ``machine`` is a hash of the kernel's boot id and the PID namespace. It is left
    out if the system reports neither.
    """
    name = socket.gethostname()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        return name
    return f"{name}#{machine_id(boot, numbers)}"


def machine_id(boot: str, numbers: str) -> str:
    """Return the hash of the kernel's boot id and the PID namespace; the connector computes an equal one."""
    return hashlib.sha256(f"{boot} {numbers}".encode()).hexdigest()[:_HEX]


def this_process() -> str:
    """Return the name of this process for display: ``host:pid``."""
    return f"{this_host()}:{os.getpid()}"


def runs(pid: int) -> bool:
    """Return whether a process with this number runs on this host."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def share_processor(pid: int, niceness: int) -> None:
    """Set the processor share of a process's session, on Linux systems that divide the processor among sessions.

    On these systems (``sched_autogroup_enabled``) the niceness of a process counts only within its session.

    Args:
        pid: The process.
        niceness: The session's niceness, as for a process: 0 is the usual share.
    """
    autogroup = Path(f"/proc/{pid}/autogroup")
    if not autogroup.exists():  # not Linux, or the kernel does not group processes by session
        return
    for attempt in range(_SHARE_ATTEMPTS):
        try:
            autogroup.write_text(str(niceness), encoding="ascii")
            return
        except BlockingIOError:  # the kernel allows ten such writes a second on the whole machine
            time.sleep(0.12 * (attempt + 1))
        except OSError as error:  # the process has ended, or /proc is read-only
            logger.debug("The session of process %d keeps its share of the processor: %s", pid, error)
            return


def is_gone(owner: str) -> bool:
    """Return whether an owner (``user/application@host:pid``) was a process of this host that has ended.

    False for other hosts, since their processes are not visible, and if a new process has got the number.
    """
    found = _OWNER.fullmatch(owner)
    if found is None or found["host"] != this_host() or not 0 < int(found["pid"]) < 2**31:
        return False
    return not runs(int(found["pid"]))


class Forgetful(Protocol):
    """An object whose resources (connections, leases) a forked child must neither use nor end."""

    def forget(self) -> None:
        """Drop the resources in the child without ending them; the parent continues to use them."""


_known: weakref.WeakSet[Forgetful] = weakref.WeakSet()


def forget_in_children(holder: Forgetful) -> None:
    """Call ``holder.forget()`` in each child that is forked from now on, as long as the holder exists."""
    _known.add(holder)


def _forget_all() -> None:
    for holder in list(_known):
        holder.forget()


os.register_at_fork(after_in_child=_forget_all)
