"""Markers of transactions as records, for those who look into logs: what a consumer leaves out otherwise.

`consumer.MarkerReader` gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

from klamm.client.consumer.records import ConsumerRecord
from klamm.protocol.errors import DecodeError
from klamm.records.layout import BatchHeader
from klamm.records.markers import control_type
from klamm.records.record import Record

_HEADER: Final = "klamm.marker"  # of a record that is none
_PRODUCER: Final = Struct(">qh")
_VALUE: Final = Struct(">hi")  # version, coordinator epoch


def as_record(record: Record, header: BatchHeader) -> Record:
    """A control record with what its batch says of the producer."""
    producer = _PRODUCER.pack(header.producer_id, header.producer_epoch)
    return record._replace(headers=((_HEADER, producer),))


def marker_of(record: ConsumerRecord) -> Mapping[str, Any] | None:
    """What a marker says; None for a record. Raises DecodeError."""
    if not record.headers or record.headers[0][0] != _HEADER or record.headers[0][1] is None:
        return None
    producer_id, producer_epoch = _PRODUCER.unpack(record.headers[0][1])
    kind = control_type(record.key)
    if kind is None or record.value is None or len(record.value) < _VALUE.size:
        raise DecodeError("a control record of an unknown kind")
    return {
        "marker": kind.name.lower(),
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "coordinator_epoch": _VALUE.unpack_from(record.value)[1],
    }
