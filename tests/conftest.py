from __future__ import annotations

pytest_plugins = ["tests.servers.databases", "tests.servers.hive", "tests.servers.stores"]
