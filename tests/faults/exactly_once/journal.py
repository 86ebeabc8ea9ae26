"""What a worker did, in a file that survives kill -9 of the worker.

A line is one JSON object. Lines about a transaction carry its name (`txn`), unique in the run:

    sends    values that it is about to send, before it sends them
    ends     "commit" or "abort", before it asks for that
    ended    the same, after it was acknowledged
    decided  "commit" or "abort": the decision of a two-phase commit, which is carried out whatever happens

A reader writes `seen`: a list of [partition, offset, value]. `note` is for people.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


class Journal:
    """Appends lines, each in one write: the kernel has it when `write` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, **line: Any) -> None:
        data = (json.dumps(line) + "\n").encode()
        assert os.write(self._file, data) == len(data)

    def sends(self, transaction: str, values: Iterable[str]) -> None:
        self.write(txn=transaction, sends=list(values))

    def ends(self, transaction: str, how: str) -> None:
        self.write(txn=transaction, ends=how)

    def ended(self, transaction: str, how: str) -> None:
        self.write(txn=transaction, ended=how)


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Its lines, oldest first."""
    if path.exists():
        for line in path.read_text().splitlines():
            yield json.loads(line)
