"""Standard error of Spark's processes, for a command whose own lines are to be read.

Java writes its greetings there before a log level can be set. Python workers that Spark ends complain that
nobody reads what they say. All else passes: what a user's function prints is among it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_STANDARD_ERROR: Final = 2
# Lines that tell a user of a command nothing.
_GREETINGS: Final = re.compile(
    rb"WARNING: Using incubator modules|Using Spark's default log4j profile|Setting default log level to |"
    rb"To adjust logging level use |.* WARN NativeCodeLoader: |"
    rb".* WARN Utils: (Your hostname|Set SPARK_LOCAL_IP)"
)
_TRACEBACK: Final = b"Traceback (most recent call last):"
# A worker that wants to flush its output when Spark has closed the pipe; frames of two workers may mix.
_ENDED_WORKER: Final = re.compile(
    rb'  File ".*/pyspark/daemon\.py", line \d+, in (manager|worker)$|'
    rb"    code = worker\(sock, authenticated\)$|    outfile\.flush\(\)$|    \s*\^+$|"
    rb"(BrokenPipeError|ConnectionResetError): \[Errno \d+\] "
)


class LineFilter:
    """Passes lines on, but for those that say nothing."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._held = 0  # tracebacks that may turn out to be of no interest

    def line(self, text: bytes) -> None:
        bare = text.rstrip(b"\r\n")
        if bare == _TRACEBACK:
            self._held += 1
        elif _ENDED_WORKER.match(bare):
            if bare.startswith(b'  File "') and bare.endswith(b"in manager"):
                self._held = max(0, self._held - 1)
        elif not _GREETINGS.match(bare):
            self.flush()
            self._write(text)

    def flush(self) -> None:
        for _ in range(self._held):
            self._write(_TRACEBACK + b"\n")
        self._held = 0


@contextmanager
def filtered_errors() -> Iterator[None]:
    """Processes that are started meanwhile have their standard error filtered for as long as they live."""
    kept = os.dup(_STANDARD_ERROR)
    reading, writing = os.pipe()
    os.dup2(writing, _STANDARD_ERROR)
    os.close(writing)
    threading.Thread(target=_pass_on, args=(reading, os.dup(kept)), name="stderr", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(kept, _STANDARD_ERROR)
        os.close(kept)


def _pass_on(reading: int, writing: int) -> None:
    lines = LineFilter(lambda text: os.write(writing, text))
    with open(reading, "rb") as source:
        for text in source:
            lines.line(text)
    lines.flush()
    os.close(writing)
