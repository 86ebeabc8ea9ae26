"""kill -9 under transactional load: what a marker decided stays decided, and nothing undecided is seen.

Scenarios 17, 89 and 90 of transactions, at random moments. The test writes to the partition as a transaction
coordinator would: batches without verification, markers by WriteTxnMarkers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from faults.test_kill import check_with_kafkas_dump_tool
from interop.processes import KlammProcess
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from klamm.records.batch import iter_headers
from klamm.records.committed import visible_batches
from klamm.records.record import Record, decode_records, encode_batch
from klamm.testing.wire import WireClient

KILLS: Final = int(os.environ.get("KLAMM_TXN_KILLS", "40"))
TOPIC: Final = "t"
SETTINGS: Final = {"transaction.partition.verification.enable": "false"}
CONFIGS: Final = {"segment.bytes": "16384", "index.interval.bytes": "512"}


@dataclass(slots=True)
class Producer:
    """One producer; it raises its epoch with each transaction (v2), or never (v1)."""

    producer_id: int
    bumps_epoch: bool
    epoch: int = 0
    next_sequence: int = 0
    values: list[bytes] = field(default_factory=list)  # of its open transaction


class TransactionLoad:
    """Interleaved transactions of several producers in one partition, and what became of each."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = Random(seed)
        self.clock = SystemClock()
        self.producers = [Producer(100 + number, bumps_epoch=bool(number % 2)) for number in range(4)]
        self.committed: set[bytes] = set()
        self.hidden: set[bytes] = set()  # aborted, never to be seen
        self.written = 0
        self.in_doubt: Callable[[WireClient], None] | None = None  # asked, and not answered
        self.kills = 0

    def start(self) -> KlammProcess:
        return KlammProcess(
            self.folder / "data", stderr_path=self.folder / f"klamm-{self.kills}.log", settings=SETTINGS
        )

    def prepare(self, broker: KlammProcess) -> None:
        configs = [CreatableTopicConfig(*each) for each in CONFIGS.items()]
        with WireClient(broker.bootstrap) as client:
            request = CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1, configs=configs)])
            assert client.ask(ApiKey.CREATE_TOPICS, 7, request).topics[0].error_code == 0

    def run_until_killed(self, broker: KlammProcess) -> None:
        timer = threading.Timer(self.random.uniform(0.0, 0.25), broker.process.kill)
        with WireClient(broker.bootstrap) as client:
            timer.start()
            try:
                while True:
                    self.step(client)
            except OSError:
                pass  # the kill; what was not answered is asked again after the restart
        timer.join()
        broker.kill()
        self.kills += 1

    def step(self, client: WireClient) -> None:
        producer = self.random.choice(self.producers)
        if producer.values and self.random.random() < 0.4:
            self.do(client, self.an_end(producer, commits=self.random.random() < 0.5))
        else:
            self.do(client, self.a_batch(producer))

    def do(self, client: WireClient, action: Callable[[WireClient], None]) -> None:
        self.in_doubt = action
        action(client)
        self.in_doubt = None

    def a_batch(self, producer: Producer) -> Callable[[WireClient], None]:
        count = self.random.randint(1, 3)
        values = [b"%d" % (self.written + index) + bytes(100) for index in range(count)]
        timestamp_ms = self.clock.timestamp_ms()
        batch = encode_batch(
            [Record(index, timestamp_ms, None, value) for index, value in enumerate(values)],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.next_sequence,
            transactional=True,
        )
        self.written += count

        def send(client: WireClient) -> None:
            data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(0, batch)])
            answer = client.ask(ApiKey.PRODUCE, 11, ProduceRequest("x", -1, 30_000, [data]))
            line = answer.responses[0].partition_responses[0]
            assert line.error_code == 0, line
            producer.next_sequence += count
            producer.values += values

        return send

    def an_end(self, producer: Producer, *, commits: bool) -> Callable[[WireClient], None]:
        epoch = producer.epoch + producer.bumps_epoch
        topics = [WritableTxnMarkerTopic(TOPIC, [0])]
        version = 2 if producer.bumps_epoch else 0
        marker = WritableTxnMarker(producer.producer_id, epoch, commits, topics, self.kills, version)

        def send(client: WireClient) -> None:
            answer = client.ask(ApiKey.WRITE_TXN_MARKERS, 2, WriteTxnMarkersRequest([marker]))
            assert answer.markers[0].topics[0].partitions[0].error_code == 0, answer
            (self.committed if commits else self.hidden).update(producer.values)
            producer.values = []
            if producer.bumps_epoch:
                producer.epoch, producer.next_sequence = epoch, 0

        return send

    def check(self, broker: KlammProcess) -> None:
        """Nothing undecided or aborted is seen; all that was committed is, once."""
        with WireClient(broker.bootstrap) as client:
            seen = read_committed(client)
            assert len(seen) == len(set(seen)), "a record came twice"
            assert not self.hidden & set(seen), "an aborted record is seen"
            if self.in_doubt is not None:
                self.in_doubt(client)  # a repeat of what may have been written: it must not matter
                self.in_doubt = None
            for producer in self.producers:
                assert not set(producer.values) & set(seen), "an open transaction is seen"
            if self.kills % 5 == 0:
                for producer in self.producers:
                    if producer.values:
                        self.an_end(producer, commits=True)(client)
                seen = read_committed(client)
                assert set(seen) == self.committed
                assert len(seen) == len(self.committed)


def read_committed(client: WireClient) -> list[bytes | None]:
    """What a read_committed consumer hands out, from the start to the end."""
    values: list[bytes | None] = []
    offset = 0
    while True:
        data = fetch(client, offset)
        assert data.error_code == 0
        if not data.records:
            assert offset == data.last_stable_offset
            return values
        aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
        for position, _ in visible_batches(data.records, first_offset=offset, aborted=aborted):
            values += [each.value for each in decode_records(data.records, position)]
        offset = max(header.next_offset for _, header in iter_headers(data.records))


def fetch(client: WireClient, offset: int) -> PartitionData:
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        isolation_level=1,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )
    answer: Any = client.ask(ApiKey.FETCH, 12, request)
    data: PartitionData = answer.responses[0].partitions[0]
    return data


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1])
def test_what_markers_decided_stays_decided_whenever_the_broker_is_killed(tmp_path: Path, seed: int) -> None:
    load = TransactionLoad(tmp_path, seed)
    broker = load.start()
    try:
        load.prepare(broker)
        while load.kills < KILLS:
            load.run_until_killed(broker)
            broker = load.start()
            load.check(broker)
        assert broker.stop() == 0
    finally:
        broker.kill()
    assert load.committed
    assert load.hidden
    check_with_kafkas_dump_tool(tmp_path / "data")
