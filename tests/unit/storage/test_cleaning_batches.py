"""Compaction of one batch: what stays, what goes, and in which bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from klamm.protocol.errors import DecodeError
from klamm.records.batch import crc_is_valid, parse_header
from klamm.records.compression import Codec, TooLarge
from klamm.records.record import Record, decode_records, encode_batch
from klamm.storage.cleaning_batches import BatchCleaner, CleaningRules, LiveProducer, emptied
from klamm.storage.cleaning_map import KeyOffsetMap
from klamm.storage.cleaning_transactions import TransactionFilter
from klamm.storage.engines.segments.txn_index import AbortedEntry
from unit.records.samples import ABORT, COMMIT, DATA, EMPTIED, TIME_MS, TOMBSTONE

DAY_MS = 86_400_000


def a_map(*entries: tuple[bytes, int], last_offset: int = 1000) -> KeyOffsetMap:
    mapped = KeyOffsetMap(1 << 20)
    mapped.add([Record(offset, 0, key, b"") for key, offset in entries], 0)
    mapped.advance(last_offset)
    return mapped


def cleaned(
    *batches: bytes,
    mapped: KeyOffsetMap | None = None,
    timestamp_ms: int = TIME_MS,
    live: Mapping[int, LiveProducer] | None = None,
    aborted: Sequence[AbortedEntry] = (),
    max_decompressed_bytes: int = 1 << 20,
) -> list[bytes | None]:
    rules = CleaningRules(
        timestamp_ms=timestamp_ms,
        delete_retention_ms=DAY_MS,
        live_producers=live or {},
        max_decompressed_bytes=max_decompressed_bytes,
    )
    cleaner = BatchCleaner(rules, a_map() if mapped is None else mapped, TransactionFilter(aborted))
    results = [cleaner.clean(batch, 0, parse_header(batch)) for batch in batches]
    for result in results:
        assert result is None or crc_is_valid(result, 0, parse_header(result))
    return [None if result is None else bytes(result) for result in results]


def a_batch(*pairs: tuple[bytes | None, bytes | None], base_offset: int = 42, codec: int = 0) -> bytes:
    records = [
        Record(base_offset + index, TIME_MS + index, key, value) for index, (key, value) in enumerate(pairs)
    ]
    return encode_batch(
        records,
        codec=codec,
        base_offset=base_offset,
        leader_epoch=5,
        producer_id=4001,
        producer_epoch=3,
        base_sequence=7,
    )


ONE_TOMBSTONE = encode_batch([Record(42, TIME_MS, b"k1", None)], base_offset=42, leader_epoch=5)


def test_a_batch_of_latest_records_is_copied_byte_for_byte() -> None:
    batch = a_batch((b"a", b"1"), (b"b", b"2"), codec=Codec.GZIP)
    assert cleaned(batch, mapped=a_map((b"a", 42), (b"b", 43))) == [batch]


def test_a_superseded_record_leaves_a_batch_that_keeps_its_ends() -> None:
    # Given a, b, c in one batch, and a later b
    for codec in Codec:
        batch = a_batch((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), codec=codec)
        # When it is cleaned
        (result,) = cleaned(batch, mapped=a_map((b"b", 99)))
        # Then a and c are left at their offsets, and the header says what it said
        assert result is not None
        before, after = parse_header(batch), parse_header(result)
        assert decode_records(result) == [
            Record(42, TIME_MS, b"a", b"1"),
            Record(44, TIME_MS + 2, b"c", b"3"),
        ]
        for field in (
            "base_offset", "last_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence",
            "last_sequence", "codec", "attributes",
        ):  # fmt: skip
            assert getattr(after, field) == getattr(before, field), field


def test_records_without_a_key_go() -> None:
    (result,) = cleaned(a_batch((None, b"1"), (b"b", b"2")))
    assert result is not None
    assert [record.key for record in decode_records(result)] == [b"b"]
    assert cleaned(a_batch((None, b"1"))) == [None]


def test_records_behind_the_last_mapped_one_are_left_alone() -> None:
    mapped = a_map((b"a", 43), last_offset=43)
    (result,) = cleaned(a_batch((b"a", b"1"), (None, b"2"), (None, b"3"), (b"a", b"4")), mapped=mapped)
    assert result is not None
    assert [record.offset for record in decode_records(result)] == [44, 45]
    whole = a_batch((None, b"2"), base_offset=44)
    assert cleaned(whole, mapped=a_map(last_offset=43)) == [whole]


def test_a_tombstone_gets_its_horizon_when_it_is_first_met() -> None:
    assert cleaned(ONE_TOMBSTONE) == [TOMBSTONE]


@pytest.mark.parametrize(
    ("timestamp_ms", "stays"), [(TIME_MS, True), (TIME_MS + DAY_MS - 1, True), (TIME_MS + DAY_MS, False)]
)
def test_a_tombstone_goes_once_its_horizon_has_passed(timestamp_ms: int, stays: bool) -> None:
    expected = TOMBSTONE if stays else None
    assert cleaned(TOMBSTONE, timestamp_ms=timestamp_ms) == [expected]


def test_a_horizon_stays_what_it_was_when_other_records_go() -> None:
    batch = a_batch((b"a", b"1"), (b"b", None), (b"c", b"3"))
    (first,) = cleaned(batch)
    assert first is not None
    (second,) = cleaned(first, timestamp_ms=TIME_MS + 1000, mapped=a_map((b"a", 99)))
    assert second is not None
    assert parse_header(second).delete_horizon_ms == TIME_MS + DAY_MS
    assert decode_records(second) == [
        Record(43, TIME_MS + 1, b"b", None),
        Record(44, TIME_MS + 2, b"c", b"3"),
    ]
    (third,) = cleaned(second, timestamp_ms=TIME_MS + DAY_MS)
    assert third is not None
    assert decode_records(third) == [Record(44, TIME_MS + 2, b"c", b"3")]


def test_append_time_survives_a_rewrite() -> None:
    records = [Record(42, TIME_MS, b"a", b"1"), Record(43, TIME_MS, b"b", b"2")]
    batch = encode_batch(records, base_offset=42, append_time_ms=TIME_MS + 9)
    (result,) = cleaned(batch, mapped=a_map((b"a", 99)))
    assert result is not None
    assert decode_records(result) == [Record(43, TIME_MS + 9, b"b", b"2")]
    assert parse_header(emptied(parse_header(batch))).timestamp_type is parse_header(batch).timestamp_type


def test_an_emptied_batch_of_a_live_producer_leaves_its_header() -> None:
    live = {4001: LiveProducer(3, (43,))}
    mapped = a_map((b"k1", 99))
    assert cleaned(DATA, mapped=mapped, live=live) == [EMPTIED]
    assert cleaned(EMPTIED, live=live) == [EMPTIED]
    assert len(EMPTIED) == 61


def test_an_emptied_batch_goes_when_nobody_needs_it() -> None:
    mapped = a_map((b"k1", 99))
    assert cleaned(DATA, mapped=mapped) == [None]
    assert cleaned(DATA, mapped=mapped, live={4001: LiveProducer(3, (50,))}) == [None]
    assert cleaned(EMPTIED) == [None]


def test_aborted_data_goes_at_once_whatever_its_keys() -> None:
    aborted = [AbortedEntry(4001, 42, 44, 45)]
    assert cleaned(DATA, ABORT, aborted=aborted) == [None, ABORT]
    live = {4001: LiveProducer(3, (43,))}
    assert cleaned(DATA, ABORT, aborted=aborted, live=live) == [EMPTIED, ABORT]


def test_a_marker_stays_while_data_of_its_transaction_does() -> None:
    assert cleaned(DATA, COMMIT, timestamp_ms=TIME_MS + 99 * DAY_MS)[1] == COMMIT
    assert cleaned(EMPTIED, COMMIT, live={4001: LiveProducer(3, (43,))})[1] == COMMIT


@pytest.mark.parametrize("marker", [COMMIT, ABORT])
def test_a_marker_alone_gets_a_horizon_and_goes_after_it(marker: bytes) -> None:
    (dated,) = cleaned(marker)
    assert dated is not None
    header = parse_header(dated)
    assert header.delete_horizon_ms == TIME_MS + DAY_MS
    assert header.is_control
    assert header.is_transactional
    assert decode_records(dated) == decode_records(marker)
    assert cleaned(dated, timestamp_ms=TIME_MS + DAY_MS - 1) == [dated]
    assert cleaned(dated, timestamp_ms=TIME_MS + DAY_MS) == [None]
    header_alone = emptied(header)
    assert (len(header_alone), parse_header(header_alone).is_control) == (61, True)
    assert cleaned(header_alone) == [None]


def test_a_marker_that_alone_tells_a_live_producers_epoch_stays_whole() -> None:
    (dated,) = cleaned(COMMIT)
    assert dated is not None
    later = TIME_MS + 2 * DAY_MS
    assert cleaned(dated, timestamp_ms=later, live={4001: LiveProducer(3, ())}) == [dated]
    assert cleaned(dated, timestamp_ms=later, live={4001: LiveProducer(4, ())}) == [None]
    assert cleaned(dated, timestamp_ms=later, live={4001: LiveProducer(3, (43,))}) == [None]


def test_a_control_batch_of_another_kind_is_not_ours_to_remove() -> None:
    other = encode_batch(
        [Record(44, TIME_MS, bytes.fromhex("00000005"), b"")],
        base_offset=44,
        control=True,
        transactional=True,
    )
    assert cleaned(other, timestamp_ms=TIME_MS + 99 * DAY_MS) == [other]


def test_a_batch_that_cannot_be_read_is_an_error() -> None:
    batch = bytearray(a_batch((b"a", b"1")))
    batch[-3] = 0x7F
    with pytest.raises(DecodeError):
        cleaned(bytes(batch))
    bomb = a_batch((b"a", bytes(100_000)), codec=Codec.GZIP)
    with pytest.raises(TooLarge):
        cleaned(bomb, max_decompressed_bytes=1000)
