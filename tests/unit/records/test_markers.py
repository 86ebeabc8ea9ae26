"""How a transaction ended, in 78 bytes."""

from __future__ import annotations

import pytest

from klamm.protocol.errors import DecodeError
from klamm.records.markers import ControlType, EndMarker, control_type, decode_marker, encode_marker
from klamm.records.record import Record, encode_batch
from unit.records.samples import ABORT, COMMIT, DATA, TIME_MS


@pytest.mark.parametrize(("kind", "expected"), [(ControlType.COMMIT, COMMIT), (ControlType.ABORT, ABORT)])
def test_a_marker_is_the_bytes_that_kafka_writes(kind: ControlType, expected: bytes) -> None:
    marker = encode_marker(
        kind,
        producer_id=4001,
        producer_epoch=3,
        coordinator_epoch=7,
        timestamp_ms=TIME_MS + 9,
        base_offset=44,
        leader_epoch=5,
    )
    assert marker == expected
    assert decode_marker(marker) == EndMarker(kind, 7)
    assert EndMarker(kind, 7).is_commit is (kind is ControlType.COMMIT)


def a_control_batch(key: bytes | None, value: bytes | None) -> bytes:
    return encode_batch([Record(0, TIME_MS, key, value)], transactional=True, control=True)


def test_a_longer_or_newer_marker_is_read_by_what_is_known_of_it() -> None:
    batch = a_control_batch(bytes.fromhex("00030001ffff"), bytes.fromhex("000400000009aaaa"))
    assert decode_marker(batch) == EndMarker(ControlType.COMMIT, 9)


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6, 99])
def test_other_control_records_say_nothing_of_transactions(number: int) -> None:
    key = bytes(2) + number.to_bytes(2, "big")
    assert control_type(key) is None
    assert decode_marker(a_control_batch(key, None)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, bytes(6)),
        (bytes(3), bytes(6)),
        (bytes.fromhex("ffff0000"), bytes(6)),
        (bytes(4), None),
        (bytes(4), bytes(5)),
        (bytes(4), bytes.fromhex("ffff00000000")),
    ],
)
def test_a_marker_too_short_or_of_a_negative_version_is_corrupt(
    key: bytes | None, value: bytes | None
) -> None:
    with pytest.raises(DecodeError):
        decode_marker(a_control_batch(key, value))


def test_data_is_no_marker() -> None:
    with pytest.raises(DecodeError):
        decode_marker(DATA)


def test_an_emptied_control_batch_says_nothing() -> None:
    emptied = encode_batch(
        [], last_offset_delta=0, max_timestamp_ms=TIME_MS, transactional=True, control=True
    )
    assert decode_marker(emptied) is None


def test_what_was_made_last_is_told_from_everything_else() -> None:
    former = encode_marker(ControlType.COMMIT, 7, 0, 3, TIME_MS)
    last = encode_marker(ControlType.ABORT, 7, 1, 4, TIME_MS)
    moved = encode_marker(ControlType.COMMIT, 7, 2, 5, TIME_MS, base_offset=9)
    for batch, expected in (
        (last, EndMarker(ControlType.ABORT, 4)),
        (bytes(bytearray(last)), EndMarker(ControlType.ABORT, 4)),
        (former, EndMarker(ControlType.COMMIT, 3)),
        (moved, EndMarker(ControlType.COMMIT, 5)),
    ):
        assert decode_marker(batch) == expected
    assert decode_marker(last + former, len(last)) == EndMarker(ControlType.COMMIT, 3)
