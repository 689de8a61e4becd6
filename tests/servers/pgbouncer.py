"""PgBouncer before a PostgreSQL, on a free loopback port.

It is the one on PATH, otherwise Debian's package, unpacked into the cache.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
from pathlib import Path

import sqlalchemy as sa

from catalog_ext.metastore.runtime.cache import cache_folder, kept
from tests.servers.debian import FETCH_S, unpacked
from tests.servers.processes import ServerProcess, free_ports, unanswered

_SETTINGS = """[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = {mode}
default_pool_size = 4
server_round_robin = 1
max_client_conn = 500
"""


class PgBouncer:
    """Gives each client the next of four server connections; as root it runs as `nobody`, since it refuses root.

    Args:
        directory: Holds its settings; every user may enter it.
        database: The SQLAlchemy URL of the database behind it.
        mode: Whose a server connection is for how long: ``transaction``, ``session`` or ``statement``.

    Attributes:
        url: The same, through the pooler.
    """

    def __init__(self, directory: Path, database: str, mode: str = "transaction") -> None:
        behind = sa.make_url(database)
        (port,) = free_ports(1)
        self.url = behind.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
        user_id = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        program, libraries = _copied(directory) if user_id is not None else find_pgbouncer()
        users, settings = directory / "users.txt", directory / "pgbouncer.ini"
        users.write_text(f'"{behind.username}" "{behind.password}"\n', encoding="utf-8")
        settings.write_text(
            _SETTINGS.format(host=behind.host, port=behind.port, listen_port=port, users=users, mode=mode),
            encoding="utf-8",
        )
        self._process = ServerProcess(
            "PgBouncer", [str(program), str(settings)], directory / "pgbouncer.log", stop_signal=signal.SIGTERM,
            environment={**os.environ, "LD_LIBRARY_PATH": str(libraries)}, user_id=user_id,
        )  # fmt: skip
        self._process.wait_until(lambda: unanswered(port), 30)

    def stop(self) -> None:
        """The pooler is gone."""
        self._process.stop()


def find_pgbouncer() -> tuple[Path, Path]:
    """The program and a folder of libraries for it; fetched the first time.

    Raises:
        EnvironmentSetupError: It is missing and cannot be fetched.
    """
    installed = shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
    if installed:
        return Path(installed), Path(installed).parent
    root = kept(cache_folder() / "pgbouncer-debian", _unpacked, FETCH_S)
    library = next(root.rglob("libevent-2.1.so.7"))
    return root / "usr" / "sbin" / "pgbouncer", library.parent


def _copied(directory: Path) -> tuple[Path, Path]:
    # The cache may lie below a folder that only root may enter.
    program, libraries = find_pgbouncer()
    own = directory / "programs"
    own.mkdir()
    for file in (program, *libraries.glob("lib*.so*")) if libraries != program.parent else (program,):
        shutil.copy(file, own)
    return own / program.name, own


def _unpacked(work: Path) -> Path:
    return unpacked(work, "pgbouncer", r"libevent-\S+|libc-?ares\S*")
