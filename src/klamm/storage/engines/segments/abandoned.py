"""Logs that were closed without writing anything, because another broker leads them.

What only the journal has of them stays there until their next leader has it in the segments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from klamm.protocol.types import TopicPartition
from klamm.storage.engines.segments.journal import Journal

if TYPE_CHECKING:
    from klamm.storage.engines.segments.log import SegmentLog


class AbandonedLogs:
    """The abandoned logs of a broker that are still in its journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._logs: dict[TopicPartition, list[SegmentLog]] = {}

    def __contains__(self, place: TopicPartition) -> bool:
        return place in self._logs

    def add(self, place: TopicPartition, log: SegmentLog) -> None:
        if self._journal.has(log):
            self._logs.setdefault(place, []).append(log)

    def replayed(self, place: TopicPartition) -> None:
        """This broker leads the partition again, and has what was left in the segments."""
        for log in self._logs.pop(place, ()):
            self._journal.forget(log)

    def free(self, epoch_of: Callable[[TopicPartition], int | None]) -> None:
        """Free the journal of logs that have a later leader epoch now; None: they are deleted."""
        for place, logs in list(self._logs.items()):
            leader_epoch = epoch_of(place)
            kept = [log for log in logs if leader_epoch is not None and log.leader_epoch >= leader_epoch]
            for log in logs:
                if log not in kept:
                    self._journal.forget(log)
            if kept:
                self._logs[place] = kept
            else:
                del self._logs[place]
