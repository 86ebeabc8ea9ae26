"""What a read_committed reader sees of a fetch."""

from __future__ import annotations

import pytest

from klamm.protocol.errors import DecodeError
from klamm.records.committed import visible_batches
from klamm.records.markers import ControlType, encode_marker
from klamm.records.record import Record, encode_batch
from unit.records.samples import TIME_MS


def data(offset: int, producer_id: int = -1, *, count: int = 1, transactional: bool = True) -> bytes:
    return encode_batch(
        [Record(offset + i, TIME_MS, None, b"v") for i in range(count)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional and producer_id >= 0,
    )


def marker(offset: int, producer_id: int, kind: ControlType) -> bytes:
    return encode_marker(
        kind,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=TIME_MS,
        base_offset=offset,
    )


def seen(batches: list[bytes], aborted: tuple[tuple[int, int], ...] = (), first_offset: int = 0) -> list[int]:
    walked = visible_batches(b"".join(batches), first_offset=first_offset, aborted=aborted)
    return [header.base_offset for _, header in walked]


ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def test_markers_are_never_handed_out() -> None:
    assert seen([data(0, 1), marker(1, 1, COMMIT), data(2)]) == [0, 2]


def test_an_aborted_transaction_is_hidden_until_its_marker() -> None:
    log = [data(0, 1), data(1, 1), marker(2, 1, ABORT), data(3, 1), marker(4, 1, COMMIT)]
    assert seen(log, ((1, 0),)) == [3]


def test_other_producers_are_seen_between() -> None:
    log = [data(0, 1), data(1, 2), data(2), data(3, 1), marker(4, 1, ABORT), marker(5, 2, COMMIT)]
    assert seen(log, ((1, 0),)) == [1, 2]


def test_a_transaction_is_hidden_from_its_first_offset_on() -> None:
    log = [data(0, 1), marker(1, 1, COMMIT), data(2, 1), marker(3, 1, ABORT)]
    assert seen(log, ((1, 2),)) == [0]


def test_transactions_may_be_listed_in_any_order() -> None:
    log = [data(0, 1), marker(1, 1, ABORT), data(2, 1), marker(3, 1, ABORT), data(4, 1)]
    assert seen(log, ((1, 2), (1, 0))) == [4]


def test_what_a_hidden_producer_writes_outside_transactions_is_seen() -> None:
    assert seen([data(0, 1), data(1, 1, transactional=False)], ((1, 0),)) == [1]


def test_without_a_list_aborted_records_are_seen() -> None:
    assert seen([data(0, 1), marker(1, 1, ABORT)]) == [0]


def test_a_transaction_that_began_before_the_fetch_is_hidden_too() -> None:
    assert seen([data(10, 1), marker(11, 1, ABORT), data(12)], ((1, 3),)) == [12]


def test_batches_before_the_position_are_left_out_but_followed() -> None:
    log = [data(0, 1, count=3), marker(3, 1, ABORT), data(4, 1)]
    assert seen(log, ((1, 0),), first_offset=2) == [4]
    assert seen([data(0, count=3), data(3)], first_offset=2) == [0, 3]
    assert seen([data(0, count=3), data(3)], first_offset=3) == [3]


def test_a_damaged_batch_ends_the_walk_with_an_error() -> None:
    broken = bytearray(data(0) + data(1))
    broken[-1] ^= 1
    walk = visible_batches(broken)
    assert next(walk)[1].base_offset == 0
    with pytest.raises(DecodeError, match="checksum"):
        next(walk)
    assert len(list(visible_batches(broken, check_crcs=False))) == 2
