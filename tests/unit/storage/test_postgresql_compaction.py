"""Compaction of logs on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from klamm.clock import ManualClock
from klamm.records.markers import ControlType
from klamm.records.record import Record, decode_records, encode_batch
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.store import CompactionSettings
from klamm.storage.log import EngineLog
from klamm.storage.topic_config import TopicConfig
from unit.storage.engine_contract import A
from unit.storage.log_samples import (
    TOPIC_ID,
    T,
    append,
    append_marker,
    headers,
    read_all,
    sync,
)
from unit.storage.postgresql_world import TestingStore, clock, cluster, open_log, other

__all__ = ["clock", "cluster", "other"]  # fixtures


COMPACTED = TopicConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=1024, min_cleanable_dirty_ratio=0.1
)


def keyed(key: bytes, value: bytes | None, **options: Any) -> bytes:
    return encode_batch([Record(0, T, key, value)], **options)


@pytest.fixture
def cleaning(cluster: PostgresCluster, clock: ManualClock) -> Iterator[TestingStore]:
    settings = CompactionSettings(
        backoff_ms=1000, dedupe_buffer_bytes=1 << 20, max_decompressed_bytes=1 << 20
    )
    store = TestingStore(cluster, clock=clock, tail_bytes=0, cleaner=settings)
    yield store
    store.close()


def clean(store: TestingStore, clock: ManualClock) -> None:
    """Let housekeeping run until it finds nothing more to do."""
    for _ in range(5):
        clock.advance(2000)
        if (work := store.start_housekeeping(clock.now_ms())) is not None:
            work()


def values(log: EngineLog) -> dict[int, tuple[bytes | None, bytes | None]]:
    return {
        record.offset: (record.key, record.value)
        for batch in read_all(log)
        for record in decode_records(batch)
    }


def test_compaction_keeps_the_last_value_of_each_key_at_its_offset(
    cleaning: TestingStore, clock: ManualClock
) -> None:
    log = cleaning.open("t", TOPIC_ID, 0, leader_epoch=0, config=COMPACTED)
    for number in range(60):
        append(log, keyed(b"k%d" % (number % 3), b"v%d" % number))
        if number % 7 == 0:
            sync(log)
    append(log, keyed(b"k0", None))
    sync(log)
    size_bytes = log.size_bytes
    clean(cleaning, clock)
    assert values(log) == {58: (b"k1", b"v58"), 59: (b"k2", b"v59"), 60: (b"k0", None)}
    assert log.size_bytes < size_bytes
    assert cleaning.rows("SELECT size_bytes, cleaned_offset, end_offset FROM log") == [
        (log.size_bytes, 61, 61)
    ]
    # Offsets in the gap lead to the next record, and appends go on behind the old end.
    found = log.read(5, until_offset=61, max_bytes=1, at_least_one=True)
    assert headers([found])[0].base_offset == 58
    assert append(log, keyed(b"k1", b"new")).base_offset == 61


def test_compaction_removes_what_was_aborted_and_spares_open_transactions(
    cleaning: TestingStore, clock: ManualClock
) -> None:
    log = cleaning.open("t", TOPIC_ID, 0, leader_epoch=0, config=COMPACTED)
    append(log, keyed(b"k", b"committed" * 100))
    append(
        log,
        keyed(b"k", b"aborted" * 100, producer_id=A, producer_epoch=0, base_sequence=0, transactional=True),
    )
    append_marker(log, ControlType.ABORT, producer_id=A)
    sync(log)
    append(log, keyed(b"k", b"open", producer_id=A, producer_epoch=0, base_sequence=1, transactional=True))
    sync(log)
    clean(cleaning, clock)
    found = values(log)
    assert (found[0], found[3]) == ((b"k", b"committed" * 100), (b"k", b"open"))
    assert 1 not in found
    producers = log.producers()
    cleaning.abandon("t", 0)
    again = cleaning.open("t", TOPIC_ID, 0, leader_epoch=1, config=COMPACTED)
    assert again.producers() == producers


def test_a_former_leader_compacts_nothing(
    cleaning: TestingStore, other: TestingStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    log = cleaning.open("t", TOPIC_ID, 0, leader_epoch=0, config=COMPACTED)
    for number in range(60):
        append(log, keyed(b"k", b"v%d" % number))
    sync(log)
    leader = open_log(other, leader_epoch=1)
    clean(cleaning, clock)
    assert "does not lead the log any more" in caplog.text
    assert len(values(leader)) == 60


def test_a_deleted_key_goes_after_its_time(cleaning: TestingStore, clock: ManualClock) -> None:
    config = replace(COMPACTED, delete_retention_ms=100)
    log = cleaning.open("t", TOPIC_ID, 0, leader_epoch=0, config=config)
    append(log, keyed(b"k", None))
    append(log, keyed(b"x", bytes(900)))
    append(log, keyed(b"y", bytes(900)))
    sync(log)
    clean(cleaning, clock)
    assert (b"k", None) in values(log).values(), "readers have delete.retention.ms to see it"
    for key in (b"y", b"z", b"y"):
        append(log, keyed(key, bytes(900)))
    sync(log)
    clean(cleaning, clock)
    assert (b"k", None) not in values(log).values()
