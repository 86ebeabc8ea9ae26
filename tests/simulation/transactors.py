"""Transactional producers of both protocol versions: rivals for one id, zombies, and two-phase commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from klamm.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.types import ZERO_ID
from klamm.records.record import Record, encode_batch
from simulation.clients import PASSING, Client
from simulation.network import DisconnectedError
from simulation.transaction_ledger import Source, Told

if TYPE_CHECKING:
    from simulation.world import World

Place = tuple[str, int]

TIMEOUT_MS: Final = 4_000
_GROUP, _TRANSACTION = 0, 1  # types of keys
_PRODUCE_TIMEOUT_MS: Final = 5_000
_RETRIABLE: Final[Mapping[ErrorCode, str]] = {
    **PASSING,
    ErrorCode.concurrent_transactions: "the transaction before is not complete",
    ErrorCode.not_enough_replicas: "the coordinator could not be asked",
}
_OVER: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.producer_fenced: "another has the id, or the transaction took too long",
    ErrorCode.invalid_producer_epoch: "the same, in the words of a partition",
    ErrorCode.invalid_txn_state: "the coordinator aborted it",
    ErrorCode.transaction_abortable: "the same",
}
_GROUP_MOVED: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.illegal_generation: "others have the work",
    ErrorCode.unknown_member_id: "the same",
    ErrorCode.fenced_instance_id: "the same",
}


class TransactionOverError(Exception):
    """This transaction cannot be committed any more: begin with a new identity."""


class GroupMovedError(TransactionOverError):
    """The group has other members by now."""


class Transactional(Client):
    """A producer with a transactional id. Others may have the same id."""

    def __init__(
        self, world: World, name: str, transactional_id: str, *, is_v2: bool, is_two_phase: bool = False
    ) -> None:
        super().__init__(world, name)
        self.transactional_id = transactional_id
        self.is_v2 = is_v2
        self.is_two_phase = is_two_phase
        self.identity = (-1, -1)
        self._sequences: dict[Place, int] = {}
        self._added: set[object] = set()  # partitions and groups, which version 1 has to name
        random = self.random
        self._init_version = 6 if is_two_phase else random.randint(0, 6)
        self._produce_version = random.randint(12, 13) if is_v2 else random.randint(3, 11)
        self._commit_version = 5 if is_v2 else random.randint(3, 4)
        self._end_version = 5 if is_v2 else random.randint(0, 4)

    # -- asking

    async def settle(self, api_key: ApiKey, version: int, request: Any, error_of: Any) -> Any:
        """Ask until the answer is definite. Raises TransactionOverError."""
        while True:
            try:
                response = await self.ask(api_key, version, request)
            except DisconnectedError:
                await self.back_off()
                continue
            error_code = ErrorCode(error_of(response))
            if error_code is ErrorCode.none:
                return response
            if error_code in _GROUP_MOVED and api_key is ApiKey.TXN_OFFSET_COMMIT:
                raise GroupMovedError
            if error_code not in _RETRIABLE:
                self.refused(api_key.name, error_code, _OVER)
                raise TransactionOverError
            await self.back_off()

    async def find(self, key: str, key_type: int = _GROUP) -> None:
        """Find a coordinator, which also lets its topic be created."""
        while True:
            found = await self.insist(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key, key_type))
            if not found.error_code:
                return
            self.refused("a coordinator", found.error_code, PASSING)
            await self.back_off()

    async def init(self, *, keeps_prepared: bool = False) -> InitProducerIdResponse:
        """Get an identity; whoever had the id before is fenced."""
        await self.find(self.transactional_id, _TRANSACTION)
        request = InitProducerIdRequest(
            self.transactional_id,
            TIMEOUT_MS,
            enable2_pc=self.is_two_phase,
            keep_prepared_txn=keeps_prepared,
        )
        response: InitProducerIdResponse = await self.settle(
            ApiKey.INIT_PRODUCER_ID, self._init_version, request, lambda answer: answer.error_code
        )
        self._identify(response.producer_id, response.producer_epoch)
        return response

    def _identify(self, producer_id: int, epoch: int) -> None:
        if self.identity != (producer_id, epoch):
            self.identity = (producer_id, epoch)
            self._sequences = {}

    # -- one transaction

    def begin(self) -> Told:
        self._added = set()
        return self.world.transactions.ledger.begin(self.name)

    async def write(self, told: Told, place: Place, count: int, sources: Sequence[Source] = ()) -> None:
        """Write some records of a transaction to a partition, with what they were made of."""
        if not self.is_v2 and place not in self._added:
            await self._add(place)
        first = told.written.get(place, 0)
        timestamp_ms = self.world.clock.timestamp_ms()
        origins = [":".join(map(str, source)) for source in sources] or [""] * count
        records = [
            Record(index, timestamp_ms, b"", f"t{told.number} {first + index} {origin}".encode())
            for index, origin in enumerate(origins)
        ]
        sequence = self._sequences.get(place, 0)
        batch = encode_batch(
            records,
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            base_sequence=sequence,
            transactional=True,
        )
        topic, partition = place
        data = TopicProduceData(
            self.topic_ids.get(topic, ZERO_ID), topic, [PartitionProduceData(partition, batch)]
        )
        request = ProduceRequest(self.transactional_id, -1, _PRODUCE_TIMEOUT_MS, [data])
        await self.settle(
            ApiKey.PRODUCE,
            self._produce_version,
            request,
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )
        told.written[place] = first + len(records)
        told.sources += sources
        self._sequences[place] = sequence + len(records)

    async def _add(self, place: Place) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity[0],
            v3_and_below_producer_epoch=self.identity[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(place[0], [place[1]])],
        )
        await self.settle(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            self.random.randint(0, 3),
            request,
            lambda answer: (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
        )
        self._added.add(place)

    async def send_offsets(
        self,
        told: Told,
        group: str,
        offsets: Mapping[Place, int],
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
    ) -> None:
        """Commit offsets in the transaction."""
        if not self.is_v2 and group not in self._added:
            request = AddOffsetsToTxnRequest(self.transactional_id, *self.identity, group)
            await self.settle(
                ApiKey.ADD_OFFSETS_TO_TXN,
                self.random.randint(0, 4),
                request,
                lambda answer: answer.error_code,
            )
            self._added.add(group)
        await self.find(group)
        note = f"t{told.number} {self.world.moment()}"
        topics = [
            TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(partition, offset, -1, note)])
            for (topic, partition), offset in offsets.items()
        ]
        committed = TxnOffsetCommitRequest(
            self.transactional_id, group, *self.identity, generation, member_id, instance_id, topics
        )
        await self.settle(
            ApiKey.TXN_OFFSET_COMMIT,
            self._commit_version,
            committed,
            lambda answer: max(each.error_code for topic in answer.topics for each in topic.partitions),
        )

    async def end(self, told: Told, *, is_commit: bool) -> None:
        told.asked = is_commit
        request = EndTxnRequest(self.transactional_id, *self.identity, is_commit)
        response = await self.settle(
            ApiKey.END_TXN, self._end_version, request, lambda answer: answer.error_code
        )
        told.told = is_commit
        if self.is_v2:
            self._identify(response.producer_id, response.producer_epoch)


class Transactor(Transactional):
    """Writes to several partitions at once, commits or aborts, dawdles, and comes back after a fall."""

    def __init__(
        self, world: World, name: str, transactional_id: str, places: Sequence[Place], *, is_v2: bool
    ) -> None:
        super().__init__(world, name, transactional_id, is_v2=is_v2)
        self._places = places
        self._is_done = False

    @property
    def is_at_rest(self) -> bool:
        return self._is_done

    async def live(self) -> None:
        await self.learn(*dict(self._places))
        while not self.world.is_calm:
            try:
                await self.init()
                while not self.world.is_calm and self.random.random() < 0.9:
                    await self._transact()
            except TransactionOverError:
                await self.pause(self.random.choice((0, 100, 2_000)))
        self._is_done = True

    async def _transact(self) -> None:
        told = self.begin()
        random = self.random
        for place in random.sample(self._places, random.randint(1, len(self._places))):
            for _ in range(random.randint(1, 2)):
                await self.write(told, place, random.choice((1, 2, 5)))
        drawn = random.random()
        if drawn < 0.1:
            await self.pause(2 * TIMEOUT_MS)  # the coordinator aborts it meanwhile; this is a zombie then
        if drawn > 0.97:
            raise TransactionOverError  # the process is gone, and another comes in its place
        await self.end(told, is_commit=random.random() < 0.7)


class TwoPhaseProducer(Transactional):
    """Prepares, remembers elsewhere what is to become of it, and ends it after any time and any crash."""

    def __init__(self, world: World, name: str, transactional_id: str, places: Sequence[Place]) -> None:
        super().__init__(world, name, transactional_id, is_v2=True, is_two_phase=True)
        self._places = places
        self._is_done = False

    @property
    def is_at_rest(self) -> bool:
        return self._is_done

    async def live(self) -> None:
        await self.learn(*dict(self._places))
        decided: tuple[Told, bool] | None = None  # as another database would keep it
        while decided is not None or not self.world.is_calm:
            response = await self.init(keeps_prepared=True)
            if decided is not None:
                told, is_commit = decided
                if response.ongoing_txn_producer_id >= 0:
                    await self.end(told, is_commit=is_commit)
                told.told = is_commit  # else the last attempt to end it was heard
                decided = None
            while not self.world.is_calm:
                decided = await self._prepare()
                if self.random.random() < 0.4:
                    break  # the process dies here, and another comes
                await self.end(decided[0], is_commit=decided[1])
                decided = None
            await self.pause(self.random.choice((0, 500, 2 * TIMEOUT_MS)))
        self._is_done = True

    async def _prepare(self) -> tuple[Told, bool]:
        told = self.begin()
        for place in self.random.sample(self._places, self.random.randint(1, len(self._places))):
            await self.write(told, place, self.random.choice((1, 3)))
        is_commit = self.random.random() < 0.7
        told.asked = is_commit
        if self.random.random() < 0.2:
            await self.pause(2 * TIMEOUT_MS)  # no time-out ends what is prepared
        return told, is_commit
