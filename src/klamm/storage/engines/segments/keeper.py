"""What a log needs from the store it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from klamm.storage.engines.segments.journal_reading import JournaledBatch
    from klamm.storage.engines.segments.log import SegmentLog
    from klamm.storage.engines.segments.reserve import DiskReserve
    from klamm.storage.log import Work


class LogKeeper(Protocol):
    """What a log needs from the store it belongs to."""

    reserve: DiskReserve

    def recovery_point_fell(self, log: SegmentLog) -> None:
        """Lower a log's recovery point, durably, before the log is cut. Raises OSError."""
        ...

    def remove_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove files once a delay has passed."""
        ...

    def cutting(self, log: SegmentLog, to_offset: int) -> None:
        """A log is about to be cut below what is durable. Raises OSError."""
        ...

    def journaled(self, log: SegmentLog) -> Sequence[JournaledBatch]:
        """What the journal holds of a log. Raises OSError."""
        ...

    def log_closed(self, log: SegmentLog, *, is_clean: bool) -> Work:
        """A log was closed; when clean, all of it is on disk. Work that writes that down: raises OSError."""
        ...
