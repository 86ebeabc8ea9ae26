"""Transactions from begin to end, out of the steps that their coordinator wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from klamm.spark.decode.record_tables import Row

_ENDED: Final = ("CompleteCommit", "CompleteAbort")


class TransactionSpans:
    """The transactions of one partition of the log: by id and start, with their last state."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], Row] = {}
        self._most: dict[tuple[str, int], int] = {}
        self._ends: dict[tuple[str, int], int] = {}

    def add(self, row: Row) -> None:
        """A row of `transactions`; rows come in order."""
        if row["start_ts"] is None or row["state"] in (None, "Empty"):
            return
        key = row["transactional_id"], row["start_ts"]
        self._last[key] = row
        self._most[key] = max(self._most.get(key, 0), len(row["partitions"]))
        if row["state"] in _ENDED and row["update_ts"] is not None:
            self._ends[key] = max(self._ends.get(key, row["update_ts"]), row["update_ts"])

    def rows(self, as_of_ms: int) -> Iterator[Row]:
        """All of them, as they are at an instant."""
        for key, last in self._last.items():
            end_us = self._ends.get(key)
            start_ms = last["start_ts"] // 1000
            yield {
                "transactional_id": last["transactional_id"],
                "start_ts": last["start_ts"],
                "producer_id": last["producer_id"],
                "producer_epoch": last["producer_epoch"],
                "timeout_ms": last["timeout_ms"],
                "state": last["state"],
                "partition_count": self._most[key],
                "end_ts": end_us,
                "duration_ms": (as_of_ms if end_us is None else end_us // 1000) - start_ms,
                "is_open": end_us is None,
            }
