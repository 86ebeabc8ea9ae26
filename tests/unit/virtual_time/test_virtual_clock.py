from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from klamm.virtual_time.clock import VirtualClock


@contextmanager
def a_loop(clock: VirtualClock) -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop of the clock on a thread of its own."""
    loop = clock.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="the loop")
    thread.start()
    try:
        yield loop
    finally:
        clock.resume()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_timers_of_several_loops_fire_in_order_each_at_its_own_time() -> None:
    clock = VirtualClock()
    clock.freeze()
    start_ms = clock.now_ms()
    fired: list[tuple[str, int]] = []

    def note(name: str) -> None:
        fired.append((name, clock.now_ms() - start_ms))

    with a_loop(clock) as one, a_loop(clock) as other:
        for loop, name, delay_s in ((one, "a", 30), (other, "b", 10), (one, "c", 20), (other, "d", 60)):
            loop.call_soon_threadsafe(loop.call_later, delay_s, note, name)
        clock.advance("45s")
        assert fired == [("b", 10_000), ("c", 20_000), ("a", 30_000)]
        assert clock.now_ms() - start_ms == 45_000
        clock.advance("15s")
        assert fired[-1] == ("d", 60_000)


def test_a_timer_that_sets_another_is_followed() -> None:
    clock = VirtualClock()
    ticks: list[int] = []
    with clock.frozen(), a_loop(clock) as loop:

        def tick() -> None:
            ticks.append(clock.now_ms())
            loop.call_later(1, tick)

        loop.call_soon_threadsafe(tick)
        clock.advance("0s")
        clock.advance("1h")
    assert len(ticks) == 3601
    assert ticks[-1] - ticks[0] == 3_600_000


def test_what_is_sent_over_a_socket_is_handled_before_time_moves_on() -> None:
    clock = VirtualClock()
    seen: list[int] = []

    class Echo(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(data)

    class Asking(Echo):
        def data_received(self, data: bytes) -> None:
            seen.append(clock.now_ms())  # the answer to what was sent in the same instant

    with clock.frozen(), a_loop(clock) as server_loop, a_loop(clock) as client_loop:

        async def listen() -> asyncio.Server:
            return await server_loop.create_server(Echo, "127.0.0.1", 0)

        server = asyncio.run_coroutine_threadsafe(listen(), server_loop).result(10)
        port = server.sockets[0].getsockname()[1]
        asked: list[int] = []

        async def ask() -> None:
            transport, _ = await client_loop.create_connection(Asking, "127.0.0.1", port)
            for _ in range(50):
                asked.append(clock.now_ms())
                transport.write(b"?")
                await asyncio.sleep(0.001)
            transport.abort()

        done = asyncio.run_coroutine_threadsafe(ask(), client_loop)
        clock.advance("1s")
        done.result(10)
        server_loop.call_soon_threadsafe(server.close)
        clock.advance("1s")  # both ends are closed
    assert seen == asked


def test_a_frozen_clock_stands_still() -> None:
    clock = VirtualClock()
    with clock.frozen():
        before = clock.now(), clock.now_ms()
        threading.Event().wait(0.01)
        assert (clock.now(), clock.now_ms()) == before
    assert clock.rate == 1.0


def test_a_clock_begins_where_it_is_told_to() -> None:
    clock = VirtualClock(datetime(2031, 5, 1, 12, tzinfo=UTC), rate=0)
    clock.advance(timedelta(hours=1))
    assert clock.now() == datetime(2031, 5, 1, 13, tzinfo=UTC)
    assert clock.timestamp_ms() == round(clock.now().timestamp() * 1000)


def test_a_rate_makes_time_pass_faster_for_a_loop() -> None:
    clock = VirtualClock(rate=0)
    fired = threading.Event()
    with a_loop(clock) as loop:
        loop.call_soon_threadsafe(loop.call_later, 3_600, fired.set)
        clock.rate = 1_000_000
        assert fired.wait(30)


@pytest.mark.parametrize("rate", [-1, float("nan"), 2_000_000])
def test_a_rate_that_makes_no_sense_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="invalid rate"):
        VirtualClock(rate=rate)
    with pytest.raises(TypeError, match="invalid rate"):
        VirtualClock().rate = "fast"  # type: ignore[assignment]  # what the test is about


def test_the_clock_cannot_be_moved_by_a_thread_that_waits_for_it() -> None:
    clock = VirtualClock()
    with a_loop(clock) as loop:

        async def move() -> None:
            clock.advance("1s")

        with pytest.raises(RuntimeError, match="own thread"):
            asyncio.run_coroutine_threadsafe(move(), loop).result(10)


class Worker(threading.Thread):
    """Does something on a thread; `result` is what came of it."""

    def __init__(self, work: Any) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.result: Any = None
        self.start()

    def run(self) -> None:
        self.result = self._work()


def test_an_event_that_another_thread_waits_for_ends_with_the_virtual_time() -> None:
    clock = VirtualClock()
    with clock.frozen():
        event = clock.new_event()
        waits = Worker(lambda: event.wait(3_600))
        while not clock.waiting_calls:
            pass
        clock.advance("59m")
        assert waits.is_alive()
        clock.advance("1m")
        waits.join(10)
        assert waits.result is False


def test_the_thread_that_stopped_the_clock_waits_without_real_time() -> None:
    clock = VirtualClock()
    with clock.frozen(), a_loop(clock) as loop:
        event = clock.new_event()
        before_ms = clock.now_ms()
        loop.call_soon_threadsafe(loop.call_later, 100, event.set)
        assert event.wait(3_600)
        assert clock.now_ms() - before_ms == 100_000
        event.clear()
        assert not event.wait(3_600)
        assert clock.now_ms() - before_ms == 3_700_000


def test_other_threads_do_not_move_a_clock_that_stands_still() -> None:
    clock = VirtualClock()
    with clock.frozen():
        before_ms = clock.now_ms()
        waits = Worker(lambda: clock.new_event().wait(0.01))
        waits.join(10)
        assert waits.result is False  # on real time
        assert clock.now_ms() == before_ms


def test_a_future_and_a_condition_follow_the_clock() -> None:
    clock = VirtualClock()
    with clock.frozen(), a_loop(clock) as loop:
        future, condition = clock.new_future(), clock.new_condition()
        with pytest.raises(TimeoutError):
            future.result(60)
        loop.call_soon_threadsafe(loop.call_later, 1, future.set_result, 42)
        assert future.result(60) == 42

        def notify() -> None:
            with condition:
                condition.notify_all()

        with condition:
            assert not condition.wait(60)
            loop.call_soon_threadsafe(loop.call_later, 1, notify)
            assert condition.wait(60)


def test_a_clock_that_is_stopped_for_all_does_not_move_with_the_thread_that_stopped_it() -> None:
    clock = VirtualClock()
    clock.freeze_for_all()
    before_ns = clock.now_ns()
    assert not clock.new_event().wait(0.01)  # of real time
    assert clock.now_ns() == before_ns
    clock.advance("1h")
    assert clock.now_ns() - before_ns == 3_600_000_000_000


@pytest.mark.parametrize("stop", [VirtualClock.freeze, VirtualClock.freeze_for_all])
def test_a_stopped_clock_that_runs_for_a_while_is_stopped_again_for_the_same_thread(stop: Any) -> None:
    clock = VirtualClock()
    stop(clock)
    with clock.running():
        assert clock.rate == 1.0
    assert clock.rate == 0.0
    before_ns = clock.now_ns()
    clock.new_event().wait(0.01)
    assert (clock.now_ns() > before_ns) == (stop is VirtualClock.freeze)
