"""What klamm logs while a script runs: kept for its failure, instead of a line for each planned death."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Final

_MOST_RECORDS: Final = 500
_FORM: Final = logging.Formatter("%(levelname)-7s %(name)s: %(message)s")


class KeptLog(logging.Handler):
    """Takes klamm's log of one thread while it is entered; what other threads log goes where it would."""

    def __init__(self) -> None:
        super().__init__()
        self._records: deque[logging.LogRecord] = deque(maxlen=_MOST_RECORDS)
        self._logger = logging.getLogger("klamm")
        self._thread_id = 0
        self._propagated = True

    def __enter__(self) -> None:
        self._thread_id = threading.get_ident()
        self._propagated, self._logger.propagate = self._logger.propagate, False
        self._logger.addHandler(self)

    def __exit__(self, *_exception: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagated

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread_id:
            self._records.append(record)
        elif self._propagated and self._logger.parent is not None:
            self._logger.parent.handle(record)

    def text(self) -> str:
        """The last lines."""
        return "\n".join(map(_FORM.format, self._records))
