"""The embedded metastore in a forked child: the server, and the thread that starts it, are the parent's."""

from __future__ import annotations

import os
import signal
from threading import Event
from typing import TYPE_CHECKING

from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from catalog_ext.metastore.hive.embedded.lease import Lease


def test_a_child_forked_during_the_servers_start_exits_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends, begun = Event(), Event()

    def starting(_: EmbeddedMetastore) -> Lease:
        begun.set()
        ends.wait(60)
        raise OSError("it was never meant to start")

    monkeypatch.setattr(EmbeddedMetastore, "_join_or_launch", starting)
    metastore = EmbeddedMetastore(tmp_path)
    metastore.start_in_background()
    assert begun.wait(20)
    child = os.fork()
    if not child:
        # Nothing of the tests' runner is to go on in it, whatever happens.
        signal.alarm(20)
        code = 1
        try:
            metastore.stop()
            code = 2 if metastore.settled else 0
        finally:
            os._exit(code)
    try:
        assert os.waitpid(child, 0)[1] == 0
        assert not metastore.settled, "the parent's goes on"
    finally:
        ends.set()
        metastore.stop()
