"""One response from several: a request about many keys is decided key by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Part(NamedTuple):
    """Identifies one part of a request, as a token does a whole one."""

    gathering: Gathering
    place: int

    def keep(self, response: object) -> None:
        self.gathering.add(self.place, response)


class Gathering:
    """Collects the responses to the parts, in the order of the parts."""

    __slots__ = ("_answers", "_deliver", "_merge", "_missing")

    # Any: the parts of one gathering are of one type, which only the merging code needs.
    def __init__(
        self, deliver: Callable[[object], None], size: int, merge: Callable[[Sequence[Any]], object]
    ) -> None:
        self._deliver = deliver
        self._answers: list[object] = [None] * size
        self._missing = size
        self._merge = merge

    def add(self, place: int, answer: object) -> None:
        """Take one response, the first to its part; deliver the merged one after the last."""
        if self._answers[place] is None:
            self._answers[place] = answer
            self._missing -= 1
            if self._missing == 0:
                self._deliver(self._merge(self._answers))
