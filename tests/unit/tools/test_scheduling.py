"""Which module of tests a process has next."""

from __future__ import annotations

from tests.kit.scheduling import next_module

SPARK, SERVER, UNIT = (
    "tests/integration/test_smoke.py", "tests/service/test_server.py", "tests/unit/tools/test_scheduling.py",
)  # fmt: skip


def test_one_process_has_what_shares_the_jvm_and_the_other_what_does_not() -> None:
    waiting = [UNIT, SERVER, SPARK]
    assert next_module(waiting, with_driver=True) == SPARK
    assert next_module(waiting, with_driver=False) == SERVER


def test_idle_process_helps_the_other_and_unit_tests_come_last() -> None:
    assert next_module([UNIT, SPARK], with_driver=False) == SPARK
    assert next_module([UNIT, SERVER], with_driver=True) == SERVER
    assert next_module([UNIT], with_driver=True) == UNIT


def test_the_order_of_the_run_is_kept() -> None:
    assert next_module(["tests/service/test_writes.py", SERVER], with_driver=False) == "tests/service/test_writes.py"
