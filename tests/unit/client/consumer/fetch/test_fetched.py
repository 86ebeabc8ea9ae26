"""Any fetch, read in any portions, gives the records from the position on, once and in order."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from klamm.client.consumer.fetch.fetched import Fetched
from klamm.client.consumer.settings import ConsumerSettings, parse
from klamm.errors import ProtocolError, RecordTooLargeError
from klamm.protocol.types import TopicPartition
from klamm.records.compression import Codec
from klamm.records.layout import Record
from klamm.records.markers import ControlType, encode_marker
from klamm.records.record import encode_batch

T0 = TopicPartition("t", 0)


def settings(**given: object) -> ConsumerSettings:
    return parse(None, {"bootstrap_servers": "h:1", **given}, 1)[1]


PLAIN = settings()
COMMITTED = settings(isolation_level="read_committed")

# A log: for each batch the offsets it spans, which of them compaction left, and its codec; 0 left: emptied.
batch_shapes = st.tuples(
    st.integers(1, 6), st.sets(st.integers(0, 5), max_size=6), st.sampled_from(list(Codec)), st.booleans()
)


def a_log(shapes: list[tuple[int, set[int], Codec, bool]]) -> tuple[bytes, list[int], int]:
    """Batches one after the other, the offsets of their records, and the end of the log."""
    raw, offsets, base = b"", [], 0
    for span, left, codec, is_marker in shapes:
        if is_marker:
            raw += encode_marker(
                ControlType.COMMIT,
                producer_id=1,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=1,
                base_offset=base,
            )
            base += 1
            continue
        kept = [base + delta for delta in sorted(left) if delta < span]
        records = [Record(offset, 1, None, b"%d" % offset, ()) for offset in kept]
        raw += encode_batch(
            records, codec=codec, base_offset=base, last_offset_delta=span - 1, max_timestamp_ms=1
        )
        offsets += kept
        base += span
    return raw, offsets, base


@given(
    st.lists(batch_shapes, min_size=1, max_size=6),
    st.integers(0, 30),
    st.lists(st.integers(1, 7), min_size=1, max_size=8),
)
def test_portions_of_a_fetch_make_up_the_whole(
    shapes: list[tuple[int, set[int], Codec, bool]], start: int, portions: list[int]
) -> None:
    raw, offsets, end = a_log(shapes)
    fetched = Fetched(T0, start, raw, PLAIN)
    seen: list[int] = []
    turn = 0
    while not fetched.is_drained:
        limit = portions[turn % len(portions)]
        before = fetched.next_offset
        chunks = fetched.read(limit)
        taken = [record.offset for chunk in chunks for record in chunk.records]
        assert len(taken) <= limit
        seen += taken
        assert fetched.next_offset >= before
        assert not taken or fetched.next_offset > taken[-1]
        turn += 1
    assert seen == [offset for offset in offsets if offset >= start]
    assert fetched.next_offset == max(start, end)
    assert fetched.end_offset == end


@given(st.binary(max_size=200))
def test_bytes_that_are_no_batches_never_break_anything_but_the_read(raw: bytes) -> None:
    fetched = Fetched(T0, 0, raw, PLAIN)
    with suppress(ProtocolError, RecordTooLargeError):
        while not fetched.is_drained:
            before = fetched.next_offset
            assert fetched.read(10) or fetched.is_drained or fetched.next_offset > before


def test_two_producers_of_which_one_aborts_in_between() -> None:
    def data(offset: int, producer_id: int) -> bytes:
        return encode_batch(
            [Record(offset, 1, None, b"%d" % offset, ())],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )

    def ended(kind: ControlType, offset: int, producer_id: int) -> bytes:
        return encode_marker(
            kind,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=1,
            base_offset=offset,
        )

    raw = b"".join(
        (
            data(0, 1),
            data(1, 2),
            data(2, 1),
            ended(ControlType.ABORT, 3, 1),
            data(4, 2),
            data(5, 1),
            ended(ControlType.COMMIT, 6, 2),
            ended(ControlType.COMMIT, 7, 1),
        )
    )
    fetched = Fetched(T0, 0, raw, COMMITTED, [(1, 0)])
    chunks = fetched.read(100)
    assert [record.offset for chunk in chunks for record in chunk.records] == [1, 4, 5]
    assert fetched.next_offset == 8
