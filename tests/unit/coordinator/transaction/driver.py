"""A transaction coordinator on a clock that stands still and a log in memory, for tests to push around."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from klamm.clock import ManualClock
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import Shard, ShardStatus
from klamm.coordinator.transaction.actions import AllocateProducerId, WriteMarkers
from klamm.coordinator.transaction.config import TransactionConfig
from klamm.coordinator.transaction.coordinator import TransactionCoordinator
from klamm.coordinator.transaction.end_txn import MAX_HELD_MS
from klamm.coordinator.transaction.machine import TransactionMachine
from klamm.coordinator.transaction.records import decode_record
from klamm.coordinator.transaction.remembered import TransactionStored
from klamm.coordinator.transaction.requests import AddPartitions
from klamm.coordinator.transaction.signals import MarkersWritten, ProducerIdAllocated
from klamm.coordinator.transaction.state import Transaction, TransactionState
from klamm.protocol.errors import ErrorCode
from klamm.protocol.implied import IMPLIED
from klamm.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from klamm.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.messages.describe_transactions import DescribeTransactionsRequest
from klamm.protocol.messages.describe_transactions import TransactionState as Described
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from klamm.protocol.placement import partition_for
from klamm.protocol.types import TopicPartition
from unit.coordinator.memory_log import MemoryLog

FIRST_PRODUCER_ID = 4000
TIMEOUT_MS = 60_000
ABORT_INTERVAL_MS = 10_000
T = "txn-A"

OUT_0, OUT_1 = TopicPartition("out", 0), TopicPartition("out", 1)

Identity = tuple[int, int]


@dataclass(eq=False)
class Call:
    """A request on its way; the response once there is one."""

    request: object
    answers: list[Any] = field(default_factory=list)

    def keep(self, response: object) -> None:
        self.answers.append(response)

    @property
    def is_answered(self) -> bool:
        return bool(self.answers)

    @property
    def response(self) -> Any:
        (answer,) = self.answers
        return answer

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.response.error_code)

    @property
    def identity(self) -> Identity:
        """Of InitProducerId or EndTxn that succeeded."""
        assert self.error is ErrorCode.none, self.error
        return self.response.producer_id, self.response.producer_epoch


class Topics:
    """Topics that exist, each with eight partitions."""

    def __init__(self) -> None:
        self.names = {"out", "in", "__consumer_offsets"}

    def has_partition(self, partition: TopicPartition) -> bool:
        return partition.topic in self.names and 0 <= partition.partition < 8

    def is_internal(self, topic: str) -> bool:
        return topic.startswith("__")

    def offsets_partition(self, group_id: str) -> TopicPartition:
        return TopicPartition("__consumer_offsets", partition_for(group_id, 50))


class World:
    """A broker's transaction coordinator and everything around it.

    Actions are carried out after each step unless they are held back: markers succeed, and producer ids come
    one after the other.
    """

    def __init__(
        self,
        config: TransactionConfig | None = None,
        *,
        partition_count: int = 1,
        version: int = 2,
        elect: bool = True,
        make_machine: Callable[
            [TransactionConfig, Callable[[], int]], TransactionMachine
        ] = TransactionMachine,
    ) -> None:
        self.clock = ManualClock()
        self.config = config or TransactionConfig()
        self.topics = Topics()
        self.version = version
        self.partition_count = partition_count
        self.make_machine = make_machine
        self.logs = {partition: MemoryLog() for partition in range(partition_count)}
        self.epochs = dict.fromkeys(range(partition_count), 0)
        self.events: list[Any] = []
        self.loading: list[Shard] = []
        self.actions: deque[tuple[Shard, object]] = deque()
        self.holds_markers = False
        self.holds_producer_ids = False
        self.no_producer_ids: ErrorCode | None = None
        self.marker_errors: dict[TopicPartition, ErrorCode] = {}
        self.markers: list[tuple[int, WriteMarkers]] = []  # all that were ordered, with the shard's epoch
        self.producer_ids = count(FIRST_PRODUCER_ID)
        self.coordinator = self._coordinator()
        if elect:
            self.elect_all()

    def _coordinator(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            self.config,
            partition_count=self.partition_count,
            topics=self.topics,
            version=lambda: self.version,
            host=self,
            make_machine=self.make_machine,
        )

    # --- what the coordinator asks of its host -------------------------------------------------------

    def send(self, token: Any, response: object) -> None:
        token.keep(response)

    def tell(self, event: Any) -> None:
        self.events.append(event)

    def act(self, shard: Shard, action: object) -> None:
        if isinstance(action, WriteMarkers):
            self.markers.append((shard.epoch, action))
        self.actions.append((shard, action))

    def act_early(self, shard: Shard, action: object) -> bool:
        return False

    def wake(self, at_ms: int) -> None:
        assert at_ms >= self.clock.now_ms()

    def load(self, shard: Shard) -> None:
        self.loading.append(shard)

    # --- work outside the shard ----------------------------------------------------------------------

    def settle(self) -> None:
        """Carry out the actions that are not held back, and what they lead to."""
        held: deque[tuple[Shard, object]] = deque()
        while self.actions:
            shard, action = self.actions.popleft()
            if isinstance(action, WriteMarkers) and not self.holds_markers:
                self.write(shard, action)
            elif isinstance(action, AllocateProducerId) and not self.holds_producer_ids:
                self.allocate(shard, action)
            else:
                held.append((shard, action))
        self.actions = held

    def write(self, shard: Shard, order: WriteMarkers) -> None:
        results = {each: self.marker_errors.get(each, ErrorCode.none) for each in order.partitions}
        self.report(shard, order, results)

    def report(self, shard: Shard, order: WriteMarkers, results: Mapping[TopicPartition, ErrorCode]) -> None:
        shard.signal(MarkersWritten(order, results), self.context())

    def allocate(self, shard: Shard, action: AllocateProducerId) -> None:
        if self.no_producer_ids is not None:
            allocated = ProducerIdAllocated(action.transactional_id, error_code=self.no_producer_ids)
        else:
            allocated = ProducerIdAllocated(action.transactional_id, next(self.producer_ids))
        shard.signal(allocated, self.context())

    def release_markers(self) -> None:
        self.holds_markers = False
        self.settle()

    def release_producer_ids(self) -> None:
        self.holds_producer_ids = False
        self.settle()

    # --- time, disk and leadership -------------------------------------------------------------------

    @property
    def log(self) -> MemoryLog:
        return self.logs[0]

    @property
    def shard(self) -> Shard:
        return self.coordinator.shards.by_partition[0]

    @property
    def state(self) -> TransactionState:
        machine = self.shard.machine
        assert isinstance(machine, TransactionMachine)
        return machine.state

    def transaction(self, transactional_id: str = T) -> Transaction:
        return self.state.transactions[transactional_id]

    def stored(self, transactional_id: str = T) -> TransactionStored:
        return self.transaction(transactional_id).stored

    def state_name(self, transactional_id: str = T) -> str:
        return self.stored(transactional_id).state.label

    def context(self, token: object = None, client_id: str = "") -> Context:
        return Context(
            now_ms=self.clock.now_ms(),
            timestamp_ms=self.clock.timestamp_ms(),
            client_id=client_id,
            client_host="/127.0.0.1",
            token=token,
        )

    def elect_all(self) -> None:
        for partition in range(self.partition_count):
            self.elect(partition)
        self.load_all()

    def elect(self, partition: int = 0) -> None:
        self.epochs[partition] += 1
        self.coordinator.shards.elect(partition, self.epochs[partition], lambda: self.logs[partition])

    def load_all(self, max_bytes: int = 1 << 20) -> None:
        while self.loading:
            shard = self.loading.pop()
            while not shard.load_some(self.context(), max_bytes):
                pass
        self.settle()

    def restart(self) -> None:
        """Everything that is not in the log is gone, also what was under way outside."""
        for log in self.logs.values():
            log.cut_back()
        self.actions.clear()
        self.loading.clear()
        self.coordinator = self._coordinator()
        self.elect_all()

    def flush(self) -> None:
        for partition, log in self.logs.items():
            log.durable_offset = log.end_offset
            shard = self.coordinator.shards.by_partition.get(partition)
            if shard is not None and shard.status is ShardStatus.ACTIVE:
                shard.on_durable(self.context)
        self.settle()

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, firing every timer at its own instant."""
        until_ms = self.clock.now_ms() + duration_ms
        while True:
            look_ms = self.coordinator.shards.next_check_ms()
            if look_ms is None or look_ms > until_ms:
                break
            self.clock.advance(max(look_ms - self.clock.now_ms(), 0))
            self.coordinator.shards.tick(self.context())
            self.settle()
        self.clock.advance(until_ms - self.clock.now_ms())

    # --- what clients say ----------------------------------------------------------------------------

    def ask(self, request: object, client_id: str = "producer-1") -> Call:
        call = Call(request)
        self.coordinator.handle(request, self.context(call, client_id))
        self.settle()
        return call

    def init(
        self,
        transactional_id: str = T,
        expected: Identity = (-1, -1),
        *,
        timeout_ms: int = TIMEOUT_MS,
        version: int = 5,
        client_id: str = "producer-1",
        two_phase: bool = False,
        keeps: bool = False,
    ) -> Call:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
            enable2_pc=two_phase,
            keep_prepared_txn=keeps,
        )
        return self.ask(at_version(request, version), client_id)

    def add(
        self,
        identity: Identity,
        *partitions: TopicPartition,
        transactional_id: str = T,
        version: int = 3,
        verify: bool = False,
    ) -> dict[TopicPartition, ErrorCode]:
        """AddPartitionsToTxn; from version 4 on as a broker sends it."""
        call = self.add_later(
            identity, *partitions, transactional_id=transactional_id, version=version, verify=verify
        )
        return added(call)

    def add_later(
        self,
        identity: Identity,
        *partitions: TopicPartition,
        transactional_id: str = T,
        version: int = 3,
        verify: bool = False,
    ) -> Call:
        topics = topics_of(partitions or (OUT_0,))
        request = AddPartitionsToTxnRequest()
        if version >= 4:
            request.transactions = [
                AddPartitionsToTxnTransaction(transactional_id, *identity, verify, topics)
            ]
        else:
            request.v3_and_below_transactional_id = transactional_id
            request.v3_and_below_producer_id, request.v3_and_below_producer_epoch = identity
            request.v3_and_below_topics = topics
        return self.ask(at_version(request, version))

    def add_one(self, identity: Identity, partition: TopicPartition = OUT_0, **arguments: Any) -> ErrorCode:
        return self.add(identity, partition, **arguments)[partition]

    def verify(self, identity: Identity, *partitions: TopicPartition) -> dict[TopicPartition, ErrorCode]:
        """What the broker asks for a Produce of an older client."""
        request = AddPartitions(
            transactional_id=T,
            producer_id=identity[0],
            producer_epoch=identity[1],
            partitions=frozenset(partitions or (OUT_0,)),
            is_verify_only=True,
        )
        errors: dict[TopicPartition, ErrorCode] = self.ask(request).response.errors
        return errors

    def add_offsets(self, identity: Identity, group_id: str = "g", *, version: int = 4) -> ErrorCode:
        request = AddOffsetsToTxnRequest(T, *identity, group_id)
        return self.ask(at_version(request, version)).error

    def end(
        self,
        identity: Identity,
        *,
        commit: bool = True,
        version: int = 4,
        transactional_id: str = T,
    ) -> Call:
        call = self.end_later(identity, commit=commit, version=version, transactional_id=transactional_id)
        if (self.holds_markers or self.marker_errors) and not call.is_answered:
            self.pass_ms(MAX_HELD_MS)
        return call

    def end_later(
        self, identity: Identity, *, commit: bool = True, version: int = 4, transactional_id: str = T
    ) -> Call:
        return self.ask(at_version(EndTxnRequest(transactional_id, *identity, commit), version))

    def describe(self, transactional_id: str = T) -> Described:
        call = self.ask(DescribeTransactionsRequest(transactional_ids=(transactional_id,)))
        (described,) = call.response.transaction_states
        assert isinstance(described, Described)
        return described

    def list_all(self, **filters: Any) -> ListTransactionsResponse:
        response = self.ask(ListTransactionsRequest(**filters)).response
        assert isinstance(response, ListTransactionsResponse)
        return response

    # --- transactions in a known state ---------------------------------------------------------------

    def open(self, *partitions: TopicPartition, version: int = 3, **arguments: Any) -> Identity:
        """An open transaction, with its producer's identity."""
        identity = self.init(**arguments).identity
        partitions = partitions or (OUT_0,)
        transactional_id = arguments.get("transactional_id", T)
        errors = self.add(identity, *partitions, transactional_id=transactional_id, version=version)
        assert set(errors.values()) == {ErrorCode.none}, errors
        return identity

    def written(self, transactional_id: str = T) -> list[TransactionStored]:
        """The records of an id, oldest first."""
        records = [
            decode_record(each.key, each.value) for log in self.logs.values() for each in log.records()
        ]
        return [
            each
            for each in records
            if isinstance(each, TransactionStored) and each.transactional_id == transactional_id
        ]

    def at_epoch(self, epoch: int, *, state: str = "Empty", transactional_id: str = T) -> Identity:
        """An id whose producer has come to a high epoch; in the log as if it had always been so."""
        identity = self.init(transactional_id).identity
        stored = self.stored(transactional_id)._replace(producer_epoch=epoch)
        assert stored.state.label == state
        machine = self.shard.machine
        batch = machine.encode((stored,), self.clock.timestamp_ms())
        offset = self.log.append(batch, now_ms=0, timestamp_ms=0)
        self.shard.on_written_by_others(stored, offset)
        return identity[0], epoch


def topics_of(partitions: Sequence[TopicPartition]) -> list[AddPartitionsToTxnTopic]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return [AddPartitionsToTxnTopic(name, numbers) for name, numbers in topics.items()]


def added(call: Call) -> dict[TopicPartition, ErrorCode]:
    """The error code of each partition, whatever the version."""
    response = call.response
    topics = [*response.results_by_topic_v3_and_below]
    for result in response.results_by_transaction:
        topics += result.topic_results
    return {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for topic in topics
        for each in topic.results_by_partition
    }


def at_version(request: Any, version: int) -> Any:
    """Give a request what its version implies."""
    for name, implies in IMPLIED.get(type(request).__name__, {}).items():
        setattr(request, name, implies(version))
    return request
