"""Records that do not depend on each other, such as many tombstones, in batches that the log accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from klamm.coordinator.runtime.log import AppendRefusedError
from klamm.protocol.errors import ErrorCode

RECORDS_AT_ONCE: Final = 1_000  # per batch; fewer where they are too large for one
TOO_LARGE: Final = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})


def append_in_parts(records: Sequence[Any], append: Callable[[Sequence[Any]], None]) -> None:
    """Append all records, in as many batches as that takes. Raises AppendRefusedError."""
    first, size = 0, RECORDS_AT_ONCE
    while first < len(records):
        part = records[first : first + size]
        try:
            append(part)
        except AppendRefusedError as refused:
            if len(part) == 1 or refused.error_code not in TOO_LARGE:
                raise
            size = len(part) // 2
        else:
            first += len(part)
