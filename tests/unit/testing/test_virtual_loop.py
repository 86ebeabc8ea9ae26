"""Coroutines on time that nobody waits for."""

from __future__ import annotations

import asyncio

import pytest

from klamm.testing import VirtualLoop


async def back_off(attempts: int) -> int:
    """The code under test: waits for twice as long before each attempt."""
    for attempt in range(attempts):
        await asyncio.sleep(2**attempt)
    return attempts


def test_hours_of_waiting_pass_on_the_loops_own_clock() -> None:
    with VirtualLoop() as loop:
        assert loop.run(back_off(14)) == 14
        assert loop.clock.now_ms() == (2**14 - 1) * 1000


def test_a_time_out_ends_what_takes_longer() -> None:
    async def impatient() -> None:
        async with asyncio.timeout(10):
            await back_off(14)

    with VirtualLoop() as loop:
        with pytest.raises(TimeoutError):
            loop.run(impatient())
        assert loop.clock.now_ms() == 10_000


def test_waiting_for_what_never_comes_is_an_error_and_no_endless_wait() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    with VirtualLoop() as loop:
        waiting = loop.create_task(stuck())
        with pytest.raises(RuntimeError, match="nothing left to do"):
            loop.run_until_complete(waiting)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(waiting)
