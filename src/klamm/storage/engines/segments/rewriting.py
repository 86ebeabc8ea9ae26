"""Writing again what a failed fdatasync may have lost.

The system reports the failure once, and may have marked the pages clean: a later fdatasync succeeds without
them. What is durable in the journal must reach its segment before the journal lets it go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from klamm.storage.engines.segments.journal_reading import JournaledBatch
from klamm.storage.engines.segments.segment import Segment
from klamm.storage.engines.segments.sync import Flushing


def write_again(
    flushing: Flushing, segments: Sequence[Segment], journaled: Callable[[], Sequence[JournaledBatch]]
) -> None:
    """Write everything again that is not known to be on disk in its segment.

    What is durable comes from the journal: the page cache may have lost it. Raises OSError.
    """
    first, position = flushing.recovery_place
    if flushing.durable_offset > flushing.recovery_point:
        data = b"".join(
            batch.data
            for batch in journaled()
            if flushing.recovery_point <= batch.header.base_offset < flushing.durable_offset
        )
        durable_segment, durable_position = flushing.durable_place
        if durable_segment is not first or durable_position - position != len(data):
            raise OSError(
                f"{first.log_path}: {len(data)} bytes in the journal, expected {durable_position - position}"
            )
        first.write_again(position, data)
        position = durable_position
    for segment in segments:
        if segment.base_offset >= first.base_offset:
            start = position if segment is first else 0
            segment.write_out()
            segment.write_again(start, segment.read(start, segment.written_bytes - start))
            segment.is_suspect = False
