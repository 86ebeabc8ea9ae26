"""No file is synced on the event loop: while a disk works on a sync, heartbeats and metadata are answered."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from random import Random

import pytest

from internals.cluster_jar import ClusterJar
from internals.jar import Jar
from internals.virtual_disk import VirtualDisk
from klamm.clock import ManualClock
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.records.record import Record, encode_batch
from klamm.storage.engines.simulated_disk import FailingOperation, Operation, SimulatedFiles

SETTINGS = {"klamm.journal.file.bytes": "3000", "log.flush.offset.checkpoint.interval.ms": "5000"}


class WatchedFiles(SimulatedFiles):
    """Refuses to be synced on the event loop while clients are served, and remembers where that was."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(Random(1), clock)
        self.disk: VirtualDisk | None = None  # None: there are no clients
        self.synced_on_the_loop: list[str] = []

    def _look(self) -> None:
        if self.disk is not None and not self.disk.is_working:
            frames = [frame for frame in traceback.extract_stack() if "/klamm/" in frame.filename]
            self.synced_on_the_loop.append("".join(traceback.format_list(frames[-4:])))
            raise AssertionError(self.synced_on_the_loop[-1])

    def sync(self, handle: int) -> None:
        self._look()
        super().sync(handle)

    def sync_directory(self, path: str) -> None:
        self._look()
        super().sync_directory(path)


@pytest.fixture(params=["klamm.flush=commit", "klamm.flush=os", "klamm.journal.file.bytes=0"])
def jar(request: pytest.FixtureRequest) -> Iterator[Jar]:
    name, value = request.param.split("=")
    clock = ManualClock(timestamp_ms=1_700_000_000_000)
    files = WatchedFiles(clock)
    jar = Jar({**SETTINGS, name: value}, clock=clock, files=files, disk_delay_ms=1)
    files.disk = jar.disk  # a start has no client yet
    yield jar
    files.disk = None  # nor has the last step of a stop
    jar.close()
    assert files.synced_on_the_loop == []


@pytest.fixture
def cluster() -> Iterator[ClusterJar]:
    clock = ManualClock(timestamp_ms=1_700_000_000_000)
    files = WatchedFiles(clock)
    cluster = ClusterJar(1, 2, clock=clock, files=files)
    files.disk = cluster.disk
    yield cluster
    files.disk = None
    cluster.close()
    assert files.synced_on_the_loop == []


def produced(jar: Jar, topic: str, partition: int, value_bytes: int) -> ErrorCode:
    client = jar.connect()
    batch = encode_batch([Record(0, jar.clock.timestamp_ms(), b"key", bytes(value_bytes))])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, batch)])
    client.send(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 30_000, [data]))
    jar.pass_ms(20)
    (answer,) = client.new_answers()
    client.close()
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def produce(jar: Jar, topic: str, partition: int, value_bytes: int) -> None:
    assert produced(jar, topic, partition, value_bytes) is ErrorCode.none


def test_produce_rolls_checkpoints_and_new_journal_files_sync_beside_the_loop(jar: Jar) -> None:
    jar.create_topic("t", 3, segment_bytes=2000)
    for number in range(40):
        produce(jar, "t", number % 3, 150 if number % 4 else 1500)
    jar.pass_ms(20_000)
    assert jar.services.partitions.of_topic("t")[0].log.log_end_offset > 10


def test_deletion_and_trimming_sync_beside_the_loop(jar: Jar) -> None:
    jar.create_topic("t", 1, segment_bytes=2000)
    jar.create_topic("gone", 2)
    for _ in range(10):
        produce(jar, "t", 0, 500)
        produce(jar, "gone", 1, 500)
    client = jar.connect()
    trim = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 9)])], 1000)
    client.send(ApiKey.DELETE_RECORDS, 2, trim)
    jar.delete_topic("gone")
    jar.pass_ms(70_000)
    assert jar.services.partitions.of_topic("t")[0].log.log_start_offset == 9
    assert jar.services.partitions.of_topic("gone") == []


def test_a_partition_that_another_broker_leads_by_now_is_let_go_without_a_sync(jar: Jar) -> None:
    jar.create_topic("t", 2)
    for number in range(6):
        produce(jar, "t", number % 2, 200)
    jar.services.partitions.close("t", 0)
    jar.pass_ms(1_000)
    produce(jar, "t", 1, 200)
    assert jar.services.partitions.get("t", 0) is None


@pytest.mark.parametrize("operation", ["sync", "write"])
@pytest.mark.parametrize("segment_bytes", [1024, 100_000])
def test_a_log_whose_disk_failed_is_repaired_beside_the_loop(
    jar: Jar, operation: Operation, segment_bytes: int
) -> None:
    jar.create_topic("t", 2, segment_bytes=segment_bytes)
    for number in range(4):
        produce(jar, "t", number % 2, 300)
    outcomes = []
    for number in range(12):
        jar.files.faults = [FailingOperation(operation)] if number % 3 == 0 else []
        outcomes.append(produced(jar, "t", number % 2, 300))
    jar.files.faults = []
    assert set(outcomes) <= {ErrorCode.none, ErrorCode.kafka_storage_error}
    jar.pass_ms(5_000)
    for number in range(2):
        produce(jar, "t", number, 300)
        assert jar.services.partitions.of_topic("t")[number].error_code == ErrorCode.none


def test_deleted_records_of_a_partition_that_is_led_elsewhere_meanwhile_are_not_acknowledged(
    jar: Jar,
) -> None:
    jar.create_topic("t", 1)
    produce(jar, "t", 0, 100)
    client = jar.connect()
    trim = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 1)])], 1000)
    client.send(ApiKey.DELETE_RECORDS, 2, trim)
    jar.services.partitions.close("t", 0)  # before a thread has saved the log start
    jar.pass_ms(100)
    (answer,) = client.new_answers()
    assert answer.topics[0].partitions[0].error_code == ErrorCode.not_leader_or_follower


def test_a_log_is_compacted_beside_the_loop(jar: Jar) -> None:
    jar.create_topic("t", 1, segment_bytes=1024, cleanup_policy="compact", min_cleanable_dirty_ratio=0)
    for _ in range(8):
        produce(jar, "t", 0, 600)
    jar.pass_ms(40_000)
    assert jar.services.partitions.of_topic("t")[0].retention.size_bytes < 8 * 600 / 2


def test_a_partition_moves_beside_the_loop_with_its_log_start(cluster: ClusterJar) -> None:
    cluster.create_topic("t", 1)
    ((leader, _),) = cluster.leaders("t")
    partition = cluster.members[leader].services.partitions.of_topic("t")[0]
    for number in range(3):
        batch = encode_batch([Record(0, cluster.clock.timestamp_ms(), b"key", b"%d" % number)])
        partition.log.append(batch, cluster.clock.now_ms(), cluster.clock.timestamp_ms())
    cluster.members[leader].services.flusher.mark(partition)
    cluster.pass_ms(100)
    assert partition.retention.delete_records(2) == 2
    for to in (3 - leader, leader, 3 - leader):
        cluster.move("t", 0, to)
        cluster.pass_ms(3_000)
        assert cluster.open_at("t") == {to: [0], 3 - to: []}
        moved = cluster.members[to].services.partitions.of_topic("t")[0].log
        assert (moved.log_start_offset, moved.high_watermark) == (2, 3)
