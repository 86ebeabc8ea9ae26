"""Logs in PostgreSQL keep the contract, and what is special to them: the fence, rounds, memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, cast
from uuid import UUID

import pytest
from psycopg import Connection

from klamm.clock import ManualClock
from klamm.protocol.errors import ErrorCode
from klamm.records.markers import ControlType
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.log import PostgresLog
from klamm.storage.engines.postgresql.retention import delete_expired
from klamm.storage.engines.postgresql.rounds import PostgresTicket
from klamm.storage.log import AbortedTransaction, EngineLog, LogError, LogStore, MustLoadError
from klamm.storage.topic_config import TopicConfig
from postgresql import PostgresServer
from unit.storage.engine_contract import A
from unit.storage.log_contract import LogContract
from unit.storage.log_samples import (
    TOPIC_ID,
    T,
    a_batch,
    append,
    append_marker,
    headers,
    read_all,
    sync,
)
from unit.storage.postgresql_world import TestingStore, bare, clock, cluster, open_log, other, store

__all__ = ["clock", "cluster", "other", "store"]  # fixtures


class TestPostgresLogs(LogContract):
    """The contract. Tests about segments are replaced by what holds for chunks."""

    @pytest.fixture
    def clock(self, clock: ManualClock) -> ManualClock:
        return clock

    @pytest.fixture
    def store(self, store: TestingStore) -> TestingStore:
        return store

    @pytest.fixture
    def filled(self, open_log: Callable[..., EngineLog]) -> EngineLog:
        log = open_log(TopicConfig(segment_bytes=1500, retention_bytes=0, file_delete_delay_ms=10))
        for count in range(1, 60):
            append(log, a_batch(count % 4 + 1))
        sync(log)
        return log

    def test_rolling_puts_new_batches_into_a_new_segment(self, open_log: Callable[..., EngineLog]) -> None:
        """Chunks are at most as large as a segment."""
        log = open_log(TopicConfig(segment_bytes=1024))
        for _ in range(30):
            append(log)
        sync(log)
        data = log.read(0, until_offset=log.high_watermark, max_bytes=10_000, at_least_one=True)
        assert headers([data])[-1].last_offset == 29

    def test_a_flush_is_due_at_once_or_by_the_topics_own_rules(
        self, open_log: Callable[..., EngineLog]
    ) -> None:
        log = open_log(TopicConfig(flush_messages=3))
        assert not log.sync_is_due(0)
        append(log)
        assert log.sync_is_due(0)
        sync(log)
        assert not log.sync_is_due(0)

    def test_an_abort_in_a_later_segment_is_found_from_the_first(
        self, open_log: Callable[..., EngineLog]
    ) -> None:
        log = open_log(TopicConfig(segment_bytes=1024))
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        for _ in range(30):
            append(log)
        append_marker(log, ControlType.ABORT, producer_id=A)
        sync(log)
        assert log.aborted_transactions(0, log.last_stable_offset) == [AbortedTransaction(A, 0)]

    def test_a_slice_outlives_its_segment(self, store: LogStore, filled: EngineLog) -> None:
        found = filled.slice(0, until_offset=filled.high_watermark, max_bytes=1000, at_least_one=True)
        assert not isinstance(found, bytes)
        expected = found.read(0, len(found))
        assert filled.delete_old_segments(0, T) > 1
        assert filled.log_start_offset > 0
        assert found.read(0, len(found)) == expected

    def test_a_slice_that_was_cut_off_says_so(self, filled: EngineLog) -> None:
        """It keeps what it has: in memory nothing is overwritten."""
        last = filled.high_watermark - 1
        found = filled.slice(last, until_offset=last + 1, max_bytes=1, at_least_one=True)
        assert not isinstance(found, bytes)
        expected = found.read(0, len(found))
        filled.truncate(last)
        assert found.read(0, len(found)) == expected

    def test_a_flush_that_began_before_a_cut_means_nothing_after_it(self, log: EngineLog) -> None:
        """A round names the end that it expects: after the cut it matches no log, and is resolved."""
        append(log, a_batch(5))
        sync(log)
        append(log, a_batch(5))
        ticket = log.start_sync()
        assert ticket is not None
        log.truncate(5)
        append(log, a_batch(5))
        log.finish_sync(ticket)
        assert log.is_dirty
        log.fail_sync(ticket)
        assert log.log_end_offset == 10

    def test_a_flush_that_runs_later_keeps_files_that_the_log_has_closed_meanwhile(
        self, log: EngineLog
    ) -> None:
        """Closing flushes; the older ticket finds another end, and nothing is appended twice."""
        append(log, a_batch(5))
        ticket = log.start_sync()
        assert ticket is not None
        log.close()
        with pytest.raises(LogError) as refused:
            ticket.run()
        assert refused.value.error_code is ErrorCode.not_leader_or_follower

    def test_readable_bytes_tells_what_a_read_would_give(self, open_log: Callable[..., EngineLog]) -> None:
        log = open_log()
        for _ in range(30):
            append(log)
        in_memory = range(31)
        for offset in in_memory:
            data = log.read(offset, until_offset=28, max_bytes=10_000, at_least_one=True)
            assert log.readable_bytes(offset, 28, 10_000) == len(data)
        assert log.readable_bytes(0, 28, 10) == 10
        sync(log)
        # What has to be loaded is not measured.
        expected = 10_000 if not log.in_active_segment(0) else len(read_all(log)[0]) * 28
        assert log.readable_bytes(0, 28, 10_000) == expected

    def test_the_end_of_a_slice_is_above_all_it_holds_and_not_far_from_it(self, filled: EngineLog) -> None:
        until = filled.high_watermark
        for offset, max_bytes, expected in ((0, 1 << 20, until), (0, 1, 2), (until - 1, 1, until)):
            found = filled.slice(offset, until_offset=until, max_bytes=max_bytes, at_least_one=True)
            assert not isinstance(found, bytes)
            assert found.end_offset() == expected

    def test_logs_are_found_deleted_and_made_anew(  # type: ignore[override]
        self, store: TestingStore, open_log: Callable[..., EngineLog], clock: ManualClock
    ) -> None:
        log = open_log()
        append(log)
        sync(log)
        store.delete("t", 0)
        with pytest.raises(LogError):
            append(log)
        again = store.open("t", b"\2" * 16, 0, leader_epoch=0, config=TopicConfig())
        assert again.log_end_offset == 0
        append(again)
        sync(again)
        assert store.rows("SELECT count(*) FROM chunk") == [(2,)]
        while (remove := store.start_housekeeping(clock.now_ms())) is not None:
            remove()
        assert store.rows("SELECT count(*) FROM chunk") == [(1,)]
        assert store.rows("SELECT count(*) FROM deleted_partition") == [(0,)]
        assert len(read_all(again)) == 1


def test_an_append_of_an_older_epoch_takes_no_effect(store: TestingStore, other: TestingStore) -> None:
    log = open_log(store)
    append(log)
    sync(log)
    append(log, a_batch(value=b"zombie"))
    leader = open_log(other, leader_epoch=1)
    ticket = log.start_sync()
    assert ticket is not None
    with pytest.raises(LogError) as fenced:
        ticket.run()
    assert fenced.value.error_code is ErrorCode.not_leader_or_follower
    log.fail_sync(ticket)
    assert log.log_end_offset == log.high_watermark == 1
    append(leader, a_batch(value=b"leader"))
    sync(leader)
    assert len(read_all(leader)) == 2
    assert store.rows("SELECT base_offset, leader_epoch FROM chunk ORDER BY 1") == [(0, 0), (1, 1)]


def test_a_round_appends_to_all_logs_but_those_that_are_fenced(
    store: TestingStore, other: TestingStore
) -> None:
    store.lead("t", TOPIC_ID, 2, 0)
    logs = [open_log(store, partition=each) for each in range(3)]
    for log in logs:
        append(log, a_batch(2))
    open_log(other, leader_epoch=1, partition=1)
    tickets = [bare(log).start_sync() for log in logs]
    assert all(isinstance(ticket, PostgresTicket) for ticket in tickets)
    rounds = store._rounds
    outcomes = rounds.run([ticket for ticket in tickets if ticket is not None])
    assert [outcome is None for outcome in outcomes] == [True, False, True]
    assert rounds.rounds == 1
    assert store.rows("SELECT end_offset FROM log ORDER BY partition_id") == [(2,), (0,), (2,)]


def test_a_lost_connection_is_resolved_by_the_next_epoch(
    store: TestingStore, postgres: PostgresServer
) -> None:
    # Given a log with a durable batch and two that are not
    log = open_log(store)
    append(log)
    sync(log)
    append(log, a_batch(2))
    first = log.start_sync()
    append(log, a_batch(3))
    assert first is not None
    # When the connection breaks before the statement, which the client cannot know
    with store._writing.use() as connection:
        pid = connection.info.backend_pid
    postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
    with pytest.raises(LogError) as unknown:
        first.run()
    # Then the epoch was raised, and what was found is what is durable
    assert unknown.value.error_code is ErrorCode.not_leader_or_follower
    assert "epoch 1 from offset 1" in str(unknown.value)
    log.fail_sync(first)
    assert log.high_watermark == log.log_end_offset == 1
    store.abandon("t", 0)
    again = open_log(store, leader_epoch=1)
    assert len(read_all(again)) == 1


def test_what_was_committed_before_the_connection_broke_is_found(
    store: TestingStore, cluster: PostgresCluster
) -> None:
    # scenario 57
    log = open_log(store)
    append(log, a_batch(2))
    ticket = bare(log).start_sync()
    assert isinstance(ticket, PostgresTicket)
    ticket.run()
    # As if the answer of that statement was lost
    (failure,) = store._rounds._resolve([ticket], "connection lost").values()
    assert isinstance(failure, LogError)
    log.fail_sync(ticket)
    assert log.high_watermark == log.log_end_offset == 2
    assert cluster.topics()["t"].partitions[0].leader_epoch == 1


def test_a_database_that_lost_commits_stops_the_log(
    store: TestingStore, caplog: pytest.LogCaptureFixture
) -> None:
    # scenario 59
    log = open_log(store)
    append(log, a_batch(5))
    sync(log)
    with store._reading[0].use() as connection:
        connection.execute("DELETE FROM chunk")
        connection.execute("UPDATE log SET end_offset = 0")
    append(log)
    ticket = log.start_sync()
    assert ticket is not None
    with pytest.raises(LogError) as stopped:
        ticket.run()
    assert stopped.value.error_code is ErrorCode.not_leader_or_follower
    assert "lost or gained commits" in caplog.text


def test_a_consumer_at_the_tail_needs_no_statement(cluster: PostgresCluster, clock: ManualClock) -> None:
    store = TestingStore(cluster, clock=clock)
    log = bare(open_log(store))
    for _ in range(10):
        append(log)
        sync(log)
        log.read(log.log_end_offset - 1, until_offset=log.high_watermark, max_bytes=100, at_least_one=True)
    store.close()


def test_older_batches_are_loaded_and_then_read_from_memory(
    cluster: PostgresCluster, clock: ManualClock
) -> None:
    store = TestingStore(cluster, clock=clock, tail_bytes=2000)
    log = open_log(store)
    for _ in range(50):
        append(log, a_batch(value=bytes(100)))
        sync(log)
    raw = bare(log)
    with pytest.raises(MustLoadError) as missing:
        raw.read(3, until_offset=50, max_bytes=1000, at_least_one=True)
    missing.value.load()
    found = raw.read(3, until_offset=50, max_bytes=1000, at_least_one=True)
    assert [header.base_offset for header in headers([found])] == [3, 4, 5, 6, 7]
    assert len(read_all(log)) == 50
    store.close()


def test_a_load_that_fails_is_an_error_of_the_partition(cluster: PostgresCluster, clock: ManualClock) -> None:
    store = TestingStore(cluster, clock=clock, tail_bytes=0)
    log = open_log(store)
    append(log)
    sync(log)
    store._reading[bare(log).partition_id % 2].close()
    with pytest.raises(LogError) as failed:
        log.read(0, until_offset=1, max_bytes=1000, at_least_one=True)
    assert failed.value.error_code is ErrorCode.kafka_storage_error
    store.close()


def test_opening_waits_for_a_database_that_cannot_be_reached(
    cluster: PostgresCluster, clock: ManualClock, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    store = TestingStore(cluster, clock=clock)
    store.lead("t", TOPIC_ID, 0, 0)
    with store._reading[0].use() as connection:
        pid = connection.info.backend_pid
    postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
    assert open_log(store).log_end_offset == 0
    assert "opening logs waits for PostgreSQL" in caplog.text
    store.close()


def test_a_chunk_of_many_batches_is_read_from_any_of_them(
    store: TestingStore,
) -> None:
    # scenario 64: a chunk of 200 batches, fetch from the 100th
    log = open_log(store)
    for _ in range(200):
        append(log)
    sync(log)
    assert store.rows("SELECT count(*) FROM chunk") == [(1,)]
    found = log.read(100, until_offset=200, max_bytes=1, at_least_one=True)
    assert [header.base_offset for header in headers([found])] == [100]


def test_a_large_batch_is_a_chunk_of_its_own(store: TestingStore) -> None:
    # scenario 65
    log = open_log(store)
    sent = [a_batch(value=b"a"), a_batch(value=bytes(range(256)) * 4096), a_batch(value=b"b")]
    for batch in sent:
        append(log, batch)
    sync(log)
    assert store.rows("SELECT base_offset FROM chunk ORDER BY 1") == [(0,), (1,), (2,)]
    assert [batch[16:] for batch in read_all(log)] == [batch[16:] for batch in sent]


def test_producers_come_from_the_snapshot_and_the_chunks_above_it(
    store: TestingStore, clock: ManualClock
) -> None:
    # scenario 68
    log = open_log(store)
    for sequence in range(5):
        append(log, a_batch(producer_id=A, producer_epoch=0, sequence=sequence))
        sync(log)
    append(log, a_batch(producer_id=7, producer_epoch=0, sequence=0, transactional=True))
    append_marker(log, ControlType.ABORT, producer_id=7)
    sync(log)
    snapshot = bare(log).snapshot(if_due=False)
    assert snapshot is not None
    store.save_snapshots([snapshot])
    with store._reading[0].use() as connection:
        connection.execute("UPDATE chunk SET headers = '' WHERE last_offset < 7")  # must not be read
    append(log, a_batch(producer_id=A, producer_epoch=0, sequence=5))
    append(log, a_batch(producer_id=8, producer_epoch=0, sequence=0, transactional=True))
    append_marker(log, ControlType.ABORT, producer_id=8)
    sync(log)
    producers = log.producers()
    store.abandon("t", 0)  # as after kill -9
    again = open_log(store, leader_epoch=1)
    assert again.producers() == producers
    assert again.aborted_transactions(0, 10) == [AbortedTransaction(7, 5), AbortedTransaction(8, 8)]
    assert append(again, a_batch(producer_id=A, producer_epoch=0, sequence=5)).is_duplicate


def test_a_log_start_is_saved_and_only_by_its_leader(store: TestingStore, other: TestingStore) -> None:
    log = open_log(store)
    for _ in range(5):
        append(log)
    sync(log)
    log.delete_records(3)
    store.start_saving_log_starts()()
    leader = open_log(other, leader_epoch=1)
    assert leader.log_start_offset == 3
    log.delete_records(4)
    with pytest.raises(LogError) as refused:
        store.start_saving_log_starts()()
    assert refused.value.error_code is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize("is_empty", [True, False])
def test_what_is_appended_while_retention_looks_for_old_records_stays(
    store: TestingStore, is_empty: bool
) -> None:
    log = open_log(store)
    if not is_empty:
        append(log, a_batch(timestamps_ms=[T - 2000]))
        sync(log)
    with store._reading[0].use() as connection:

        class Appending:
            """A connection on which a record arrives after each statement about chunks."""

            def execute(self, statement: str, parameters: Any) -> Any:
                result = connection.execute(statement, parameters)
                if statement.startswith("SELECT"):
                    append(log, a_batch(timestamps_ms=[T]))
                    sync(log)
                return result

        expired = delete_expired(
            cast("Connection[Any]", Appending()), log.partition_id, 0, 0, TopicConfig(retention_ms=1000), T
        )
    assert expired.start_offset == (0 if is_empty else 1)
    assert store.rows("SELECT min(base_offset), max(last_offset) + 1 FROM chunk") == [
        (expired.start_offset, log.log_end_offset)
    ]


def test_all_partitions_of_a_topic_are_loaded_together(store: TestingStore) -> None:
    store.lead("t", TOPIC_ID, 9, 0)
    loads = []
    real = store._load
    store._load = lambda *arguments: (loads.append(arguments), real(*arguments))[1]  # type: ignore[method-assign, func-returns-value]
    for partition in range(10):
        open_log(store, partition=partition)
    assert len(loads) == 1


def test_the_database_keeps_kafkas_bytes(store: TestingStore) -> None:
    log = open_log(store)
    batch = a_batch(3)
    append(log, batch)
    sync(log)
    ((records, found),) = store.rows("SELECT c.records, t.topic_id FROM chunk c, topic t")
    assert bytes(records)[16:] == batch[16:]
    assert found == UUID(bytes=TOPIC_ID)


def load(log: PostgresLog, key: Hashable) -> None:
    """Look something up, as a worker does for somebody who asked."""
    with pytest.raises(MustLoadError) as missing:
        log._asked_for(key, lambda _: "found")
    missing.value.load()


class WatchedKey:
    """A key of a lookup: something happens between the first look at it and the second one."""

    def __init__(self) -> None:
        self.happens: Callable[[], object] | None = None
        self._looks = 0

    def __hash__(self) -> int:
        if self.happens is not None:
            self._looks += 1
            if self._looks == 2:
                happens, self.happens = self.happens, None
                happens()
        return 1


def test_a_result_that_is_asked_for_is_not_evicted_meanwhile(store: TestingStore) -> None:
    log = bare(open_log(store))
    loads: list[Callable[[], None]] = []
    for number in range(200):
        with pytest.raises(MustLoadError) as missing:
            log._asked_for(number, lambda _: None)
        loads.append(missing.value.load)
    # Given a result, and workers that load many others while it is looked for
    key = WatchedKey()
    load(log, key)
    key.happens = lambda: [each() for each in loads]
    # When it is asked for
    # Then it is there
    assert log._asked_for(key, lambda _: None) == "found"


def test_results_that_nobody_asks_for_again_are_forgotten(store: TestingStore) -> None:
    log = bare(open_log(store))
    for number in range(1_000):
        load(log, number)
    assert len(log._found) <= 101
    assert log._asked_for(999, lambda _: None) == "found"


def test_what_is_not_durable_is_limited_for_all_logs_of_a_store_together(
    cluster: PostgresCluster, clock: ManualClock
) -> None:
    store = TestingStore(cluster, clock=clock, max_pending_bytes=4_000)
    first, second = (
        open_log(store, partition=0),
        store.open("u", bytes(15) + b"u", 0, leader_epoch=0, config=TopicConfig()),
    )
    # Given as much as is allowed that is not durable
    batch = a_batch(value=bytes(500))
    for log in (first, second, first, second):
        append(log, batch)
    ends = first.log_end_offset, second.log_end_offset
    # When more is appended, to any log of the store
    with pytest.raises(LogError) as refused:
        append(second, batch)
    # Then it is refused with an error that clients retry, also what coordinators append
    assert refused.value.error_code is ErrorCode.not_enough_replicas
    assert "4000 bytes" in str(refused.value)
    with pytest.raises(LogError) as own:
        bare(first).append_own(batch, 0)
    assert own.value.error_code is ErrorCode.not_enough_replicas
    assert first.log_end_offset == ends[0]
    # And taken again when the backlog is durable, or gone
    sync(second)
    assert append(first, batch).base_offset == ends[0]
    first.truncate(0)
    store.abandon("u", 0)
    assert store.backlog.size_bytes == 0
    store.close()


def test_a_refused_batch_of_a_producer_is_not_replaced_by_the_one_behind_it(
    cluster: PostgresCluster, clock: ManualClock
) -> None:
    store = TestingStore(cluster, clock=clock, max_pending_bytes=1)
    log = open_log(store)
    append(log)
    with pytest.raises(LogError):
        append(log, a_batch(producer_id=A, producer_epoch=0, sequence=0))
    sync(log)
    with pytest.raises(LogError) as overtaking:
        append(log, a_batch(producer_id=A, producer_epoch=0, sequence=1))
    assert overtaking.value.error_code is ErrorCode.out_of_order_sequence_number
    assert append(log, a_batch(producer_id=A, producer_epoch=0, sequence=0)).base_offset == 1
    store.close()
