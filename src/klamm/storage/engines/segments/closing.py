"""Closing a log in steps, of which those that wait for the disk run off the event loop."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

from klamm.storage.log import MustLoadError, Work

_logger = logging.getLogger(__name__)


class Closing:
    """A log on its way: the owner goes on with it between the steps."""

    __slots__ = ("_error", "_steps")

    def __init__(self, steps: Iterator[Work]) -> None:
        """Each of the steps is work that raises OSError, to be done before the next one is asked for."""
        self._steps = steps
        self._error: Exception | None = None

    def go_on(self) -> None:
        """Raises MustLoadError until all steps are done, and what went wrong with one, again and again."""
        if self._error is not None:
            raise self._error
        try:
            step = next(self._steps, None)
        except Exception as error:
            self._error = error
            raise
        if step is not None:
            raise self.waits_for(step)

    def waits_for(self, step: Work) -> MustLoadError:
        return MustLoadError(partial(self._run, step))

    def _run(self, step: Work) -> None:
        try:
            step()
        except OSError as error:
            _logger.warning("closing a log: %s", error)
            self._error = error
