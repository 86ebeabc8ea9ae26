"""Files that are removed after a delay, because readers may still use them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from klamm.clock import Clock
from klamm.storage.engines.segments.files import Files, remove_if_there
from klamm.storage.log import Work

_logger = logging.getLogger(__name__)


class DelayedRemovals:
    """Removals that are due later."""

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._waiting: list[tuple[int, Callable[[], None]]] = []  # (due at, action)

    def add(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Call `action`, which may raise OSError, once a delay has passed."""
        self._waiting.append((self._clock.now_ms() + delay_ms, action))

    def add_files(self, delay_ms: int, paths: Sequence[str]) -> None:
        """Remove files once a delay has passed."""
        if not paths:
            return

        def remove() -> None:
            for path in paths:
                remove_if_there(self._files, path)

        self.add(delay_ms, remove)

    def start(self, now_ms: int, *, all_of_them: bool = False) -> Work | None:
        """Work that does what is due, or everything; None when there is nothing to do."""
        due: list[Callable[[], None]] = []
        waiting: list[tuple[int, Callable[[], None]]] = []
        for due_at_ms, action in self._waiting:
            if all_of_them or due_at_ms <= now_ms:
                due.append(action)
            else:
                waiting.append((due_at_ms, action))
        if not due:
            return None
        self._waiting = waiting

        def work() -> None:
            for action in due:
                try:
                    action()
                except OSError as error:
                    _logger.warning("removing deleted files failed: %s", error)

        return work
