"""Logs that several brokers of one process share: one leader at a time writes."""

from __future__ import annotations

import pytest

from klamm.clock import ManualClock
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.storage.engines.shared_logs import SharedLogs
from klamm.storage.log import EngineLog, LogError, LogStore
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_contract import LogContract
from unit.storage.log_samples import TOPIC_ID, T, a_batch
from unit.storage.test_memory_logs import memory_store


class TestSharedLogs(LogContract):
    """One broker's view keeps the contract of a store."""

    flush_on_commit = False

    @pytest.fixture
    def store(self, clock: ManualClock) -> LogStore:
        return SharedLogs(memory_store(clock, flush_on_commit=False)).join()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(timestamp_ms=T)


@pytest.fixture
def shared(clock: ManualClock) -> SharedLogs:
    return SharedLogs(memory_store(clock, flush_on_commit=True))


def opened(store: LogStore, epoch: int, topic_id: bytes = TOPIC_ID) -> EngineLog:
    return store.open("t", topic_id, 0, leader_epoch=epoch, config=TopicConfig())


def append(log: EngineLog) -> int:
    return log.append(a_batch(), now_ms=0, timestamp_ms=T).base_offset


def test_the_next_leader_sees_what_was_written_and_the_former_one_cannot_append(shared: SharedLogs) -> None:
    first, second = shared.join(), shared.join()
    old = opened(first, 0)
    assert append(old) == 0
    new = opened(second, 1)
    assert new.high_watermark == old.high_watermark == 1, "the former leader may acknowledge what is durable"
    with pytest.raises(LogError) as refusal:
        append(old)
    assert refusal.value.error_code is ErrorCode.not_leader_or_follower
    assert append(new) == 1


def test_a_log_is_not_opened_at_an_epoch_that_another_broker_has_or_had(shared: SharedLogs) -> None:
    first, second = shared.join(), shared.join()
    opened(first, 3)
    for epoch in (2, 3):
        with pytest.raises(LogError) as refusal:
            opened(second, epoch)
        assert refusal.value.error_code is ErrorCode.fenced_leader_epoch
    first.abandon("t", 0)
    with pytest.raises(LogError):
        opened(second, 2)
    opened(second, 4)


def test_a_former_leader_that_learns_of_it_late_disturbs_nothing(shared: SharedLogs) -> None:
    first, second = shared.join(), shared.join()
    opened(first, 0)
    log = opened(second, 1)
    first.abandon("t", 0)
    first.delete("t", 0)
    assert append(log) == 0
    second.abandon("t", 0)
    assert opened(first, 2).log_end_offset == 1


def test_a_log_start_that_was_raised_moves_with_the_log(shared: SharedLogs) -> None:
    first, second = shared.join(), shared.join()
    log = opened(first, 0)
    append(log)
    append(log)
    ticket = log.start_sync()
    assert ticket is not None
    ticket.run()
    log.finish_sync(ticket)
    log.delete_records(1)
    assert opened(second, 1).log_start_offset == 1


def test_a_broker_that_stops_closes_its_own_logs_only(shared: SharedLogs) -> None:
    first, second = shared.join(), shared.join()
    log = opened(second, 0)
    append(log)
    first.close()
    assert append(log) == 1
    second.close()
    assert shared.owner(TopicPartition("t", 0)) is None
    assert opened(shared.join(), 1).high_watermark == 2
