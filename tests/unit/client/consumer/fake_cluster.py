"""The other end of the wire: brokers that answer from memory, on a moved clock."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from klamm.clock import ManualClock
from klamm.coordinator.group.topics import KnownTopic
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from klamm.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from klamm.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from klamm.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from klamm.protocol.types import TopicPartition
from klamm.records.batch import iter_headers, stamp
from klamm.records.record import Record, encode_batch
from unit.client.consumer.real_group import RealGroup
from unit.client.fakes import Asked

BASE_PORT = 9000


@dataclass
class FakeLog:
    """One partition: batches as bytes."""

    leader_id: int = 1
    leader_epoch: int = 0
    replicas: tuple[int, ...] = (1,)
    batches: list[bytes] = field(default_factory=list)
    start_offset: int = 0
    next_offset: int = 0
    stable_offset: int | None = None
    aborted: list[tuple[int, int]] = field(default_factory=list)
    epoch_ends: dict[int, int] = field(default_factory=dict)  # of former epochs
    batches_per_fetch: int | None = None

    def append(self, batch: bytes) -> None:
        """As a broker does it: the batch gets its place in the log."""
        placed = bytearray(batch)
        stamp(placed, self.next_offset, self.leader_epoch)
        ((_, header),) = iter_headers(bytes(placed))
        self.batches.append(bytes(placed))
        self.next_offset = header.next_offset

    def read(self, offset: int) -> bytes:
        found = [
            batch
            for batch in self.batches
            for _, header in iter_headers(batch)
            if header.last_offset >= offset
        ]
        return b"".join(found[: self.batches_per_fetch])


Handler = Callable[[Any], Any]


class FakeCluster:
    """Brokers 1 to `broker_count`, topics, one group coordinator. Every request is remembered."""

    def __init__(self, clock: ManualClock, broker_count: int = 1) -> None:
        self.clock = clock
        self.racks: dict[int, str | None] = dict.fromkeys(range(1, broker_count + 1))
        self.topics: dict[str, list[FakeLog]] = {}
        self.lives: Counter[str] = Counter()  # how often each topic was created
        self.internal: set[str] = set()
        self.coordinator_id = 1
        self.asked: list[Asked] = []  # everything that came, in order
        self.held: dict[ApiKey, list[Asked]] = defaultdict(list)
        self._holding: set[ApiKey] = set()
        self._once: dict[ApiKey, deque[Handler]] = defaultdict(deque)
        self._always: dict[ApiKey, Handler] = {}
        self._parked: list[tuple[int, Asked]] = []  # fetches that wait for data
        self._orders: dict[int, deque[Asked]] = defaultdict(deque)  # by connection: what was asked
        self._answers: dict[int, Any] = {}  # by request: what waits for earlier answers
        self.group = RealGroup(clock, self.reply, self._known_topics)

    # --- what a test arranges ---------------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1, leader_id: int = 1) -> None:
        self.lives[topic] += 1
        self.topics[topic] = [FakeLog(leader_id, replicas=(leader_id,)) for _ in range(partitions)]

    def delete(self, topic: str) -> None:
        """Delete a topic, and the group's offsets of it, as Kafka does."""
        del self.topics[topic]
        self.group.topic_deleted(topic)

    def recreate(self, topic: str, partitions: int = 1) -> None:
        """Delete a topic and create another of the same name."""
        self.delete(topic)
        self.create(topic, partitions)

    def id_of(self, topic: str) -> bytes:
        return topic_id(topic, self.lives[topic])

    def log(self, partition: TopicPartition) -> FakeLog:
        return self.topics[partition.topic][partition.partition]

    def produce(self, partition: TopicPartition, *values: bytes | None, **options: Any) -> None:
        """One batch of records."""
        records = [Record(index, 1000 + index, None, value, ()) for index, value in enumerate(values)]
        self.log(partition).append(encode_batch(records, **options))

    def hold(self, *api_keys: ApiKey) -> None:
        """Keep requests of these APIs unanswered, in `held`."""
        self._holding.update(api_keys)

    def release(self, *api_keys: ApiKey) -> None:
        """Answer as usual again, also what was held."""
        for api_key in api_keys:
            self._holding.discard(api_key)
            waiting = self.held.pop(api_key, [])
            for asked in waiting:
                self.handle(asked)

    def answer_once(self, api_key: ApiKey, *answers: Handler | Any) -> None:
        """Answer the next requests of an API with these, then as usual."""
        for answer in answers:
            self._once[api_key].append(answer if callable(answer) else _constant(answer))

    def answer_always(self, api_key: ApiKey, answer: Handler) -> None:
        self._always[api_key] = answer

    def requests(self, api_key: ApiKey) -> list[Any]:
        """The requests of an API that came so far."""
        return [asked.request for asked in self.asked if asked.api_key is api_key]

    def _known_topics(self) -> dict[str, KnownTopic]:
        return {name: KnownTopic(name, self.id_of(name), len(logs)) for name, logs in self.topics.items()}

    # --- what it does -----------------------------------------------------------------------------------

    def arrived(self, asked: Asked) -> None:
        self.asked.append(asked)
        self._orders[id(asked.link)].append(asked)
        if asked.api_key in self._holding:
            self.held[asked.api_key].append(asked)
        else:
            self.handle(asked)

    def handle(self, asked: Asked) -> None:
        if self._once[asked.api_key]:
            answer = self._once[asked.api_key].popleft()(asked.request)
        elif asked.api_key in self._always:
            answer = self._always[asked.api_key](asked.request)
        else:
            answer = self._answer(asked)
        if answer is not None:
            self.reply(asked, answer)

    def reply(self, asked: Asked, answer: Any) -> None:
        """Answer, in the order of the connection's requests: a broker serves one at a time."""
        self._answers[id(asked)] = answer
        order = self._orders[id(asked.link)]
        while order and id(order[0]) in self._answers:
            first = order.popleft()
            ready = self._answers.pop(id(first))
            if not first.link.is_closed:
                first.answer(ready)

    def _answer(self, asked: Asked) -> Any:
        match asked.api_key:
            case ApiKey.METADATA:
                return self._metadata(asked.request)
            case ApiKey.FIND_COORDINATOR:
                return self._find_coordinator(asked.request)
            case ApiKey.LIST_OFFSETS:
                return self._list_offsets(asked.request)
            case ApiKey.OFFSET_FOR_LEADER_EPOCH:
                return self._epoch_ends(asked.request)
            case ApiKey.FETCH:
                answer = self._fetch(asked.request)
                if not any(topic.partitions for topic in answer.responses) and asked.request.max_wait_ms:
                    self._parked.append((self.clock.now_ms() + asked.request.max_wait_ms, asked))
                    return None
                return answer
            case _:
                self.group.handle(asked)
                return None

    def tick(self) -> bool:
        """Answer what has waited long enough, or has data now; whether anything was."""
        done = self.group.tick_if_due()
        for item in list(self._parked):
            due_ms, asked = item
            answer = self._fetch(asked.request)
            if due_ms <= self.clock.now_ms() or any(topic.partitions for topic in answer.responses):
                self._parked.remove(item)
                self.reply(asked, answer)
                done = True
        return done

    def next_due_ms(self) -> int | None:
        dues = [due for due, _ in self._parked]
        group = self.group.next_due_ms()
        return min([*dues, *([] if group is None else [group])], default=None)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = self.topics if request.topics is None else [topic.name for topic in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=number, host="127.0.0.1", port=BASE_PORT + number, rack=rack)
                for number, rack in self.racks.items()
            ],
            cluster_id="c",
            controller_id=1,
            topics=[self._topic(name or "") for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        logs = self.topics.get(name)
        if logs is None:
            return MetadataResponseTopic(error_code=ErrorCode.unknown_topic_or_partition, name=name)
        return MetadataResponseTopic(
            name=name,
            topic_id=self.id_of(name),
            is_internal=name in self.internal,
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=log.leader_id,
                    leader_epoch=log.leader_epoch,
                    replica_nodes=log.replicas,
                    isr_nodes=log.replicas,
                )
                for index, log in enumerate(logs)
            ],
        )

    def _find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key, self.coordinator_id, "127.0.0.1", BASE_PORT + self.coordinator_id)
                for key in request.coordinator_keys
            ]
        )

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        def found(topic: str, number: int, timestamp: int) -> ListOffsetsPartitionResponse:
            log = self.log(TopicPartition(topic, number))
            offset = {-2: log.start_offset, -1: log.next_offset}.get(timestamp, -1)
            return ListOffsetsPartitionResponse(number, 0, -1, offset, log.leader_epoch)

        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    topic.name,
                    [found(topic.name, item.partition_index, item.timestamp) for item in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _epoch_ends(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        def end(topic: str, number: int, epoch: int) -> EpochEndOffset:
            log = self.log(TopicPartition(topic, number))
            offset = log.next_offset if epoch == log.leader_epoch else log.epoch_ends.get(epoch, -1)
            return EpochEndOffset(0, number, epoch if offset >= 0 else -1, offset)

        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic.topic,
                    [end(topic.topic, item.partition, item.leader_epoch) for item in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        topics = []
        for topic in request.topics:
            name = next((name for name in self.topics if self.id_of(name) == topic.topic_id), None)
            parts = []
            for item in topic.partitions:
                if name is None:
                    parts.append(
                        PartitionData(partition_index=item.partition, error_code=ErrorCode.unknown_topic_id)
                    )
                    continue
                data = self._partition_data(TopicPartition(name, item.partition), item.fetch_offset)
                if data is not None:
                    parts.append(data)
            topics.append(FetchableTopicResponse(topic_id=topic.topic_id, partitions=parts))
        return FetchResponse(responses=topics)

    def _partition_data(self, partition: TopicPartition, offset: int) -> PartitionData | None:
        log = self.log(partition)
        end = log.next_offset if log.stable_offset is None else log.stable_offset
        answer = PartitionData(
            partition_index=partition.partition,
            high_watermark=log.next_offset,
            last_stable_offset=end,
            log_start_offset=log.start_offset,
            aborted_transactions=[AbortedTransaction(*item) for item in log.aborted],
        )
        if not log.start_offset <= offset <= log.next_offset:
            answer.error_code = ErrorCode.offset_out_of_range
            return answer
        answer.records = log.read(offset)
        return answer if answer.records else None


def topic_id(name: str, life: int = 1) -> bytes:
    return name.encode().ljust(16, bytes([life]))[:16]


def _constant(answer: Any) -> Handler:
    return lambda _request: answer


def partitions(topic: str, numbers: Sequence[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]
