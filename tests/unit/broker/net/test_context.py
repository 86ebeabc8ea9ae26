"""What a handler gives back: promises that are kept, dropped, and forgotten."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from klamm.broker.net.context import Promise


class Waiting:
    """Somebody who waits for a promise, and holds it as a connection does."""

    def __init__(self, promise: Promise[str]) -> None:
        self.promise = promise
        self.heard = 0
        promise.listen(self.hear)

    def hear(self) -> None:
        self.heard += 1


def keep(promise: Promise[str]) -> None:
    promise.keep("here")


def test_the_first_word_counts_and_is_heard_once() -> None:
    waiting = Waiting(Promise())
    waiting.promise.keep("here")
    waiting.promise.keep("there")
    waiting.promise.drop()
    assert (waiting.promise.outcome(), waiting.heard) == ("here", 1)


@pytest.mark.parametrize("end", [keep, Promise.drop])
def test_nothing_of_an_answered_request_waits_for_the_garbage_collector(
    end: Callable[[Promise[str]], None],
) -> None:
    waiting = Waiting(Promise())
    end(waiting.promise)
    seen = weakref.ref(waiting)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        del waiting
        assert seen() is None
    finally:
        if was_enabled:
            gc.enable()
