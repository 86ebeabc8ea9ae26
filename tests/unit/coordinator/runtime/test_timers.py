"""Deadlines as data."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from klamm.coordinator.runtime.timers import Timer, TimerQueue


def fired(queue: TimerQueue, now_ms: int) -> list[object]:
    signals = []
    while (timer := queue.pop_due(now_ms)) is not None:
        signals.append(timer.signal)
    return signals


def test_timers_fire_in_order_when_they_are_due_and_not_before() -> None:
    queue = TimerQueue()
    for name, due_at_ms in (("late", 20), ("early", 10), ("early too", 10)):
        queue.change(Timer(name), due_at_ms)
    assert fired(queue, 9) == []
    assert fired(queue, 10) == ["early", "early too"]
    assert fired(queue, 100) == ["late"]
    assert queue.next_check_ms() is None


def test_a_timer_that_is_put_off_is_looked_at_once_and_fires_later() -> None:
    queue = TimerQueue()
    timer = Timer("session")
    assert queue.change(timer, 10)
    for due_at_ms in range(11, 1_000):
        assert not queue.change(timer, due_at_ms)
    assert queue.next_check_ms() == 10
    assert fired(queue, 10) == []
    assert queue.next_check_ms() == 999
    assert fired(queue, 999) == ["session"]


def test_a_timer_that_is_due_earlier_than_before_fires_once() -> None:
    queue = TimerQueue()
    timer = Timer("soon")
    queue.change(timer, 100)
    assert queue.change(timer, 10)
    assert fired(queue, 10) == ["soon"]
    assert fired(queue, 100) == []


def test_a_disarmed_timer_does_not_fire_until_it_is_armed_again() -> None:
    queue = TimerQueue()
    timer = Timer("off")
    queue.change(timer, 10)
    queue.change(timer, None)
    assert fired(queue, 10) == []
    queue.change(timer, 20)
    assert fired(queue, 20) == ["off"]


def test_disarmed_timers_are_not_looked_at() -> None:
    queue = TimerQueue()
    chore, ends = Timer("chore"), [Timer(f"end {number}") for number in range(3)]
    queue.change(chore, 10_000)
    for due_at_ms, timer in enumerate(ends, 100):
        queue.change(timer, due_at_ms)
        queue.change(timer, None)
    assert queue.next_check_ms() == 10_000
    # And one that is armed again fires
    assert queue.change(ends[0], 200)
    assert queue.next_check_ms() == 200
    assert fired(queue, 10_000) == ["end 0", "chore"]


@given(st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 50), st.integers(0, 8)), max_size=60))
def test_the_queue_does_what_a_plain_table_would(
    moves: list[tuple[int, int | None, int]],
) -> None:
    queue, table = TimerQueue(), dict[int, int]()
    timers = [Timer(number) for number in range(5)]
    now_ms = 0
    for number, due_in_ms, passed_ms in moves:
        due_at_ms = None if due_in_ms is None else now_ms + due_in_ms
        queue.change(timers[number], due_at_ms)
        table.pop(number, None)
        if due_at_ms is not None:
            table[number] = due_at_ms
        look_ms = queue.next_check_ms()
        assert not table or (look_ms is not None and look_ms <= min(table.values()))
        now_ms += passed_ms
        due = {number for number, due_at_ms in table.items() if due_at_ms <= now_ms}
        assert set(fired(queue, now_ms)) == due
        for gone in due:
            del table[gone]
