"""A load that remembers what it was promised, and checks the promises after each crash."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from interop.processes import KlammProcess
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.records.batch import iter_headers
from klamm.records.record import Record, decode_records, encode_batch
from klamm.testing.wire import WireClient

PLAIN: Final = "plain"
COMPACTED: Final = "compacted"
PARTITIONS: Final = 2
KEYS: Final = 20
IN_FLIGHT: Final = 4
# Small segments and an eager cleaner: a kill finds rolls, snapshots and swaps half done.
SETTINGS: Final = {
    "log.cleaner.backoff.ms": "20",
    "log.flush.offset.checkpoint.interval.ms": "50",
    "log.retention.check.interval.ms": "50",
    "log.segment.delete.delay.ms": "0",
}
TOPICS: Final = {
    PLAIN: {"segment.bytes": "16384", "index.interval.bytes": "512"},
    COMPACTED: {
        "cleanup.policy": "compact",
        "segment.bytes": "4096",
        "min.cleanable.dirty.ratio": "0.1",
        "delete.retention.ms": "0",
    },
}


@dataclass(slots=True)
class Sent:
    """One batch, as it went out."""

    sequence: int
    counters: list[int]
    payload: bytes
    offset: int | None = None


@dataclass(slots=True)
class Track:
    """One partition's history: what was sent in order, what was acknowledged where."""

    topic: str
    partition: int
    next_sequence: int = 0
    next_counter: int = 0
    open: deque[Sent] = field(default_factory=deque)  # sent, not acknowledged
    acknowledged: dict[int, int] = field(default_factory=dict)  # counter -> offset
    latest: dict[bytes, int] = field(default_factory=dict)  # key -> counter, of acknowledged records
    checked_offset: int = 0  # what lies below was found in order after an earlier crash


