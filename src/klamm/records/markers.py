"""Transaction markers: control batches of one record that end a producer's transaction."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer
from klamm.records.batch import parse_header
from klamm.records.core import encode_one, stamped
from klamm.records.layout import (
    CONTROL_BIT,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
)
from klamm.records.record import decode_records

_KEY: Final = Struct(">hh")  # version, type
_VALUE: Final = Struct(">hi")  # version, coordinator epoch
_MARKER_MAX_BYTES: Final = 64 * 1024  # a marker takes 78 bytes; later versions may add some
_KEYS: Final = (_KEY.pack(0, 0), _KEY.pack(0, 1))  # of an abort, of a commit
_ATTRIBUTES: Final = TRANSACTIONAL_BIT | CONTROL_BIT
# The one record of a marker begins with its length and ends, behind the value, with the number of headers.
_BEFORE_KEY: Final = b"\x20\x00\x00\x00\x08"
_VALUE_LENGTH: Final = 0x0C
# A whole marker: length, magic, attributes and number of records, and the record.
_MARKER: Final = Struct(">8xi4xb4xh34xi5shhBhiB")
_FORM: Final = [
    _MARKER.size - LENGTH_OVERHEAD_BYTES, MAGIC, _ATTRIBUTES, 1, _BEFORE_KEY, 0,
]  # fmt: skip
_REST_OF_FORM: Final = (_VALUE_LENGTH, 0, 0)


class ControlType(IntEnum):
    """The type of a control record. Other types belong to Kafka's quorum and are skipped."""

    ABORT = 0
    COMMIT = 1


_COMMIT: Final = ControlType.COMMIT  # an enum's member is looked up slowly
_TYPES: Final = (ControlType.ABORT, _COMMIT)


class EndMarker(NamedTuple):
    """How one producer's transaction ended."""

    control_type: ControlType
    coordinator_epoch: int

    @property
    def is_commit(self) -> bool:
        return self.control_type is _COMMIT


# The marker that was made last: it is appended to several logs, each of which decodes it. Replaced whole:
# other threads make markers, too.
_last_made: tuple[bytes | None, EndMarker | None] = (None, None)


def encode_marker(
    control_type: ControlType,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a transaction: 78 bytes, one offset."""
    global _last_made  # noqa: PLW0603 - a cache of one
    batch = encode_one(
        _KEYS[control_type],
        _VALUE.pack(0, coordinator_epoch),
        timestamp_ms,
        producer_id,
        producer_epoch,
        _ATTRIBUTES,
    )
    if base_offset != 0 or leader_epoch != -1:
        return stamped(batch, base_offset, leader_epoch)
    _last_made = batch, EndMarker(control_type, coordinator_epoch)
    return batch


def _plain_marker(batch: Buffer, position: int) -> EndMarker | None:
    """The marker of a batch as `encode_marker` makes it; None if it is of any other form."""
    if len(batch) - position < _MARKER.size:
        return None
    *form, number, value_length, value_version, coordinator_epoch, headers = _MARKER.unpack_from(
        batch, position
    )
    if form != _FORM or (value_length, value_version, headers) != _REST_OF_FORM or number not in (0, 1):
        return None
    return EndMarker(_TYPES[number], coordinator_epoch)


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
    last, made = _last_made
    if batch is last and position == 0:
        return made
    marker = _plain_marker(batch, position)
    if marker is not None:
        return marker
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
