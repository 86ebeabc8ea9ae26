"""No file is synced on the event loop: while a disk works on a sync, heartbeats and metadata are answered."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from random import Random

import pytest

from internals.jar import Jar
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
from klamm.storage.engines.simulated_disk import SimulatedFiles

SETTINGS = {"klamm.journal.file.bytes": "3000", "log.flush.offset.checkpoint.interval.ms": "5000"}


class WatchedFiles(SimulatedFiles):
    """Remembers where it was synced on the event loop."""

    jar: Jar | None = None

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(Random(1), clock)
        self.synced_on_the_loop: list[str] = []

    def _look(self) -> None:
        if self.jar is not None and not self.jar.disk.is_working:
            frames = [frame for frame in traceback.extract_stack() if "/klamm/" in frame.filename]
            self.synced_on_the_loop.append("".join(traceback.format_list(frames[-4:])))

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
    files.jar = jar  # a start has no client yet
    yield jar
    files.jar = None  # nor has the last step of a stop
    jar.close()
    assert files.synced_on_the_loop == []


def produce(jar: Jar, topic: str, partition: int, value_bytes: int) -> None:
    client = jar.connect()
    batch = encode_batch([Record(0, jar.clock.timestamp_ms(), b"key", bytes(value_bytes))])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, batch)])
    client.send(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 30_000, [data]))
    jar.pass_ms(20)
    (answer,) = client.new_answers()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.none
    client.close()


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
