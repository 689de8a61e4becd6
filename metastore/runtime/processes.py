"""Whether processes of this host run."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from pathlib import Path

_OWNER = re.compile(r"(?:.*[@/])?(?P<host>[^@/]+):(?P<pid>\d{1,10})", re.DOTALL)


_HEX = 8


def this_host() -> str:
    """Return what tells the processes that this one can see from all others: ``name#machine``.

    Containers may have one name; ``machine`` is made of the kernel's boot and the namespace of process numbers, and is
    left out where the system says neither.
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


def is_gone(owner: str) -> bool:
    """Return whether an owner (``user/application@host:pid``) was a process of this host that has ended.

    Of other hosts nothing is known. A number that another process has got since counts as running.
    """
    found = _OWNER.fullmatch(owner)
    if found is None or found["host"] != this_host() or not 0 < int(found["pid"]) < 2**31:
        return False
    return not runs(int(found["pid"]))
