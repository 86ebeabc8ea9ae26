"""Waiting for what a log must load first, off the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from klamm.storage.log import MustLoadError

if TYPE_CHECKING:
    from klamm.broker.services import RunBlocking

Result = TypeVar("Result")


def now_or_loaded(run_blocking: RunBlocking, ask: Callable[[], Result]) -> Result | Awaitable[Result]:
    """The result of asking a log; awaitable if the log has to load something first."""
    try:
        return ask()
    except MustLoadError as missing:
        return _after(run_blocking, missing, ask)


async def when_loaded(run_blocking: RunBlocking, ask: Callable[[], Result]) -> Result:
    """The result of asking a log, when it has loaded what that needs."""
    try:
        return ask()
    except MustLoadError as missing:
        return await _after(run_blocking, missing, ask)


async def _after(run_blocking: RunBlocking, missing: MustLoadError, ask: Callable[[], Result]) -> Result:
    while True:
        await run_blocking(missing.load)
        try:
            return ask()
        except MustLoadError as next_missing:
            missing = next_missing
