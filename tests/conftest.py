from __future__ import annotations

import gc
import os

import pytest

# Registers the profiles, before pytest chooses one of them.
import tests.kit.examples  # noqa: F401

pytest_plugins = [
    "tests.kit.scratch", "tests.kit.scheduling", "tests.servers.fixtures", "tests.servers.prefetch",
    "tests.conformance.recording", "tests.kit.jvms", "tests.neighbours.chosen",
]  # fmt: skip


# Results are not laid out for the terminal that the tests run in.
os.environ.pop("COLUMNS", None)

# What is imported and collected stays: to look through it for garbage takes a seventh of the time up to the first test.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    # Looked through at every collection of garbage it takes a tenth of the time of `make unit`.
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
