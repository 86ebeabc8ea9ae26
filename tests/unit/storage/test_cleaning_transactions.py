"""Following transactions through a walk of the log."""

from __future__ import annotations

from klamm.records.batch import parse_header
from klamm.records.markers import ControlType, encode_marker
from klamm.records.record import Record, encode_batch
from klamm.storage.cleaning_transactions import TransactionFilter
from klamm.storage.engines.segments.txn_index import AbortedEntry
from unit.records.samples import ABORT, COMMIT, DATA, TIME_MS

ABORTED = AbortedEntry(4001, 42, 44, 45)


def data(filter_: TransactionFilter, batch: bytes) -> bool:
    return filter_.on_data(parse_header(batch))


def marker(filter_: TransactionFilter, batch: bytes) -> bool:
    return filter_.on_marker(batch, 0, parse_header(batch))


def plain(producer_id: int, offset: int, *, transactional: bool = True) -> bytes:
    return encode_batch(
        [Record(offset, TIME_MS, b"k", b"v")],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )


def test_data_of_an_aborted_transaction_is_known_by_its_producer_and_place() -> None:
    follower = TransactionFilter([ABORTED])
    assert not data(follower, plain(4001, 41, transactional=False))
    assert data(follower, DATA)
    assert not data(follower, plain(7, 43))
    assert not marker(follower, ABORT)
    assert follower.take_still_needed() == [ABORTED]
    assert follower.take_still_needed() == []
    # After the marker the producer begins anew.
    assert not data(follower, plain(4001, 50))


def test_an_abort_that_has_no_data_left_is_not_needed() -> None:
    follower = TransactionFilter([ABORTED])
    assert marker(follower, ABORT)
    assert follower.take_still_needed() == []


def test_a_commit_is_needed_while_it_has_data() -> None:
    follower = TransactionFilter([])
    data(follower, DATA)
    assert not marker(follower, COMMIT)
    assert marker(follower, COMMIT)


def test_a_transaction_that_ended_before_the_walk_condemns_nothing_later() -> None:
    follower = TransactionFilter([ABORTED])
    assert not data(follower, plain(4001, 100))


def test_a_transaction_that_began_before_the_walk_is_still_aborted() -> None:
    follower = TransactionFilter([AbortedEntry(4001, 5, 44, 45)])
    assert data(follower, DATA)
    assert not marker(follower, ABORT)


def test_interleaved_transactions_do_not_touch_each_other() -> None:
    entries = [AbortedEntry(2, 11, 14, 15), AbortedEntry(1, 10, 13, 14)]
    follower = TransactionFilter(entries)
    assert data(follower, plain(1, 10))
    assert data(follower, plain(2, 11))
    assert not data(follower, plain(3, 12))
    for producer_id, offset in ((1, 13), (2, 14)):
        end = encode_marker(
            ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=TIME_MS,
            base_offset=offset,
        )
        assert not marker(follower, end)
    assert follower.take_still_needed() == [entries[1], entries[0]]
