"""One timer for all requests that wait."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from klamm.broker.partitions.deadlines import Deadlines
from klamm.clock import ManualClock
from klamm.testing.virtual_loop import VirtualLoop


@dataclass(eq=False)
class Waiter:
    """Notes when it expired."""

    timeout_ms: int
    loop: VirtualLoop
    expired_at_ms: list[int] = field(default_factory=list)

    def expire(self) -> None:
        self.expired_at_ms.append(round(self.loop.time() * 1000))


def test_each_expires_at_its_own_instant_in_whatever_order_they_came() -> None:
    loop = VirtualLoop(ManualClock())
    deadlines = Deadlines(loop)
    waiters = [Waiter(timeout_ms, loop) for timeout_ms in (500, 100, 300, 100)]
    for waiter in waiters:
        deadlines.add(waiter)
    loop.pass_ms(1000)
    assert [waiter.expired_at_ms for waiter in waiters] == [[500], [100], [300], [100]]
    assert list(deadlines) == []
    loop.close()


def test_those_with_the_same_time_out_expire_one_after_the_other() -> None:
    loop = VirtualLoop(ManualClock())
    deadlines = Deadlines(loop)
    waiters = [Waiter(100, loop) for _ in range(5)]
    for waiter in waiters:
        deadlines.add(waiter)
        loop.pass_ms(30)
    loop.pass_ms(1000)
    assert [waiter.expired_at_ms for waiter in waiters] == [[100], [130], [160], [190], [220]]
    loop.close()


def test_a_discarded_waiter_does_not_expire() -> None:
    loop = VirtualLoop(ManualClock())
    deadlines = Deadlines(loop)
    early, late = Waiter(100, loop), Waiter(200, loop)
    deadlines.add(early)
    deadlines.add(late)
    deadlines.discard(early)
    deadlines.discard(early)
    assert list(deadlines) == [late]
    loop.pass_ms(300)
    assert (early.expired_at_ms, late.expired_at_ms) == ([], [200])
    deadlines.add(again := Waiter(50, loop))
    loop.pass_ms(100)
    assert again.expired_at_ms == [350]
    loop.close()


def test_a_time_out_that_was_used_once_takes_no_memory() -> None:
    loop = VirtualLoop(ManualClock())
    deadlines = Deadlines(loop)
    for timeout_ms in range(1_000_000, 1_001_000):
        deadlines.add(waiter := Waiter(timeout_ms, loop))
        deadlines.discard(waiter)
    assert deadlines._queues == {}
    loop.close()


def test_a_failure_does_not_keep_the_others_waiting(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Waiter):
        def expire(self) -> None:
            raise ValueError("broken")

    loop = VirtualLoop(ManualClock())
    deadlines = Deadlines(loop)
    waiter = Waiter(100, loop)
    deadlines.add(Failing(100, loop))
    deadlines.add(waiter)
    loop.pass_ms(200)
    assert waiter.expired_at_ms == [100]
    assert "completing an expired request failed" in caplog.text
    loop.close()
