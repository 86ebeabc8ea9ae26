"""The log of a command, on standard error."""

from __future__ import annotations

import logging
from typing import Final

from klamm.printable import printable, printable_lines

_MOST_OF_A_LINE: Final = 10_000  # characters


class LineFormatter(logging.Formatter):
    """Formats a record of the log as one line, and its traceback as lines without control characters."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = printable(record.message, _MOST_OF_A_LINE)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        return printable_lines(super().formatException(ei))  # type: ignore[arg-type]  # as logging passes it


def log_handler(form: str) -> logging.Handler:
    """Writes the log to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(form))
    return handler
