"""Pauses between rounds, on a clock and an event loop that only the test moves."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import cast

import pytest

from klamm.broker.partitions.pauses import PATIENCE, Pauses


class Timer:
    def __init__(self, due_at_s: float, callback: Callable[[], None]) -> None:
        self.due_at_s = due_at_s
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Store:
    """Rounds of a store, and clients that append. Times are in milliseconds."""

    def __init__(self) -> None:
        self._now_s = 100.0
        self._timers: list[Timer] = []
        self.appends = 0  # since the last round began
        self.ended: list[int] = []  # for each pause that ended: the appends by then
        self.pauses = Pauses(
            cast(AbstractEventLoop, self), lambda: self._now_s, lambda: self.ended.append(self.appends)
        )

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self._timers.append(Timer(self._now_s + delay_s, callback))
        return self._timers[-1]

    def pass_ms(self, duration_ms: float) -> None:
        self._now_s += duration_ms / 1000
        for timer in self._timers:
            if timer.due_at_s <= self._now_s + 1e-9 and not timer.is_cancelled:
                timer.is_cancelled = True
                timer.callback()

    def append(self, count: int, *, each_ms: float) -> None:
        """As a client, and as the flusher does."""
        for _ in range(count):
            self.pass_ms(each_ms)
            self.appends += 1
            if self.appends == self.pauses.all_back_at:
                self.pauses.all_are_back()

    def is_paused(self) -> bool:
        return self.pauses.is_on

    def begin_round(self) -> None:
        self.pauses.count_anew(self.appends)
        self.appends = 0
        self.pauses.round_begins()

    def end_round(self) -> None:
        self.pauses.round_ends(self.appends)


def two_parties(store: Store, *, round_ms: float, each_ms: float) -> None:
    """32 clients are answered and come back during the round of 32 others."""
    store.append(32, each_ms=0)
    store.begin_round()
    store.append(32, each_ms=0)
    store.pass_ms(round_ms)
    store.end_round()
    assert not store.is_paused()  # nobody has come back yet
    store.begin_round()
    store.append(32, each_ms=each_ms)
    store.pass_ms(round_ms - 32 * each_ms)
    store.end_round()


@pytest.mark.parametrize(("round_ms", "pays"), [(6.0, False), (6.5, True), (20.0, True)])
def test_a_pause_pays_if_all_come_back_sooner_than_a_round_takes(round_ms: float, pays: bool) -> None:
    store = Store()
    two_parties(store, round_ms=round_ms, each_ms=0.1)  # all 64 take 6.4 ms
    assert store.is_paused() == pays


def test_a_pause_ends_when_all_are_back_and_the_next_round_has_them_all() -> None:
    store = Store()
    two_parties(store, round_ms=10, each_ms=0.1)
    store.append(31, each_ms=0.1)
    assert store.is_paused()
    store.append(1, each_ms=0.1)
    assert not store.is_paused()
    assert store.ended == [64]
    # And so it goes on: there is one party.
    store.begin_round()
    store.pass_ms(10)
    store.end_round()
    assert store.is_paused()
    store.append(64, each_ms=0.1)
    assert store.ended == [64, 64]


def test_a_pause_does_not_wait_for_those_who_do_not_come_back() -> None:
    store = Store()
    two_parties(store, round_ms=10, each_ms=0.1)
    store.append(20, each_ms=0.1)  # of 32
    store.pass_ms(10 - 20 * 0.1 - 0.01)
    assert store.is_paused()
    store.pass_ms(0.01)
    assert not store.is_paused()  # it took as long as a round
    assert store.ended == [52]
    store.pass_ms(100)
    assert store.ended == [52]


def test_a_pause_is_short_where_clients_are_fast() -> None:
    store = Store()
    two_parties(store, round_ms=10, each_ms=0.01)
    store.pass_ms(64 * 0.01 * PATIENCE)
    assert store.ended == [32]


def test_there_is_no_pause_after_clients_were_late_until_they_are_fast_again() -> None:
    store = Store()
    two_parties(store, round_ms=10, each_ms=0.1)
    store.pass_ms(10)
    store.begin_round()
    store.pass_ms(10)  # nobody comes back
    store.end_round()
    assert not store.is_paused()
    store.append(32, each_ms=0.1)
    store.begin_round()
    store.pass_ms(10)
    store.end_round()
    assert store.is_paused()


def test_appends_that_come_at_a_steady_rate_make_no_pause() -> None:
    store = Store()
    store.begin_round()
    for _ in range(20):
        store.append(10, each_ms=1)
        store.end_round()
        assert not store.is_paused()
        store.begin_round()


def test_one_client_is_not_kept_waiting() -> None:
    store = Store()
    for _ in range(5):
        store.append(1, each_ms=0.1)
        assert not store.is_paused()
        store.begin_round()
        store.pass_ms(2)
        store.end_round()


def test_a_pause_that_is_stopped_starts_nothing() -> None:
    store = Store()
    two_parties(store, round_ms=10, each_ms=0.1)
    store.pauses.stop()
    store.pass_ms(100)
    assert store.ended == []


def test_a_round_without_appends_makes_no_pause() -> None:
    store = Store()
    two_parties(store, round_ms=10, each_ms=0.1)
    store.append(32, each_ms=0.1)
    store.begin_round()
    store.append(0, each_ms=0)
    store.pass_ms(10)
    store.begin_round()
    store.end_round()
    assert not store.is_paused()
