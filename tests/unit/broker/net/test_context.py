"""What a handler gives back: responses that are completed or dropped."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from klamm.broker.net.context import HeldResponse


class Waiting:
    """Somebody who waits for a held response, and holds it as a connection does."""

    def __init__(self, held: HeldResponse[str]) -> None:
        self.held = held
        self.heard = 0
        held.listener = self.hear

    def hear(self) -> None:
        self.heard += 1


def keep(held: HeldResponse[str]) -> None:
    held.keep("here")


def test_the_first_word_counts_and_is_heard_once() -> None:
    waiting = Waiting(HeldResponse())
    waiting.held.keep("here")
    waiting.held.keep("there")
    waiting.held.drop()
    assert (waiting.held.response, waiting.heard) == ("here", 1)


@pytest.mark.parametrize("end", [keep, HeldResponse.drop])
def test_nothing_of_an_answered_request_waits_for_the_garbage_collector(
    end: Callable[[HeldResponse[str]], None],
) -> None:
    waiting = Waiting(HeldResponse())
    end(waiting.held)
    seen = weakref.ref(waiting)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        del waiting
        assert seen() is None
    finally:
        if was_enabled:
            gc.enable()
