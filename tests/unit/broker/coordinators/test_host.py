"""The host of coordinators, with a coordinator that knows nothing of groups."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from internals.jar import Jar
from klamm.broker.cluster.topic_names import EVENTS_TOPIC, TRANSACTIONS_TOPIC
from klamm.broker.coordinators.host import CoordinatorHost
from klamm.broker.coordinators.logs import PartitionCoordinatorLog
from klamm.broker.coordinators.topic import CoordinatorTopic
from klamm.broker.net.context import HeldResponse
from klamm.broker.partitions.registry import Partition
from klamm.coordinator.runtime.log import AppendRefusedError, LogUnavailableError
from klamm.coordinator.runtime.shard import Shard, ShardStatus
from klamm.protocol.errors import ErrorCode
from klamm.records.batch import iter_headers
from klamm.records.record import decode_records
from klamm.storage.engines.simulated_disk import FailingOperation
from klamm.storage.log import AppendOrigin
from unit.broker.coordinators.ledger import ANYONE, Add, Ledger, LedgerMachine, Published, Sum


class Books(CoordinatorHost[Ledger]):
    """A second coordinator of a broker, on a topic that groups do not use."""

    def __init__(self, jar: Jar) -> None:
        services = jar.services
        topic = CoordinatorTopic(services, TRANSACTIONS_TOPIC)
        super().__init__(
            services.loop,
            services.clock,
            lambda host: Ledger(topic.name, host),
            events=services.events,
        )
        self.topic = topic
        self.actions: list[object] = []
        topic.attach(self)

    def act(self, shard: Shard, action: object) -> None:
        self.actions.append(action)

    def stop(self) -> None:
        self.topic.stop()
        super().stop()


@pytest.fixture
def jar() -> Iterator[Jar]:
    jar = Jar({"transaction.state.log.num.partitions": "2"})
    jar.services.partitions.opening_watchers.clear()  # the broker's own coordinator of this topic
    yield jar
    jar.close()


@pytest.fixture
def books(jar: Jar) -> Iterator[Books]:
    books = Books(jar)
    books.topic.create()
    books.topic.create()  # once is enough
    jar.pass_ms(10)
    yield books
    books.stop()


def answered(response: Sum | HeldResponse[Sum]) -> Sum:
    if isinstance(response, HeldResponse):
        kept = response.response
        assert kept is not None, "no answer yet"
        return kept
    return response


def test_a_topic_is_created_once_and_its_shards_load(jar: Jar, books: Books) -> None:
    assert books.topic.partition_count == 2
    assert [shard.name for shard in books.shards] == ["__transaction_state-0", "__transaction_state-1"]
    late = Books(jar)  # finds partitions that are open already
    jar.pass_ms(10)
    response = late.ask(Add(6), ANYONE)
    jar.pass_ms(10)
    assert answered(response) == Sum(total=6)
    late.stop()


def test_partitions_that_load_together_are_one_line(jar: Jar, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "klamm.broker.coordinators")
    books = Books(jar)
    books.topic.create()
    jar.pass_ms(10)
    served = [line for line in caplog.messages if "served" in line]
    assert served == ["2 partitions of __transaction_state are served, loaded in 0 ms"]
    books.stop()


def test_before_the_topic_is_there_nothing_coordinates(jar: Jar) -> None:
    books = Books(jar)
    assert books.ask(Add(1), ANYONE) == Sum(error_code=ErrorCode.not_coordinator)
    books.stop()


def test_a_response_waits_for_the_disk(jar: Jar, books: Books) -> None:
    jar.disk.delay_ms = 50
    response = books.ask(Add(2), ANYONE)
    assert isinstance(response, HeldResponse)
    jar.pass_ms(49)
    assert not response.is_done
    jar.pass_ms(10)
    assert answered(response) == Sum(total=2)


def test_an_action_begins_when_its_decision_is_durable_and_its_result_enters_later(
    jar: Jar, books: Books
) -> None:
    jar.disk.delay_ms = 50
    books.ask(Add(3, publish=True), ANYONE)
    jar.pass_ms(49)
    assert books.actions == []
    jar.pass_ms(10)
    assert books.actions == [(3,)]
    books.signal(books.coordinator.shard, Published(3))
    assert books.coordinator.machine.published == [3]


def test_an_action_whose_decision_is_lost_never_begins(jar: Jar, books: Books) -> None:
    jar.files.faults.append(FailingOperation("sync"))
    response = books.ask(Add(3, publish=True), ANYONE)
    jar.pass_ms(50)
    assert answered(response).error_code == ErrorCode.not_coordinator
    assert books.actions == []
    assert books.coordinator.machine.total == 0


def test_the_result_of_an_action_of_a_shard_that_went_is_ignored(jar: Jar, books: Books) -> None:
    shard = books.coordinator.shard
    books.resign(0, 99)
    books.signal(shard, Published(3))
    assert shard.machine.published == []  # type: ignore[attr-defined]  # the ledger's


def test_timers_fire_at_their_instant(jar: Jar, books: Books) -> None:
    books.ask(Add(4, in_ms=1_000), ANYONE)
    books.ask(Add(5, in_ms=200), ANYONE)
    jar.pass_ms(199)
    assert books.coordinator.machine.total == 0
    jar.pass_ms(2)
    assert books.coordinator.machine.total == 5
    jar.pass_ms(800)
    assert books.coordinator.machine.total == 9


def test_a_partition_that_goes_offline_is_served_no_more(jar: Jar, books: Books) -> None:
    partition = jar.services.partitions.get(TRANSACTIONS_TOPIC, 0)
    assert partition is not None
    partition.fail(ErrorCode.kafka_storage_error)
    jar.pass_ms(1)
    assert answered(books.ask(Add(1), ANYONE)).error_code == ErrorCode.not_coordinator


def test_events_of_any_coordinator_are_written_to_one_topic(jar: Jar, books: Books) -> None:
    books.ask(Add(7), ANYONE)
    jar.pass_ms(300)
    partition = jar.services.partitions.get(EVENTS_TOPIC, 0)
    assert partition is not None
    log = partition.log
    raw = log.read(0, until_offset=log.log_end_offset, max_bytes=1 << 20, at_least_one=True)
    (record,) = [record for place, _ in iter_headers(raw) for record in decode_records(raw, place)]
    assert (record.key, json.loads(record.value or b"")) == (b"ledger", {"type": "added", "number": 7})


# --- loading that fails ------------------------------------------------------------------------------------


def test_loading_that_failed_is_tried_again_with_back_off_and_logged_in_one_line_each(
    jar: Jar, books: Books, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    books.ask(Add(2), ANYONE)
    jar.pass_ms(10)

    def broken(*_: object) -> int:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR, logger="klamm.broker"):
        patch.setattr(LedgerMachine, "load", broken)
        started_ms = jar.clock.now_ms()
        reopen(jar, books)
        jar.pass_ms(10_000)
        waits = [record.getMessage().partition("; ")[2] for record in caplog.records]
        assert waits == [f"retrying in {ms} ms" for ms in (1_000, 2_000, 4_000, 8_000)]
        first = caplog.records[0].getMessage()
        assert first.startswith(
            "loading __transaction_state-0 failed at offset 0: ZeroDivisionError('a bug')"
        )
        assert answered(books.ask(Add(1), ANYONE)).error_code == ErrorCode.not_coordinator
    jar.pass_ms(15_010 - (jar.clock.now_ms() - started_ms))
    assert books.coordinator.shard.status is ShardStatus.ACTIVE
    assert books.coordinator.machine.total == 2


def reopen(jar: Jar, books: Books) -> None:
    """Lead partition 0 at the next epoch."""
    log = PartitionCoordinatorLog(partition_of(jar), jar.services.flusher)
    assert books.elect(0, partition_of(jar).leader_epoch + 1, lambda: log)


def partition_of(jar: Jar) -> Partition:
    partition = jar.services.partitions.get(TRANSACTIONS_TOPIC, 0)
    assert partition is not None
    return partition


def test_a_shard_that_is_led_elsewhere_is_not_tried_again(
    jar: Jar, books: Books, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> int:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(LedgerMachine, "loaded", broken)
    reopen(jar, books)
    jar.pass_ms(10)
    assert books.coordinator.shard.status is ShardStatus.FAILED
    books.resign(0, 99)
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        jar.pass_ms(100_000)
    assert caplog.records == []


def test_what_is_not_durable_is_not_visible_after_a_rebuild_and_somebody_flushes(
    jar: Jar, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar.disk.delay_ms = 50
    books.ask(Add(2), ANYONE)
    with monkeypatch.context() as patch:
        patch.setattr(LedgerMachine, "replay", _broken)
        books.ask(Add(3), ANYONE)  # in the log, and nobody marks it for a flush but the one before
    jar.pass_ms(20)
    assert answered(books.ask(Add(0), ANYONE)).error_code == ErrorCode.coordinator_load_in_progress
    jar.pass_ms(200)
    assert books.coordinator.machine.total == 5


def _broken(*_: object) -> None:
    raise AssertionError("we broke our own promise")


def test_a_log_that_nobody_else_flushes_is_flushed_for_the_shard(jar: Jar, books: Books) -> None:
    partition = partition_of(jar)
    log = partition.log
    batch = LedgerMachine().encode((4,), 0)
    log.append(batch, now_ms=0, timestamp_ms=0, origin=AppendOrigin.COORDINATOR)
    assert log.high_watermark < log.log_end_offset
    reopen(jar, books)
    jar.pass_ms(10)
    assert books.coordinator.machine.total == 4


def test_a_flush_that_fails_while_loading_leaves_what_the_log_holds(jar: Jar, books: Books) -> None:
    books.ask(Add(1), ANYONE)
    jar.pass_ms(10)
    jar.files.faults.append(FailingOperation("sync"))
    partition = partition_of(jar)
    batch = LedgerMachine().encode((4,), 0)
    partition.log.append(batch, now_ms=0, timestamp_ms=0, origin=AppendOrigin.COORDINATOR)
    reopen(jar, books)
    jar.pass_ms(100)
    assert books.coordinator.shard.status is ShardStatus.ACTIVE
    assert books.coordinator.machine.total == 1


# --- the log port ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda log: log.start_offset,
        lambda log: log.end_offset,
        lambda log: log.durable_offset,
        lambda log: log.read(0, 100),
        lambda log: log.cut_back(),
    ],
)
def test_a_log_that_is_offline_raises_what_the_port_promises(
    jar: Jar, books: Books, use: Callable[[PartitionCoordinatorLog], object]
) -> None:
    log = PartitionCoordinatorLog(partition_of(jar), jar.services.flusher)
    partition_of(jar).fail(ErrorCode.kafka_storage_error)
    with pytest.raises(LogUnavailableError, match="__transaction_state-0"):
        use(log)


def test_a_marker_that_is_cut_off_after_a_failed_flush_is_reported_as_lost(jar: Jar, books: Books) -> None:
    partition = partition_of(jar)
    log = PartitionCoordinatorLog(partition, jar.services.flusher)
    books.resign(0, 99)
    jar.disk.delay_ms = 50
    log.append(LedgerMachine().encode((4,), 0), now_ms=0, timestamp_ms=0)
    held = Held(last_offset=log.end_offset - 1, flush_failures=partition.flush_failures)
    partition.held.append(held)
    log.cut_back()
    assert log.is_being_repaired
    with pytest.raises(AppendRefusedError):
        log.append(LedgerMachine().encode((5,), 0), now_ms=0, timestamp_ms=0)
    jar.pass_ms(200)
    log.append(LedgerMachine().encode((5,), 0), now_ms=0, timestamp_ms=0)  # at the marker's offset
    jar.pass_ms(200)
    assert partition.log.high_watermark == 1
    assert held.released_with == ErrorCode.kafka_storage_error


@dataclass
class Held:
    """Whoever waits for a record of the log."""

    last_offset: int
    flush_failures: int
    released_with: ErrorCode | None = None

    def release(self, error_code: ErrorCode) -> None:
        self.released_with = error_code


def test_after_stop_requests_are_refused(jar: Jar, books: Books) -> None:
    jar.disk.delay_ms = 50
    waiting = books.ask(Add(1), ANYONE)
    books.stop()
    assert answered(waiting).error_code == ErrorCode.coordinator_not_available
    assert answered(books.ask(Add(1), ANYONE)).error_code == ErrorCode.coordinator_not_available
