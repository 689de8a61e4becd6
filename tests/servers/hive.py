"""Real Hive: a metastore 2.3 and the Hive 2.3 command line, both from PySpark's own jars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.demo.hive_cli import HiveCli, HiveCliError, engine_jars
from metastore.hive.embedded import EmbeddedMetastore

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["HiveCli", "HiveCliError", "HiveMetastore"]


class HiveMetastore:
    """A metastore that a test can stop and start again under the same URI.

    Attributes:
        uri: Its thrift URI.
        warehouse: The local folder of databases that have no location.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.warehouse = directory / "warehouse"
        self._server = EmbeddedMetastore(directory, engine_jars=engine_jars())
        self.uri = self._server.start()

    def start(self) -> None:
        """It answers at ``uri`` again."""
        self._server = EmbeddedMetastore(
            self._directory, port=int(self.uri.rpartition(":")[2]), engine_jars=engine_jars()
        )
        self._server.start()

    def stop(self) -> None:
        """Nobody answers at ``uri``; what it knew is kept."""
        self._server.stop()
