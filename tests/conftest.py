from __future__ import annotations

# Registers the profiles, before pytest chooses one of them.
import tests.examples  # noqa: F401

pytest_plugins = ["tests.scheduling", "tests.servers.fixtures", "tests.conformance.recording", "tests.jvms"]
