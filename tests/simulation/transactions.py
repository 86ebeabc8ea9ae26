"""Two brokers that coordinate transactions on one store, producers that use them, and what must hold.

The partitions that producers write to are modelled after the rules for markers: a lower producer epoch or
coordinator epoch is refused, and with transaction.version 2 so is a repeated marker that meets the next
transaction. Orders to write markers are lost, answered although nothing was heard of them, repeated and late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from types import TracebackType
from typing import Any, Final, NamedTuple

from klamm.broker.net.context import ClientSoftware, HeldResponse, RequestContext
from klamm.clock import ManualClock
from klamm.coordinator.runtime.shard import Shard
from klamm.coordinator.transaction.actions import AllocateProducerId, WriteMarkers
from klamm.coordinator.transaction.config import TransactionConfig
from klamm.coordinator.transaction.coordinator import TransactionCoordinator
from klamm.coordinator.transaction.remembered import TransactionStored
from klamm.coordinator.transaction.requests import AddPartitions
from klamm.coordinator.transaction.signals import MarkersWritten, ProducerIdAllocated
from klamm.coordinator.transaction.states import COMPLETIONS, NEXT_STATES, PREPARED, State
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.placement import partition_for
from klamm.protocol.types import TopicPartition
from simulation.loops import Agenda, ProcessLoop, end
from simulation.nodes import Process, SharedLog
from simulation.transaction_checker import stored_in
from simulation.world import BrokenPromiseError

CONFIG: Final = TransactionConfig(transaction_abort_timed_out_transaction_cleanup_interval_ms=1_000)
TOPIC: Final = "work"
PLACES: Final = tuple(TopicPartition(TOPIC, number) for number in range(4))
TIMEOUT_MS: Final = 4_000
_ANSWERED_WITHIN_S: Final = 3.0
_HEALED_WITHIN_MS: Final = 60_000
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
_FENCED: Final = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_txn_state,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.transaction_abortable,
    }
)


class LostError(Exception):
    """No answer came; whether the request arrived is unknown."""


class FencedError(Exception):
    """Another producer has the id, or the transaction was aborted."""


# --- the partitions that are written to --------------------------------------------------------------------


class Entry(NamedTuple):
    """A batch of a transaction, or with an outcome a marker."""

    producer_id: int
    producer_epoch: int
    transaction: int = -1
    is_commit: bool | None = None


@dataclass
class Producer:
    """What a partition knows of a producer."""

    epoch: int = -1
    coordinator_epoch: int = -1
    is_open: bool = False


@dataclass
class Partition:
    """One partition of a topic, as its leader treats batches and markers."""

    log: list[Entry] = field(default_factory=list)
    producers: dict[int, Producer] = field(default_factory=dict)

    def write(self, producer_id: int, epoch: int, transaction: int) -> ErrorCode:
        producer = self.producers.setdefault(producer_id, Producer())
        if epoch < producer.epoch:
            return ErrorCode.invalid_producer_epoch
        producer.epoch, producer.is_open = epoch, True
        self.log.append(Entry(producer_id, epoch, transaction))
        return NO_ERROR

    def mark(self, order: WriteMarkers, coordinator_epoch: int) -> ErrorCode:
        producer = self.producers.setdefault(order.producer_id, Producer())
        epoch = order.producer_epoch
        is_repeated = order.transaction_version >= 2 and epoch == producer.epoch and producer.is_open
        if epoch < producer.epoch or is_repeated:
            return ErrorCode.invalid_producer_epoch
        if coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.transaction_coordinator_fenced
        producer.epoch, producer.coordinator_epoch, producer.is_open = epoch, coordinator_epoch, False
        self.log.append(Entry(order.producer_id, epoch, is_commit=order.is_commit))
        return NO_ERROR

    def outcomes(self) -> dict[int, bool | None]:
        """How each transaction ended here; None: it is open."""
        found: dict[int, bool | None] = {}
        open_by_producer: dict[int, set[int]] = {}
        for entry in self.log:
            if entry.is_commit is None:
                found[entry.transaction] = None
                open_by_producer.setdefault(entry.producer_id, set()).add(entry.transaction)
            else:
                found |= dict.fromkeys(open_by_producer.pop(entry.producer_id, set()), entry.is_commit)
        return found


# --- brokers -----------------------------------------------------------------------------------------------


class TransactionNode(Process[TransactionCoordinator]):
    """A process that coordinates transactions."""

    def __init__(self, realm: TransactionRealm, broker_id: int) -> None:
        super().__init__(
            realm,
            broker_id,
            lambda host: TransactionCoordinator(
                CONFIG, partition_count=len(realm.logs), topics=realm, version=lambda: 2, host=host
            ),
        )
        self._world = realm
        # By the shard that ordered them and the offset after its Prepare record.
        self._under_way: dict[tuple[Shard, int], set[TopicPartition]] = {}

    def act(self, shard: Shard, action: object) -> None:
        delay_s = self.random.choice((0, 1, 20, 200)) / 1000
        match action:
            case AllocateProducerId(transactional_id):
                allocated = ProducerIdAllocated(transactional_id, next(self._world.producer_ids))
                if self.random.random() < self._world.drop:
                    error_code = ErrorCode.coordinator_load_in_progress
                    allocated = ProducerIdAllocated(transactional_id, error_code=error_code)
                self.loop.call_later(delay_s, self.signal, shard, allocated)
            case WriteMarkers():
                self._begin(shard, action, delay_s)
            case _:
                raise AssertionError(action)

    def _begin(self, shard: Shard, order: WriteMarkers, delay_s: float) -> None:
        """A shard that was loaded again orders all markers anew; those under way are not begun twice.

        With version 1 the first of two could end the next transaction. The broker writes markers at once.
        """
        under_way = self._under_way.setdefault((shard, order.prepared_until), set())
        order = order._replace(partitions=order.partitions - under_way)
        if order.partitions:
            under_way |= order.partitions
            self.loop.call_later(delay_s, self._mark, shard, order, shard.epoch)

    def _report(self, shard: Shard, order: WriteMarkers, results: dict[TopicPartition, ErrorCode]) -> None:
        self._under_way[shard, order.prepared_until] -= order.partitions
        self.signal(shard, MarkersWritten(order, results))

    def _mark(self, shard: Shard, order: WriteMarkers, coordinator_epoch: int) -> None:
        """Each partition is led by somebody else: of each marker something else becomes."""
        results: dict[TopicPartition, ErrorCode] = {}
        for place in order.partitions:
            fate = self.random.random()
            if fate < self._world.drop:
                results[place] = ErrorCode.not_leader_or_follower  # it never arrived
                continue
            results[place] = self._world.mark(place, order, coordinator_epoch)
            if fate < 2 * self._world.drop:
                results[place] = ErrorCode.request_timed_out  # it did, and nobody heard of it
            if order.transaction_version >= 2 and self.random.random() < self._world.drop:
                # A copy that was under way for long. Version 1 has no defence against those.
                late_s = self.random.choice((0.1, 1.0, 5.0))
                self._world.loop.call_later(late_s, self._world.mark, place, order, coordinator_epoch)
        delay_s = self.random.choice((0, 1, 20, 200)) / 1000
        self.loop.call_later(delay_s, self._report, shard, order, results)

    def appended(self, partition: int, batch: bytes) -> None:
        self._world.check_appended(self._world.logs[partition].batches)


# --- producers ---------------------------------------------------------------------------------------------


class _Verified(NamedTuple):
    error_code: ErrorCode


class TransactionalProducer:
    """Initializes, runs transactions, is fenced, comes back. Others have the same transactional id."""

    def __init__(self, realm: TransactionRealm, name: str, transactional_id: str, *, bumps: bool) -> None:
        self._realm = realm
        self._random = realm.random
        self.name = name
        self.transactional_id = transactional_id
        self._bumps = bumps  # transaction.version 2: each transaction has an epoch of its own
        self._identity = (-1, -1)

    async def live(self) -> None:
        while not self._realm.is_calm:
            try:
                await self._init()
                while not self._realm.is_calm and self._random.random() < 0.9:
                    await self._transact()
            except (FencedError, LostError):
                pass
            await asyncio.sleep(self._random.choice((0.01, 0.5, 3.0)))

    async def _init(self) -> None:
        request = partial(
            InitProducerIdRequest,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
            knows_producer_fenced=True,
        )
        response = await self._insist(request)
        self._identity = (response.producer_id, response.producer_epoch)
        self._realm.identified(self, self._identity)

    async def _transact(self) -> None:
        transaction = next(self._realm.transactions)
        places = self._random.sample(PLACES, self._random.randint(1, len(PLACES)))
        for place in places:
            await self._add(place)
            if not self._bumps:
                await self._verify(place)
            for _ in range(self._random.randint(1, 3)):
                if self._realm.partitions[place].write(*self._identity, transaction):
                    raise FencedError
        if self._random.random() < 0.1:
            await asyncio.sleep(2 * TIMEOUT_MS / 1000)  # the coordinator aborts it meanwhile
        await self._end(transaction, is_commit=self._random.random() < 0.7)

    async def _add(self, place: TopicPartition) -> None:
        request = partial(
            AddPartitionsToTxnRequest,
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._identity[0],
            v3_and_below_producer_epoch=self._identity[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(place.topic, [place.partition])],
            knows_producer_fenced=True,
        )
        await self._insist(
            request, lambda response: response.results_by_topic_v3_and_below[0].results_by_partition[0]
        )

    async def _verify(self, place: TopicPartition) -> None:
        """What the partition does before the first batch of a transaction: its leader asks the coordinator.

        A coordinator that has been replaced and has not heard of it may have answered the producer: with
        version 1 nothing tells it the last transaction from this one.
        """
        request = AddPartitions(
            transactional_id=self.transactional_id,
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            partitions=frozenset({place}),
            is_verify_only=True,
        )
        await self._insist(lambda: request, lambda response: _Verified(response.errors[place]))

    async def _end(self, transaction: int, *, is_commit: bool) -> None:
        request = partial(
            EndTxnRequest,
            self.transactional_id,
            *self._identity,
            is_commit,
            knows_producer_fenced=True,
            bumps_epoch=self._bumps,
        )
        response = await self._insist(request)
        self._realm.acknowledged[transaction] = is_commit
        if self._bumps:
            self._identity = (response.producer_id, response.producer_epoch)
            self._realm.identified(self, self._identity)

    async def _insist(
        self, make: Callable[[], Any], part: Callable[[Any], Any] = lambda response: response
    ) -> Any:
        """Ask until the answer is definite."""
        while True:
            try:
                response = await self._realm.ask(self.transactional_id, make())
            except LostError:
                if self._realm.is_calm:
                    raise
                continue
            found = part(response)
            error_code = ErrorCode(getattr(found, "partition_error_code", getattr(found, "error_code", 0)))
            if error_code is NO_ERROR:
                return response
            if error_code in _FENCED:
                raise FencedError
            if error_code not in _RETRIABLE:
                self._realm.broken(f"{self.name} was answered {error_code.name}")
                raise FencedError
            await asyncio.sleep(self._random.choice((0.02, 0.1, 0.5)))


# --- all of it ---------------------------------------------------------------------------------------------


class TransactionRealm:
    """Two nodes, one store, producers, and the invariants."""

    def __init__(self, seed: int, *, drop: float = 0.0, flush_error: float = 0.0) -> None:
        self.seed = seed
        self.drop = drop
        self.flush_error = flush_error
        self.failed_loads = 0
        self.random = Random(seed)
        self.clock = ManualClock()
        self.agenda = Agenda(self.clock)
        self.loop = ProcessLoop(self.clock)
        self.loop.set_exception_handler(self._failed)
        self.agenda.add(self.loop)
        self.logs = {0: SharedLog(), 1: SharedLog()}
        self.partitions = {place: Partition() for place in PLACES}
        self.producer_ids = count(1_000)
        self.transactions = count()
        self.acknowledged: dict[int, bool] = {}
        self.is_calm = False
        self._identities: dict[tuple[int, int], TransactionalProducer] = {}
        self._owners: dict[int, str] = {}  # producer id -> transactional id
        self._epochs = count(1)
        self._violations: list[str] = []
        self.nodes = {1: TransactionNode(self, 1), 2: TransactionNode(self, 2)}
        self._leaders: dict[int, int] = {}
        for partition in self.logs:
            self.hand_over(partition, to=1)

    def __enter__(self) -> TransactionRealm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            node.close()
        end(self.loop)

    # -- what coordinators ask

    def has_partition(self, partition: TopicPartition) -> bool:
        return partition in self.partitions

    def is_internal(self, topic: str) -> bool:
        return topic.startswith("__")

    def offsets_partition(self, group_id: str) -> TopicPartition:
        return TopicPartition("__consumer_offsets", 0)

    def mark(self, place: TopicPartition, order: WriteMarkers, coordinator_epoch: int) -> ErrorCode:
        return self.partitions[place].mark(order, coordinator_epoch)

    # -- leadership

    def hand_over(self, partition: int, *, to: int) -> None:
        epoch = next(self._epochs)
        self._leaders[partition] = to
        for broker_id, act in ((to, "lead"), (3 - to, "retire")):
            delay_s = self.random.choice((0, 5, 50, 1_000)) / 1000
            node = self.nodes[broker_id]
            self.loop.call_later(delay_s, getattr(node, act), partition, epoch)

    def crash(self, broker_id: int) -> None:
        self.nodes[broker_id].close()
        self.nodes[broker_id] = TransactionNode(self, broker_id)
        for partition in [p for p, leader in self._leaders.items() if leader == broker_id]:
            self.loop.call_later(
                self.random.choice((0.01, 1.0)), partial(self.hand_over, partition, to=3 - broker_id)
            )

    async def _politics(self) -> None:
        while not self.is_calm:
            await asyncio.sleep(self.random.choice((0.2, 1.0, 4.0)))
            partition = self.random.choice(list(self.logs))
            if self.random.random() < 0.4:
                self.crash(self.random.choice((1, 2)))
            else:
                self.hand_over(partition, to=self.random.choice((1, 2)))

    # -- requests

    async def ask(self, transactional_id: str, request: Any) -> Any:
        """Ask the coordinator, or sometimes somebody else. Raises LostError."""
        await asyncio.sleep(self.random.choice((0, 1, 2, 80)) / 1000)
        broker_id = self._leaders[partition_for(transactional_id, len(self.logs))]
        is_of_producer = not isinstance(request, AddPartitions)
        if is_of_producer and self.random.random() < 0.05 and not self.is_calm:
            broker_id = 3 - broker_id
        if self.random.random() < self.drop:
            raise LostError
        context = RequestContext(transactional_id, "/10.0.0.1", "PLAINTEXT", ClientSoftware())
        response = self.nodes[broker_id].ask(request, context)
        if isinstance(response, HeldResponse):
            answered = self.loop.create_future()
            response.listener = lambda: None if answered.done() else answered.set_result(response.response)
            try:
                response = await asyncio.wait_for(answered, _ANSWERED_WITHIN_S)
            except TimeoutError:
                raise LostError from None
        if self.random.random() < self.drop:
            raise LostError
        return response

    # -- invariants

    def broken(self, message: str) -> None:
        self._violations.append(message)

    def identified(self, producer: TransactionalProducer, identity: tuple[int, int]) -> None:
        """An identity belongs to one producer, a producer id to one transactional id."""
        if self._identities.setdefault(identity, producer) is not producer:
            self.broken(f"{identity} was given to {self._identities[identity].name} and {producer.name}")
        owner = self._owners.setdefault(identity[0], producer.transactional_id)
        if owner != producer.transactional_id:
            self.broken(f"producer id {identity[0]} was given to {owner} and {producer.transactional_id}")

    def check_appended(self, batches: list[bytes]) -> None:
        """Complete* is written when every partition of the transaction has its marker."""
        for stored in stored_in(batches[-1]):
            if stored.state not in COMPLETIONS.values():
                continue
            prepared = _last_of(stored.transactional_id, batches[:-1])
            assert prepared.state in PREPARED
            is_commit = stored.state is State.COMPLETE_COMMIT
            marker = Entry(prepared.producer_id, prepared.producer_epoch, is_commit=is_commit)
            for place in prepared.partitions:
                if marker not in self.partitions[place].log:
                    self.broken(f"{stored.transactional_id} is complete, and {place} has no {marker}")

    def check_logs(self) -> None:
        """Records of one id follow the table of states, and what was prepared is completed as it was."""
        for log in self.logs.values():
            before: dict[str, TransactionStored] = {}
            for batch in log.batches:
                for stored in stored_in(batch):
                    last = before.get(stored.transactional_id)
                    if last is not None and stored.state not in NEXT_STATES[last.state]:
                        self.broken(f"{last} is followed by {stored}")
                    before[stored.transactional_id] = stored
            for last in before.values():
                if last.state in PREPARED or last.state is State.ONGOING:
                    self.broken(f"{last} is never completed")

    def check_outcomes(self) -> None:
        """Every transaction ended in the same way everywhere, and as its producer was told."""
        outcomes: dict[int, bool | None] = {}
        for place, partition in self.partitions.items():
            for transaction, is_commit in partition.outcomes().items():
                if is_commit is None:
                    self.broken(f"transaction {transaction} is open in {place}")
                if outcomes.setdefault(transaction, is_commit) != is_commit:
                    self.broken(f"transaction {transaction} ended in different ways, in {place} {is_commit}")
                told = self.acknowledged.get(transaction)
                if told is not None and told != is_commit:
                    self.broken(
                        f"transaction {transaction}: {told} was acknowledged, {place} has {is_commit}"
                    )

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.broken(f"{context.get('message')}: {context.get('exception')!r}")

    # -- letting it run

    def add(self, *producers: TransactionalProducer) -> None:
        for producer in producers:
            self.loop.create_task(producer.live())

    def run(self, for_ms: int) -> None:
        self.loop.create_task(self._politics())
        self._pass_ms(for_ms)

    def heal(self) -> None:
        """Nothing goes wrong any more: every transaction comes to its end."""
        self.is_calm = True
        self.drop = self.flush_error = 0.0
        self._pass_ms(_HEALED_WITHIN_MS)
        self.check_logs()
        self.check_outcomes()
        self._check()

    def _pass_ms(self, duration_ms: int) -> None:
        self.agenda.run(self.clock.now_ms() + duration_ms, self._check)

    def _check(self) -> None:
        if self._violations:
            raise BrokenPromiseError(
                f"seed {self.seed}, after {self.clock.now_ms()} ms: {self._violations[0]}\n"
                f"replay: KLAMM_SEED={self.seed} python -m pytest tests/simulation/test_transactions.py"
            )


def _last_of(transactional_id: str, batches: list[bytes]) -> TransactionStored:
    for batch in reversed(batches):
        for stored in stored_in(batch):
            if stored.transactional_id == transactional_id:
                return stored
    raise AssertionError(f"nothing is known of {transactional_id}")
