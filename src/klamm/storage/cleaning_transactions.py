"""Which batches belong to aborted transactions, and which markers can be removed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from klamm.protocol.types import Buffer
from klamm.records.batch import BatchHeader
from klamm.records.markers import decode_marker
from klamm.storage.engines.segments.txn_index import AbortedEntry


@dataclass(slots=True)
class _Aborted:
    """An aborted transaction whose marker was not reached yet."""

    entry: AbortedEntry
    was_met: bool = False  # a batch of it is still in the log


class TransactionFilter:
    """Tracks transactions while the log is read in order."""

    def __init__(self, aborted: Iterable[AbortedEntry]) -> None:
        self._upcoming = deque(sorted(aborted, key=lambda entry: entry.first_offset))
        self._aborted: dict[int, _Aborted] = {}  # by producer, from first batch to marker
        self._committed: set[int] = set()  # producers with a batch since their last marker
        self._still_needed: list[AbortedEntry] = []

    def on_data(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._begin(header)
        if not header.is_transactional:
            return False
        if aborted := self._aborted.get(header.producer_id):
            aborted.was_met = True
            return True
        self._committed.add(header.producer_id)
        return False

    def on_marker(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether the transaction of a control batch has no batch left in the log.

        An abort that still has batches keeps its entry in the transaction index.
        """
        self._begin(header)
        if not header.record_count:
            return True  # emptied by an earlier pass
        marker = decode_marker(buffer, position)
        if marker is None:
            return False  # not a transaction marker: kept
        if marker.is_commit:
            was_met = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not was_met
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is None or not aborted.was_met:
            return True
        self._still_needed.append(aborted.entry)
        return False

    def take_still_needed(self) -> list[AbortedEntry]:
        """The entries for the transaction index of the segment that was read."""
        needed, self._still_needed = self._still_needed, []
        return needed

    def _begin(self, header: BatchHeader) -> None:
        while self._upcoming and self._upcoming[0].first_offset <= header.last_offset:
            entry = self._upcoming.popleft()
            # One that ended before the first batch read must not affect the producer's later batches.
            if entry.last_offset >= header.base_offset:
                self._aborted[entry.producer_id] = _Aborted(entry)
