"""The statistics callback: metrics handed to the program at intervals, on the client's thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from klamm.client.callables import name_of, takes
from klamm.config import ConfigError

log = logging.getLogger(__name__)


class Statistics:
    """A component of the client's core; does nothing until its interval has passed."""

    def __init__(
        self,
        callback: Callable[[Mapping[str, Any]], Any],
        interval_ms: int,
        read: Callable[[], Any],
        now_ms: int,
    ) -> None:
        self._callback = callback
        self._interval_ms = interval_ms
        self._read = read
        self._due_ms = now_ms + interval_ms

    def tick(self, now_ms: int) -> int | None:
        """Call back if it is time; when to be called again."""
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + self._interval_ms
            try:
                self._callback(self._read())
            except BaseException:  # SystemExit would end the client's thread, not the program
                log.exception("the statistics callback %s raised", name_of(self._callback))
        return self._due_ms


def checked_callback(callback: Any, interval_ms: int) -> Any:
    """The callback of the settings; None if there is none or it is never due."""
    if callback is None:
        if interval_ms:
            raise ConfigError(
                "stats.callback",
                "statistics.interval.ms is set: give stats_callback=, a function of a dictionary",
            )
        return None
    if not callable(callback) or not takes(callback, 1):
        raise ConfigError("stats.callback", f"stats.callback={callback!r}: give a function of a dictionary")
    if not interval_ms:
        raise ConfigError(
            "statistics.interval.ms", "stats.callback is set: set statistics.interval.ms too, as 1000"
        )
    return callback
