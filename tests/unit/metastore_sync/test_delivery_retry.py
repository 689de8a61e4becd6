"""Delivery retry: what is pending is tried again until it is taken, and nothing runs while nothing is pending."""

from __future__ import annotations

import threading

import pytest

from catalog_ext.metastore.errors import IndexUnavailableError
from catalog_ext.metastore.hive.outbox.delivery import DeliveryReport
from catalog_ext.metastore_sync import sync as redelivery
from catalog_ext.metastore_sync.sync import DeliveryRetry


class Metastore:
    """Takes what is pending at the n-th attempt; the first may fail altogether."""

    def __init__(self, takes_at: int, *, fails_first: bool = False) -> None:
        self.takes_at = takes_at
        self.fails_first = fails_first
        self.attempts = 0
        self.taken = threading.Event()

    def deliver(self) -> DeliveryReport:
        self.attempts += 1
        if self.fails_first and self.attempts == 1:
            raise IndexUnavailableError("the index is locked")
        if self.attempts < self.takes_at:
            return DeliveryReport(0, 1, "down")
        self.taken.set()
        return DeliveryReport(1, 0, None)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redelivery, "LONGEST_PAUSE_S", 0.01)
    monkeypatch.setattr(redelivery, "IDLE_PAUSE_S", 0.01)


@pytest.mark.parametrize("fails_first", [False, True])
def test_it_is_tried_until_it_is_taken_and_then_no_more(*, fails_first: bool) -> None:
    metastore = Metastore(4, fails_first=fails_first)
    again = DeliveryRetry(metastore.deliver)
    again.schedule(0.001)
    again.schedule(0.001)
    assert metastore.taken.wait(10)
    again.close()
    assert metastore.attempts == 4


def test_a_closed_one_arranges_nothing() -> None:
    metastore = Metastore(1)
    again = DeliveryRetry(metastore.deliver)
    again.schedule(60)
    again.close()
    again.schedule(0.001)
    assert not metastore.taken.wait(0.05)


def test_it_can_look_all_the_time() -> None:
    metastore = Metastore(1)
    again = DeliveryRetry(metastore.deliver)
    again.keep_delivering()
    for _ in range(3):
        assert metastore.taken.wait(10)
        metastore.taken.clear()
    again.close()


def test_it_survives_whatever_happens(caplog: pytest.LogCaptureFixture) -> None:
    """A timer that died would never be set again in this process."""

    class Broken(Metastore):
        def deliver(self) -> DeliveryReport:
            if self.attempts < 3:
                self.attempts += 1
                raise KeyError("an unexpected error")
            return super().deliver()

    metastore = Broken(4)
    again = DeliveryRetry(metastore.deliver)
    again.schedule(0.001)
    assert metastore.taken.wait(10)
    again.close()
    assert len(caplog.records) == 1, "logged once a kind"
