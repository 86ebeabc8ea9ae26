"""A transactional producer without threads or sockets, and coordinators that answer as the test says."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Coroutine
from typing import Any

from klamm.assignors.base import GroupMetadata
from klamm.client.calls import Calls, RetryPolicy
from klamm.client.committed import Committed
from klamm.client.producer.sender import Sender
from klamm.client.producer.transactions.manager import TransactionManager
from klamm.client.producer.transactions.states import ProducerPhase
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from klamm.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from klamm.protocol.messages.end_txn import EndTxnResponse
from klamm.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from klamm.protocol.messages.init_producer_id import InitProducerIdResponse
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from unit.client.fakes import Asked
from unit.client.producer.world import T0, World

GROUP = GroupMetadata("workers", 3, "member-1", None)
COORDINATED = frozenset(
    {
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    }
)


class TransactionWorld(World):
    """`refuse` puts error codes before the success of an API; `asked` has every request, in order."""

    def __init__(self, version: int = 2, *, initialized: bool = True, **settings: Any) -> None:
        self.version = version
        self.refusals: dict[ApiKey, deque[int]] = defaultdict(deque)
        self.asked: list[Asked] = []
        self.held: set[ApiKey] = set()
        self.identity = (7, -1)
        self.ongoing = (-1, -1)
        super().__init__(transactional_id="orders-1", **settings)
        if initialized:
            self.initialize()

    def make_sender(self) -> Sender:
        if self.version >= 2:
            self.transport.features = {"transaction.version": self.version}
        calls = Calls(self.core, RetryPolicy(60_000, 100, 1_000))
        self.manager = TransactionManager(
            self.core, calls, "orders-1", 60_000, is_two_phase=self.settings.is_two_phase
        )
        return Sender(
            self.core, self.settings, self.accumulator, self.manager, choose=lambda topic, key, value: None
        )

    def refuse(self, api_key: ApiKey, *error_codes: int) -> None:
        self.refusals[api_key].extend(error_codes)

    @property
    def conversation(self) -> list[ApiKey]:
        """The APIs that were asked, in order."""
        return [asked.api_key for asked in self.asked]

    def last(self, api_key: ApiKey) -> Asked:
        return next(asked for asked in reversed(self.asked) if asked.api_key is api_key)

    def answers_itself(self, asked: Asked) -> bool:
        if asked.api_key not in COORDINATED or asked.api_key in self.held:
            return False
        self.asked.append(asked)
        refusals = self.refusals[asked.api_key]
        asked.answer(self._answer(asked, refusals.popleft() if refusals else 0))
        return True

    def _answer(self, asked: Asked, code: int) -> Any:
        request = asked.request
        match asked.api_key:
            case ApiKey.FIND_COORDINATOR:
                key = request.coordinator_keys[0]
                return FindCoordinatorResponse(coordinators=[Coordinator(key, 1, "127.0.0.1", 9092, code)])
            case ApiKey.INIT_PRODUCER_ID:
                if code:
                    return InitProducerIdResponse(error_code=code)
                self.identity = (self.identity[0], self.identity[1] + 1)
                return InitProducerIdResponse(0, 0, *self.identity, *self.ongoing)
            case ApiKey.ADD_PARTITIONS_TO_TXN:
                topics = [
                    AddPartitionsToTxnTopicResult(
                        topic.name,
                        [AddPartitionsToTxnPartitionResult(number, code) for number in topic.partitions],
                    )
                    for topic in request.v3_and_below_topics
                ]
                return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
            case ApiKey.ADD_OFFSETS_TO_TXN:
                return AddOffsetsToTxnResponse(error_code=code)
            case ApiKey.TXN_OFFSET_COMMIT:
                items = [TxnOffsetCommitResponsePartition(0, code)]
                return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic("in", items)])
        assert asked.api_key is ApiKey.END_TXN
        if code:
            return EndTxnResponse(error_code=code)
        if asked.version < 5:
            return EndTxnResponse()
        self.identity = (self.identity[0], self.identity[1] + 1)
        return EndTxnResponse(0, 0, *self.identity)

    def spawn(self, coroutine: Coroutine[Promise[Any], None, Any]) -> Promise[Any]:
        promise = self.core.tasks.spawn(coroutine)
        self.run()
        return promise

    def initialize(self, **options: Any) -> Promise[Any]:
        self.manager.enter(ProducerPhase.INITIALIZING, "init_transactions")
        return self.spawn(self.manager.initialize(**options))

    def begin(self) -> None:
        self.manager.begin()

    def commit(self) -> Promise[Any]:
        self.manager.enter(ProducerPhase.COMMITTING, "commit_transaction")
        return self.spawn(self.manager.commit(self.accumulator.begin_flush()))

    def abort(self) -> Promise[Any]:
        self.manager.enter(ProducerPhase.ABORTING, "abort_transaction")
        return self.spawn(self.manager.abort(self.accumulator.begin_flush()))

    def send_offsets(self, offset: int = 5) -> Promise[Any]:
        partition = T0._replace(topic="in")
        return self.spawn(self.manager.send_offsets({partition: Committed(offset)}, GROUP))
