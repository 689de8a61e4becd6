"""Whether processes of this host run."""

from __future__ import annotations

import os
import re
import socket

_OWNER = re.compile(r"(?:.*[@/])?(?P<host>[^@/]+):(?P<pid>\d{1,10})", re.DOTALL)


def this_process() -> str:
    """Return the name of this process, for people: ``host:pid``."""
    return f"{socket.gethostname()}:{os.getpid()}"


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
    if found is None or found["host"] != socket.gethostname() or not 0 < int(found["pid"]) < 2**31:
        return False
    return not runs(int(found["pid"]))
