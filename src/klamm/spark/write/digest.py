"""A digest of the rows that a task writes: the same rows in the same order have the same one.

How Spark divides rows into Arrow batches does not matter, nor does the partition that a row without key or
partition is sent to: what is compared is what the query gave to the sink.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_COLUMNS: Final = ("key", "value", "headers", "topic", "partition")
_SIZE: Final = 16


class RowDigest:
    """Adds up rows as they pass."""

    def __init__(self) -> None:
        # Lengths and contents apart: each is one run over all batches, wherever a batch ends.
        self._parts: dict[tuple[str, str], Any] = {}

    def over(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same batches; each is added before it goes on."""
        for batch in batches:
            self.add(batch)
            yield batch

    def add(self, batch: Any) -> None:
        for name in _COLUMNS:
            if name in batch.schema.names:
                self._add(name, batch.column(name))

    def hexdigest(self) -> str:
        whole = hashlib.blake2b(digest_size=_SIZE)
        for name in sorted(self._parts):
            whole.update(f"{name};".encode() + self._parts[name].digest())
        return whole.hexdigest()

    def _add(self, name: str, column: Any) -> None:
        kind = column.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            self._numbers(name, pc.list_value_length(column))
            for field, values in zip(("key", "value"), column.flatten().flatten(), strict=True):
                self._add(f"{name}.{field}", values)
        elif pa.types.is_integer(kind):
            self._numbers(name, column)
        elif not pa.types.is_null(kind):
            if kind not in (pa.binary(), pa.string()):
                column = column.cast(pa.binary())
            self._numbers(name, pc.binary_length(column))
            self._bytes(name, column.drop_null() if column.null_count else column)

    def _numbers(self, name: str, column: Any) -> None:
        """Null is a number of its own."""
        filled = pc.fill_null(column.cast(pa.int64()), -(2**63))
        self._update(name, "numbers", memoryview(filled.buffers()[1])[filled.offset * 8 :][: len(filled) * 8])

    def _bytes(self, name: str, column: Any) -> None:
        if not len(column):
            return
        _, offsets, data = column.buffers()
        if data is None:
            return  # all of them are empty
        bounds = memoryview(offsets).cast("i")
        start, end = bounds[column.offset], bounds[column.offset + len(column)]
        self._update(name, "bytes", memoryview(data)[start:end])

    def _update(self, name: str, part: str, data: memoryview) -> None:
        found = self._parts.get((name, part))
        if found is None:
            found = self._parts[name, part] = hashlib.blake2b(digest_size=_SIZE)
        found.update(data)
