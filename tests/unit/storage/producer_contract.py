"""What every log must know of producers and their transactions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.records.markers import ControlType
from klamm.storage.log import (
    AbortedTransaction,
    AppendOrigin,
    EngineLog,
    LogError,
)
from klamm.storage.topic_config import TopicConfig
from unit.storage.engine_contract import A, B, EngineContract
from unit.storage.log_samples import (
    T,
    a_batch,
    append,
    append_marker,
    sync,
)

MAX_SEQUENCE = 2_147_483_647


class ProducerContract(EngineContract):
    """Sequences, epochs, open transactions and their markers."""

    def test_sequences_go_on_and_a_repeat_is_found_without_being_written(self, log: EngineLog) -> None:
        # scenarios 1, 2 of transactions
        first = append(log, a_batch(3, producer_id=A, producer_epoch=0, sequence=0))
        second = append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=3))
        repeat = append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=3))
        assert (first.base_offset, second.base_offset) == (0, 3)
        assert repeat == second._replace(is_duplicate=True, log_append_time_ms=T + 1)
        assert log.log_end_offset == 5

    def test_five_batches_are_remembered_and_not_six(self, log: EngineLog) -> None:
        # scenarios 3, 4 of transactions
        batches = [a_batch(2, producer_id=A, producer_epoch=0, sequence=2 * n) for n in range(6)]
        for batch in batches[:5]:
            append(log, batch)
        assert [append(log, batch).base_offset for batch in batches[:5]] == [0, 2, 4, 6, 8]
        append(log, batches[5])
        with pytest.raises(LogError) as refused:
            append(log, batches[0])
        assert refused.value.error_code is ErrorCode.out_of_order_sequence_number
        assert append(log, batches[1]).is_duplicate

    @pytest.mark.parametrize(
        ("count", "sequence"),
        [(2, 0), (2, 1), (1, 2), (3, 1), (3, 4), (3, MAX_SEQUENCE)],
        ids=["start of it", "end of it", "its last", "overlap", "gap", "before"],
    )
    def test_what_is_neither_next_nor_an_exact_repeat_is_out_of_order(
        self, log: EngineLog, count: int, sequence: int
    ) -> None:
        # scenarios 5, 6 of transactions
        append(log, a_batch(3, producer_id=A, producer_epoch=0, sequence=0))
        with pytest.raises(LogError) as refused:
            append(log, a_batch(count, producer_id=A, producer_epoch=0, sequence=sequence))
        assert refused.value.error_code is ErrorCode.out_of_order_sequence_number
        assert log.log_end_offset == 3
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=3))

    def test_sequences_wrap_to_zero(self, log: EngineLog) -> None:
        # scenarios 7, 8 of transactions
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=MAX_SEQUENCE))
        with pytest.raises(LogError):
            append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=1))
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0))

        across = a_batch(4, producer_id=B, producer_epoch=0, sequence=MAX_SEQUENCE - 1)
        written = append(log, across)
        assert append(log, across).base_offset == written.base_offset
        append(log, a_batch(1, producer_id=B, producer_epoch=0, sequence=2))

    def test_epochs_fence_the_older_and_begin_at_zero(self, log: EngineLog) -> None:
        # scenarios 9, 10 of transactions
        append(log, a_batch(1, producer_id=A, producer_epoch=3, sequence=0))
        for epoch, sequence, expected in [
            (2, 1, ErrorCode.invalid_producer_epoch),
            (4, 7, ErrorCode.out_of_order_sequence_number),
        ]:
            with pytest.raises(LogError) as refused:
                append(log, a_batch(1, producer_id=A, producer_epoch=epoch, sequence=sequence))
            assert refused.value.error_code is expected
        append(log, a_batch(1, producer_id=A, producer_epoch=4, sequence=0))
        with pytest.raises(LogError) as refused:
            append(log, a_batch(1, producer_id=A, producer_epoch=3, sequence=0))
        assert refused.value.error_code is ErrorCode.invalid_producer_epoch, "the window went with its epoch"

    def test_a_producer_never_seen_may_begin_anywhere(self, log: EngineLog) -> None:
        # scenario 11 of transactions
        assert append(log, a_batch(1, producer_id=A, producer_epoch=9, sequence=17)).base_offset == 0

    def test_equal_content_is_two_records(self, log: EngineLog) -> None:
        # scenario 21 of transactions
        assert [append(log, a_batch()).base_offset, append(log, a_batch()).base_offset] == [0, 1]

    def test_a_silent_producer_is_forgotten_but_not_within_a_transaction(self, log: EngineLog) -> None:
        # scenarios 12, 13 of transactions
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0))
        append(log, a_batch(1, producer_id=B, producer_epoch=0, sequence=0, transactional=True))
        assert log.expire_producers(T + 999, 1000) == 0
        assert log.expire_producers(T + 1000, 1000) == 1
        assert [status.producer_id for status in log.producers()] == [B]
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=5))

    def test_coordinators_are_not_asked_for_sequences(self, log: EngineLog) -> None:
        commit = a_batch(1, producer_id=A, producer_epoch=1, sequence=0, transactional=True)
        offsets = [append(log, commit, origin=AppendOrigin.COORDINATOR).base_offset for _ in range(3)]
        assert offsets == [0, 1, 2]
        stale = a_batch(1, producer_id=A, producer_epoch=0, sequence=0, transactional=True)
        with pytest.raises(LogError) as refused:
            append(log, stale, origin=AppendOrigin.COORDINATOR)
        assert refused.value.error_code is ErrorCode.invalid_producer_epoch

    def test_a_duplicate_tells_its_append_time_on_any_topic(self, log: EngineLog) -> None:
        plain = append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0))
        assert plain.log_append_time_ms == -1
        stamped = a_batch(1, producer_id=A, producer_epoch=0, sequence=1, append_time_ms=T + 77)
        assert append(log, stamped).log_append_time_ms == T + 77
        assert append(log, stamped).log_append_time_ms == T + 77

    # -- transactions

    def test_an_open_transaction_holds_the_stable_offset_until_its_marker_counts(
        self, log: EngineLog
    ) -> None:
        # scenarios 64, 65, 71 of transactions
        append(log)
        append(log, a_batch(3, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        append(log)
        sync(log)
        assert (log.last_stable_offset, log.high_watermark) == (1, 5)
        append_marker(log, ControlType.COMMIT, producer_id=A)
        if self.flush_on_commit:
            assert log.last_stable_offset == 1, "a marker that a crash can take back decides nothing"
        sync(log)
        assert log.last_stable_offset == log.high_watermark == 6
        assert log.aborted_transactions(0, 6) == []

    def test_interleaved_transactions_hold_at_the_oldest_open_one(self, log: EngineLog) -> None:
        # scenarios 67, 69 of transactions
        append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        append(log, a_batch(2, producer_id=B, producer_epoch=0, sequence=0, transactional=True))
        append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=2, transactional=True))
        append_marker(log, ControlType.ABORT, producer_id=A)
        sync(log)
        assert log.last_stable_offset == 2
        append_marker(log, ControlType.COMMIT, producer_id=B)
        sync(log)
        assert log.last_stable_offset == 8
        assert log.aborted_transactions(0, 8) == [AbortedTransaction(A, 0)]
        assert log.aborted_transactions(5, 8) == [AbortedTransaction(A, 0)], "also from its middle"
        assert log.aborted_transactions(7, 8) == []

    def test_an_abort_in_a_later_segment_is_found_from_the_first(
        self, open_log: Callable[..., EngineLog]
    ) -> None:
        # scenario 70 of transactions
        log = open_log(TopicConfig(segment_bytes=1024))
        sequence = 0
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        while log.in_active_segment(0) or log.log_end_offset < 30:
            append(log)
            sequence += 1
        append_marker(log, ControlType.ABORT, producer_id=A)
        sync(log)
        assert log.aborted_transactions(0, log.last_stable_offset) == [AbortedTransaction(A, 0)]

    def test_inside_its_transaction_a_producer_sends_nothing_else(self, log: EngineLog) -> None:
        # scenario 63 of transactions
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        with pytest.raises(LogError) as refused:
            append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=1))
        assert refused.value.error_code is ErrorCode.invalid_txn_state

    def test_markers_fence_by_producer_and_coordinator_epoch(self, log: EngineLog) -> None:
        # scenario 86 of transactions
        append_marker(log, ControlType.ABORT, producer_id=A, producer_epoch=5, coordinator_epoch=2)
        assert log.producers()[0].producer_epoch == 5, "known from the marker alone"
        for epoch, coordinator_epoch, expected in [
            (4, 2, ErrorCode.invalid_producer_epoch),
            (5, 1, ErrorCode.transaction_coordinator_fenced),
        ]:
            with pytest.raises(LogError) as refused:
                append_marker(
                    log,
                    ControlType.ABORT,
                    producer_id=A,
                    producer_epoch=epoch,
                    coordinator_epoch=coordinator_epoch,
                )
            assert refused.value.error_code is expected
        append_marker(log, ControlType.ABORT, producer_id=A, producer_epoch=5, coordinator_epoch=2)
        assert log.log_end_offset == 2, "repeats are harmless"
        with pytest.raises(LogError):
            append(log, a_batch(1, producer_id=A, producer_epoch=5, sequence=3, transactional=True))
        append(log, a_batch(1, producer_id=A, producer_epoch=5, sequence=0, transactional=True))

    def test_a_late_marker_cannot_end_the_next_transaction_where_each_end_raises_the_epoch(
        self, log: EngineLog
    ) -> None:
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        append_marker(log, ControlType.COMMIT, producer_id=A, producer_epoch=1, marker_bumps_epoch=True)
        # The same marker again is harmless as long as nothing is open, and refused afterwards.
        append_marker(log, ControlType.COMMIT, producer_id=A, producer_epoch=1, marker_bumps_epoch=True)
        append(log, a_batch(1, producer_id=A, producer_epoch=1, sequence=0, transactional=True))
        with pytest.raises(LogError) as refused:
            append_marker(log, ControlType.COMMIT, producer_id=A, producer_epoch=1, marker_bumps_epoch=True)
        assert refused.value.error_code is ErrorCode.invalid_producer_epoch

    def test_producers_are_described_with_their_open_transactions(self, log: EngineLog) -> None:
        append(log)
        append(log, a_batch(2, producer_id=A, producer_epoch=1, sequence=0, transactional=True))
        (status,) = log.producers()
        assert (status.producer_id, status.producer_epoch, status.last_sequence) == (A, 1, 1)
        assert (status.last_timestamp_ms, status.coordinator_epoch) == (T + 1, -1)
        assert status.current_txn_start_offset == 1
        append_marker(log, ControlType.COMMIT, producer_id=A, producer_epoch=1, coordinator_epoch=4)
        (status,) = log.producers()
        assert (status.last_sequence, status.coordinator_epoch, status.current_txn_start_offset) == (1, 4, -1)
        append_marker(log, ControlType.COMMIT, producer_id=A, producer_epoch=2, coordinator_epoch=4)
        assert log.producers()[0].last_sequence == -1
