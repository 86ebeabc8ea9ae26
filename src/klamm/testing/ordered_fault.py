"""A fault as a test orders it: how often, how likely, until when."""

from __future__ import annotations

import threading
from random import Random
from types import TracebackType
from typing import Self


class OrderedFault:
    """A fault that is in force until it has happened often enough, or is lifted. Also a `with` block."""

    def __init__(self, *, times: int | None = None, probability: float = 1.0, seed: int = 0) -> None:
        if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 1):
            raise ValueError(f"invalid times {times!r}: expected a number from 1 on, or nothing")
        if isinstance(probability, bool) or not isinstance(probability, (int, float)):
            raise TypeError(f"invalid probability {probability!r}: expected a number")
        if not 0 < probability <= 1:
            raise ValueError(f"invalid probability {probability!r}: expected more than 0, at most 1")
        self._random = Random(seed)
        self._probability = probability
        self._lock = threading.Lock()  # the disk is used by several threads
        self.times_left = times
        self.count = 0  # how often it happened
        self.is_lifted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lift()

    @property
    def is_over(self) -> bool:
        """Whether it was lifted, or has happened as often as ordered."""
        return self.is_lifted or self.times_left == 0

    def lift(self) -> None:
        """End it."""
        self.is_lifted = True

    def happens(self) -> bool:
        """Whether it happens to the next thing that it is for."""
        with self._lock:
            if self.is_lifted or self.times_left == 0:
                return False
            if self._probability < 1 and self._random.random() >= self._probability:
                return False
            self.count += 1
            if self.times_left is not None:
                self.times_left -= 1
            return True
