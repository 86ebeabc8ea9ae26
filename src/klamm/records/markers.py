"""Transaction markers: control batches of one record that end a producer's transaction."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer
from klamm.records.batch import parse_header
from klamm.records.record import Record, decode_records, encode_batch

_KEY: Final = Struct(">hh")  # version, type
_VALUE: Final = Struct(">hi")  # version, coordinator epoch
_MARKER_MAX_BYTES: Final = 64 * 1024  # a marker takes 78 bytes; later versions may add some


class ControlType(IntEnum):
    """The type of a control record. Other types belong to Kafka's quorum and are skipped."""

    ABORT = 0
    COMMIT = 1


class EndMarker(NamedTuple):
    """How one producer's transaction ended."""

    control_type: ControlType
    coordinator_epoch: int

    @property
    def is_commit(self) -> bool:
        return self.control_type is ControlType.COMMIT


def encode_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a transaction: 78 bytes, one offset."""
    record = Record(
        offset=base_offset,
        timestamp_ms=timestamp_ms,
        key=_KEY.pack(0, control_type),
        value=_VALUE.pack(0, coordinator_epoch),
    )
    return encode_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def control_type(key: bytes | None) -> ControlType | None:
    """The type in a control record's key; None for an unknown one."""
    if key is None or len(key) < _KEY.size:
        raise DecodeError("invalid control record: expected a key of at least 4 bytes")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise DecodeError(f"a control record's key of version {version}")
    # A later version may append fields: the known ones come first.
    return ControlType(number) if number in (0, 1) else None


def decode_marker(batch: Buffer, position: int = 0) -> EndMarker | None:
    """The marker of this control batch; None when it is not a transaction marker.

    A control batch that the cleaner emptied is not one either.
    """
    header = parse_header(batch, position)
    if not header.is_control:
        raise DecodeError("expected a control batch, found a data batch")
    records = decode_records(batch, position, max_bytes=_MARKER_MAX_BYTES)
    if not records:
        return None
    kind = control_type(records[0].key)
    if kind is None:
        return None
    value = records[0].value
    if value is None or len(value) < _VALUE.size:
        raise DecodeError("invalid marker: expected a value of at least 6 bytes")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise DecodeError(f"a marker's value of version {version}")
    return EndMarker(kind, coordinator_epoch)