class Load:
    """Idempotent produce with several batches in flight, to plain and compacted topics."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = Random(seed)
        # Records dated today: the broker forgets producers and data by their records' time.
        self.clock = SystemClock()
        self.tracks = [Track(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
        self.producer_id = -1
        self.kills = 0
        self.batches = 0

    def start(self) -> KlammProcess:
        return KlammProcess(
            self.folder / "data", stderr_path=self.folder / f"klamm-{self.kills}.log", settings=SETTINGS
        )

    def prepare(self, client: WireClient) -> None:
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=PARTITIONS,
                replication_factor=1,
                configs=[CreatableTopicConfig(*item) for item in configs.items()],
            )
            for name, configs in TOPICS.items()
        ]
        answer = client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics))
        assert [item.error_code for item in answer.topics] == [0] * len(TOPICS)
        self.producer_id = client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest()).producer_id

    def run_until_killed(self, broker: KlammProcess) -> None:
        """Produce as fast as it goes until the process is gone; the moment is chance."""
        timer = threading.Timer(self.random.uniform(0.0, 0.25), broker.process.kill)
        with WireClient(broker.bootstrap) as client:
            if self.producer_id < 0:
                self.prepare(client)
            timer.start()
            try:
                self._resend(client)
                while True:
                    for track in self.tracks:
                        self._send(client, track, self._next(track))
                    while any(len(track.open) >= IN_FLIGHT for track in self.tracks):
                        self._receive(client)
            except (ConnectionError, TimeoutError):
                pass  # the kill: what was not acknowledged is sent again after the restart
            finally:
                timer.join()
        broker.kill()
        self.kills += 1

    def _next(self, track: Track) -> Sent:
        counters = [track.next_counter + step for step in range(self.random.randint(1, 5))]
        track.next_counter += len(counters)
        records = [
            Record(index, self.clock.timestamp_ms(), self._key(counter), b"%d:" % counter + self._padding())
            for index, counter in enumerate(counters)
        ]
        payload = encode_batch(
            records,
            codec=self.random.choice((0, 0, 0, 1, 4)),
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=track.next_sequence,
        )
        sent = Sent(track.next_sequence, counters, payload)
        track.next_sequence += len(counters)
        track.open.append(sent)
        return sent

    @staticmethod
    def _key(counter: int) -> bytes:
        return b"key-%d" % (counter % KEYS)

    def _padding(self) -> bytes:
        return self.random.randbytes(self.random.choice((3, 30, 300)))

    def _send(self, client: WireClient, track: Track, sent: Sent) -> None:
        data = TopicProduceData(
            name=track.topic, partition_data=[PartitionProduceData(track.partition, sent.payload)]
        )
        client.send(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 30_000, [data]))
        self.batches += 1
        self._order.append((track, sent))

    def _receive(self, client: WireClient) -> None:
        _, answer = client.receive(ApiKey.PRODUCE, 9)
        track, sent = self._order.popleft()
        item = answer.responses[0].partition_responses[0]
        assert item.error_code == ErrorCode.none, (track.topic, track.partition, sent.sequence, item)
        assert track.open.popleft() is sent
        for index, counter in enumerate(sent.counters):
            track.acknowledged[counter] = item.base_offset + index
            track.latest[self._key(counter)] = counter

    def _resend(self, client: WireClient) -> None:
        """What the crash left open goes out again with its old sequence; the broker knows what it has."""
        self._order: deque[tuple[Track, Sent]] = deque()
        for track in self.tracks:
            for sent in list(track.open):
                self._send(client, track, sent)
        while self._order:
            self._receive(client)

    def check(self, broker: KlammProcess, *, from_start: bool = False) -> None:
        """Everything acknowledged is where it was said to be, once, and nothing is out of order.

        What an earlier check has seen is read again only `from_start`, or a long run would read for ever.
        """
        with WireClient(broker.bootstrap) as client:
            for track in self.tracks:
                is_plain = track.topic == PLAIN
                start = 0 if from_start or not is_plain else track.checked_offset
                found = read_all(client, track.topic, track.partition, start)
                offsets = [record.offset for record in found]
                assert offsets == sorted(set(offsets)), "offsets rise"
                counters = {record.offset: _counter(record) for record in found}
                if is_plain:
                    self._check_plain(track, counters, start)
                    track.checked_offset = max(track.acknowledged.values(), default=-1) + 1
                else:
                    self._check_compacted(track, found)

    @staticmethod
    def _check_plain(track: Track, counters: dict[int, int], start: int) -> None:
        missing = {
            counter: offset
            for counter, offset in track.acknowledged.items()
            if offset >= start and counters.get(offset) != counter
        }
        assert not missing, f"{track.topic}-{track.partition} lost {missing}"
        seen = list(counters.values())
        assert seen == sorted(set(seen)), "no record twice, none out of order"

    @staticmethod
    def _check_compacted(track: Track, found: list[Record]) -> None:
        last = {record.key: _counter(record) for record in found if record.key is not None}
        lost = {key: counter for key, counter in track.latest.items() if last.get(key, -1) < counter}
        assert not lost, f"{track.topic}-{track.partition} lost the latest of {lost}"


def _counter(record: Record) -> int:
    assert record.value is not None
    return int(record.value.split(b":", 1)[0])


def read_all(client: WireClient, topic: str, partition: int, offset: int = 0) -> list[Record]:
    """Every record of a partition from an offset on."""
    records: list[Record] = []
    while True:
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 24,
            topics=[
                FetchTopic(
                    topic=topic,
                    partitions=[
                        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
                    ],
                )
            ],
        )
        answer = client.ask(ApiKey.FETCH, 11, request)
        item = answer.responses[0].partitions[0]
        assert item.error_code == ErrorCode.none, item
        data = bytes(item.records)
        if not data:
            assert offset >= item.high_watermark, (offset, item.high_watermark)
            return records
        for position, header in iter_headers(data):
            records += [record for record in decode_records(data, position) if record.offset >= offset]
            offset = header.last_offset + 1
