"""One timer for many who wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from klamm.broker.partitions.deadlines import Deadlines
from klamm.clock import ManualClock
from support.virtual_loop import VirtualLoop


@dataclass(eq=False)
class Waiter:
    """Notes when it was sent away."""

    due_at_ms: int
    clock: ManualClock
    expired_at_ms: list[int] = field(default_factory=list)

    def expire(self) -> None:
        self.expired_at_ms.append(self.clock.now_ms())


def test_each_is_sent_away_at_its_own_instant_in_whatever_order_they_came() -> None:
    clock = ManualClock()
    loop = VirtualLoop(clock)
    deadlines = Deadlines(loop, clock)
    waiters = [Waiter(due_at_ms, clock) for due_at_ms in (500, 100, 300, 100)]
    for waiter in waiters:
        deadlines.add(waiter)
    loop.pass_ms(1000)
    assert [waiter.expired_at_ms for waiter in waiters] == [[500], [100], [300], [100]]
    assert len(deadlines) == 0
    loop.close()


def test_who_leaves_in_time_is_not_sent_away() -> None:
    clock = ManualClock()
    loop = VirtualLoop(clock)
    deadlines = Deadlines(loop, clock)
    early, late = Waiter(100, clock), Waiter(200, clock)
    deadlines.add(early)
    deadlines.add(late)
    deadlines.discard(early)
    loop.pass_ms(300)
    assert (early.expired_at_ms, late.expired_at_ms) == ([], [200])
    deadlines.add(again := Waiter(350, clock))
    loop.pass_ms(100)
    assert again.expired_at_ms == [350]
    loop.close()
