from __future__ import annotations

import gc

import pytest

# Registers the profiles, before pytest chooses one of them.
import tests.examples  # noqa: F401

pytest_plugins = [
    "tests.scratch", "tests.scheduling", "tests.servers.fixtures", "tests.conformance.recording", "tests.jvms",
]  # fmt: skip


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    # Modules and collected tests stay: looked through at every collection they take a tenth of the time of `make unit`.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
