"""Which batches of a fetch are visible to a reader: no markers, and nothing that was aborted.

A broker lists the aborted transactions of a fetch by producer and first offset; each ends at its marker in
the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer
from klamm.records.batch import BatchHeader, crc_is_valid, iter_headers
from klamm.records.markers import ControlType, decode_marker


class CommittedFilter:
    """Decides which batches of one fetch to return, batch by batch in offset order."""

    __slots__ = ("_aborting", "_pending")

    def __init__(self, aborted: Iterable[tuple[int, int]] = ()) -> None:
        """`aborted` holds (producer id, first offset) of each transaction, in any order."""
        # Brokers list them by marker, readers need them by first offset; the last is the next to begin.
        self._pending = sorted(((first, producer_id) for producer_id, first in aborted), reverse=True)
        self._aborting: set[int] = set()

    def admits(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether the records of this batch are visible."""
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

    Batches below `first_offset` are skipped: a broker returns whole batches. Without `aborted` everything
    but markers is visible, as for read_uncommitted.
    """
    committed = CommittedFilter(aborted)
    for position, header in iter_headers(buffer):
        if check_crcs and not crc_is_valid(buffer, position, header):
            raise DecodeError(f"checksum mismatch in the batch at offset {header.base_offset}")
        if committed.admits(buffer, position, header) and header.last_offset >= first_offset:
            yield position, header
