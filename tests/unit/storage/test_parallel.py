from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from catalog_ext.metastore.storage import parallel
from catalog_ext.metastore.storage.parallel import in_parallel


def test_results_are_in_the_order_of_their_items() -> None:
    def slow_at_first(number: int) -> int:
        time.sleep(0.002 if number < 3 else 0)
        return number * number

    for threads in (1, 2, 8, 500):
        assert in_parallel(slow_at_first, range(50), threads) == [n * n for n in range(50)]
        assert in_parallel(slow_at_first, [], threads) == []


def test_no_more_threads_work_than_were_asked_for_and_so_many_do() -> None:
    at_work, most, lock, met = 0, 0, threading.Lock(), threading.Barrier(4, timeout=30)

    def work(number: int) -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        if number < 4:
            met.wait()
        with lock:
            at_work -= 1

    in_parallel(work, range(40), 4)
    assert most == 4


def test_first_error_is_raised_after_all_threads_and_nothing_more_starts() -> None:
    begun, ended = [], []
    all_three = threading.Barrier(3, timeout=30)

    def work(number: int) -> None:
        begun.append(number)
        all_three.wait()
        if number != 1:
            time.sleep(0.05)
            ended.append(number)
        if number:
            raise ValueError(str(number))

    with pytest.raises(ValueError, match="1"):
        in_parallel(work, range(1000), 3)
    assert (sorted(begun), sorted(ended)) == ([0, 1, 2], [0, 2])


def test_an_interrupt_of_the_caller_waits_for_the_others() -> None:
    main, ended = threading.get_ident(), []
    both = threading.Barrier(2, timeout=30)

    def work(number: int) -> None:
        both.wait()
        if threading.get_ident() == main:
            raise KeyboardInterrupt
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(KeyboardInterrupt):
        in_parallel(work, range(2), 2)
    assert len(ended) == 1


def test_calls_within_calls_end_however_few_threads_there_are() -> None:
    def outer(number: int) -> int:
        return sum(in_parallel(lambda inner: inner + number, range(5), 64))

    assert in_parallel(outer, range(300), 300) == [10 + 5 * n for n in range(300)]


def test_child_forked_while_threads_get_work_does_not_hang() -> None:
    with parallel._pool._shutdown_lock:
        child = os.fork()
        if not child:
            # Nothing of the tests' runner is to go on in it, whatever happens.
            signal.alarm(20)
            code = 1
            try:
                code = 0 if in_parallel(lambda n: n * n, range(50), 8) == [n * n for n in range(50)] else 1
            finally:
                os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
