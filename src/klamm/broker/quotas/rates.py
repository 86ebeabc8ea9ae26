"""How much was used lately, and for how long a client that used too much has to wait. Kafka's arithmetic."""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOWS: Final = 11
WINDOW_MS: Final = 1000
_FULL_WINDOWS: Final = WINDOWS - 1  # a rate is at least over so many: what is saved up may be used at once


class Rate:
    """Amounts over the last windows; a client may use ten seconds of its quota at once."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[list[float]] = deque()  # when each window began, and the amount in it

    def record(self, amount: float, now_ms: int) -> None:
        samples = self._samples
        self._forget(now_ms)
        if not samples or now_ms - samples[-1][0] >= WINDOW_MS:
            samples.append([now_ms, 0.0])
        samples[-1][1] += amount

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long to wait until the rate is at the limit again; 0 if it is not above."""
        self._forget(now_ms)
        elapsed_ms = self._elapsed_ms(now_ms)
        per_second = sum(amount for _, amount in self._samples) * 1000 / elapsed_ms
        return 0 if per_second <= limit else round((per_second - limit) / limit * elapsed_ms)

    def _forget(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= WINDOWS * WINDOW_MS:
            self._samples.popleft()

    def _elapsed_ms(self, now_ms: int) -> float:
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0
        missing = _FULL_WINDOWS - elapsed_ms // WINDOW_MS
        return elapsed_ms + max(0, missing) * WINDOW_MS


class TokenBucket:
    """Tokens that come back at a rate; the last taker may overdraw, and the others wait for that."""

    __slots__ = ("_filled_at_ms", "_tokens")

    def __init__(self, limit: float, now_ms: int) -> None:
        self._tokens = limit * WINDOWS
        self._filled_at_ms = now_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long until it is not overdrawn; 0 if it is not."""
        self._fill(limit, now_ms)
        return 0 if self._tokens >= 0 else round(-self._tokens / limit * 1000)

    def take(self, amount: float, limit: float, now_ms: int) -> None:
        self._fill(limit, now_ms)
        self._tokens = min(limit * WINDOWS, self._tokens - amount)

    def _fill(self, limit: float, now_ms: int) -> None:
        gained = limit * (now_ms - self._filled_at_ms) / 1000
        self._tokens = min(limit * WINDOWS, self._tokens + gained)
        self._filled_at_ms = now_ms
