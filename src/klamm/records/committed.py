"""Which batches of a fetch a reader may see: no markers, and nothing that was aborted.

A broker names the aborted transactions of a fetch by producer and first offset; where one ended, the
marker in the data itself says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer
from klamm.records.batch import BatchHeader, crc_is_valid, iter_headers
from klamm.records.markers import ControlType, decode_marker


class CommittedFilter:
    """Follows one fetch, batch by batch in offset order, and tells which of them to hand out."""

    __slots__ = ("_aborting", "_pending")

    def __init__(self, aborted: Iterable[tuple[int, int]] = ()) -> None:
        """`aborted` holds (producer id, first offset) of each transaction, in any order."""
        # Brokers list them by marker, readers need them by start; the last is the next to begin.
        self._pending = sorted(((first, producer_id) for producer_id, first in aborted), reverse=True)
        self._aborting: set[int] = set()

    def admits(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether the records of this batch are for the reader."""
        while self._pending and self._pending[-1][0] <= header.last_offset:
            self._aborting.add(self._pending.pop()[1])
        if header.is_control:
            self._end(buffer, position, header)
            return False
        return not (header.is_transactional and header.producer_id in self._aborting)

    def _end(self, buffer: Buffer, position: int, header: BatchHeader) -> None:
        if header.producer_id not in self._aborting:
            return
        marker = decode_marker(buffer, position)
        if marker is not None and marker.control_type is ControlType.ABORT:
            self._aborting.discard(header.producer_id)


def visible_batches(
    buffer: Buffer,
    *,
    first_offset: int = 0,
    aborted: Iterable[tuple[int, int]] = (),
    check_crcs: bool = True,
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the whole batches of a fetch that hold records for the reader.

    Batches below `first_offset` come along because a broker answers in whole batches; they are left out.
    Without `aborted` everything but markers is seen, as read_uncommitted wants it.
    """
    committed = CommittedFilter(aborted)
    for position, header in iter_headers(buffer):
        if check_crcs and not crc_is_valid(buffer, position, header):
            raise DecodeError(f"the batch at offset {header.base_offset} does not match its checksum")
        if committed.admits(buffer, position, header) and header.last_offset >= first_offset:
            yield position, header
