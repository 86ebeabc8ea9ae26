"""One answer from several: requests about many groups are decided group by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Part(NamedTuple):
    """Stands for one part of a request."""

    gathering: Gathering
    place: int


class Gathering:
    """Collects the answers to the parts, in the order of the parts."""

    __slots__ = ("_answers", "_merge", "_missing", "token")

    # Any: the parts of one gathering are of one type, which only whoever merges them knows.
    def __init__(self, token: object, size: int, merge: Callable[[Sequence[Any]], object]) -> None:
        self.token = token
        self._answers: list[object] = [None] * size
        self._missing = size
        self._merge = merge

    def add(self, place: int, answer: object) -> object | None:
        """Take one answer; the merged one when it was the last."""
        if self._answers[place] is not None:
            return None
        self._answers[place] = answer
        self._missing -= 1
        return self._merge(self._answers) if self._missing == 0 else None
