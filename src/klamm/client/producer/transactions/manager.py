"""The transactions of one producer: its state, and the conversation with the coordinators.

The coroutines run on the client's thread. `check`, `begin` and `enter` are called by the program's thread,
too: the state has a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from klamm.assignors.base import GroupMetadata
from klamm.client.calls import Calls, by_topic
from klamm.client.committed import Committed
from klamm.client.producer.batch import Batch
from klamm.client.producer.transactions.handover import OpenTransaction, PreparedTransaction
from klamm.client.producer.transactions.offsets import offset_commit_request, offset_error_codes
from klamm.client.producer.transactions.outcomes import ErrorOutcome, loses_id, outcome_of, with_hint
from klamm.client.producer.transactions.requests import CoordinatorRequests
from klamm.client.producer.transactions.sequences import TransactionSequences
from klamm.client.producer.transactions.states import LEGAL, ProducerPhase, illegal, may_follow
from klamm.client.runtime import Core
from klamm.errors import (
    BrokerError,
    IllegalStateError,
    KlammError,
    TransactionAbortedError,
    UnsupportedVersionError,
)
from klamm.net.tasks import Promise
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from klamm.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from klamm.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from klamm.protocol.types import TopicPartition

FEATURE: Final = "transaction.version"
# The last versions that a client of transactions v1 may use, by API; v2 uses the newest.
V1_END_TXN: Final = 4
V1_TXN_OFFSET_COMMIT: Final = 4
V1_PRODUCE: Final = 11
CLIENT_ADD_PARTITIONS: Final = 3  # newer ones are for brokers
PLAIN_INIT_PRODUCER_ID: Final = 5
TWO_PHASE_INIT_PRODUCER_ID: Final = 6

SENDING: Final = frozenset({ProducerPhase.IN_TRANSACTION, ProducerPhase.COMMITTING})
# Calls that report what kept a record or an offset from being written.
COMPLETING: Final = frozenset(
    {
        "send_offsets_to_transaction",
        "prepare_transaction",
        "commit_transaction",
        "hand_over_transaction",
    }
)
GIVING_UP: Final = frozenset(
    {ProducerPhase.ABORTABLE_ERROR, ProducerPhase.ABORTING, ProducerPhase.FATAL_ERROR}
)


class TransactionManager:
    """One transactional id: identity, state, and what was added to the transaction."""

    def __init__(
        self, core: Core, calls: Calls, transactional_id: str, timeout_ms: int, *, is_two_phase: bool = False
    ) -> None:
        self.transactional_id = transactional_id
        self.sequences = TransactionSequences()
        self.requests = CoordinatorRequests(core, calls, transactional_id)
        self.on_state: Callable[[bool], None] = lambda _may_send: None  # whether records are taken now
        self.state = ProducerPhase.UNINITIALIZED
        self.error: KlammError | None = None  # what made it abortable or fatal
        self.version = 1
        self._core = core
        self._timeout_ms = timeout_ms
        self._is_two_phase = is_two_phase
        self._lock = threading.Lock()
        self._has_written = False  # something of this transaction may have reached a broker
        self._lost_id = False  # the producer id is unknown to the coordinator
        self._prepared: PreparedTransaction | None = None
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()
        self._is_adding = False
        self._groups: set[str] = set()

    # ProducerPhase

    def check(self, call: str) -> None:
        """Raise unless this call is legal now."""
        if self.state is ProducerPhase.FATAL_ERROR and self.error is not None:
            raise self.error
        if self.state in LEGAL[call]:
            return
        if self.state is ProducerPhase.ABORTABLE_ERROR and self.error is not None and call in COMPLETING:
            raise self.error  # the same before the call and during it
        error = illegal(call, self.state)
        error.is_abortable = self.state is ProducerPhase.ABORTABLE_ERROR
        raise error from self.error

    def enter(self, state: ProducerPhase, call: str | None = None) -> None:
        """Go to a state; for a program's call, only if it is legal."""
        with self._lock:
            if call is not None:
                self.check(call)
            if self.state is ProducerPhase.FATAL_ERROR:
                return  # for good
            if not may_follow(self.state, state):
                raise IllegalStateError(f"a transaction cannot go from {self.state.name} to {state.name}")
            self.state = state
            if state in (ProducerPhase.READY, ProducerPhase.UNINITIALIZED):
                self.error = None
        self.on_state(state is ProducerPhase.IN_TRANSACTION)

    def fail(self, error: KlammError) -> KlammError:
        """An error ended the transaction or, if it is fatal, the producer."""
        state = ProducerPhase.FATAL_ERROR if error.is_fatal else ProducerPhase.ABORTABLE_ERROR
        if self.state in GIVING_UP and not error.is_fatal:
            return error
        if not may_follow(self.state, state):
            return error
        if self.error is None or error.is_fatal:
            self.error = error
        self.enter(state)
        return error

    def begin(self) -> None:
        """Start a transaction; nothing is sent."""
        self.check("begin_transaction")
        self._learn_version()
        self._start_clean()
        self.enter(ProducerPhase.IN_TRANSACTION, "begin_transaction")

    def _start_clean(self) -> None:
        self._has_written = False
        self._added.clear()
        self._wanted.clear()
        self._groups.clear()
        self._prepared = None

    def _learn_version(self) -> None:
        """Kafka 4 finalizes transactions v2 for the whole cluster; it may do so while we run."""
        if self.requests.node is None:
            return
        features = self._core.network.features(self.requests.node)
        if features:
            self.version = 2 if features.get(FEATURE, 0) >= 2 else 1

    # Queries of the sender

    @property
    def may_send(self) -> bool:
        return self.state in SENDING

    @property
    def is_giving_up(self) -> bool:
        """Whether what is not sent yet is to be dropped."""
        return self.state in GIVING_UP

    @property
    def max_produce_version(self) -> int:
        return 32767 if self.version >= 2 else V1_PRODUCE

    def may_send_to(self, partition: TopicPartition) -> bool:
        """Whether this partition is part of the transaction; if not, it is added."""
        if partition in self._added:
            return True
        if self.version >= 2:
            self._added.add(partition)  # by the batch that is about to go
            self._has_written = True
            return True
        self._wanted.add(partition)
        if not self._is_adding:
            self._is_adding = True
            self._core.tasks.spawn(self._add_partitions())
        return False

    def batch_failed(self, error: KlammError) -> KlammError:
        """A batch will not be delivered: the transaction cannot be committed any more."""
        if isinstance(error, TransactionAbortedError):
            return error
        if isinstance(error, UnsupportedVersionError):
            return self.fail(with_hint(error, ErrorOutcome.FATAL))
        code = error.error_code if isinstance(error, BrokerError) else 0
        return self.fail(
            with_hint(error, outcome_of(ApiKey.PRODUCE, code) if code else ErrorOutcome.ABORTABLE)
        )

    def why_dropped(self) -> KlammError:
        """The error of a record that is not sent because the transaction has failed or is aborted."""
        if self.state is ProducerPhase.FATAL_ERROR and self.error is not None:
            return self.error
        reason = f" after: {self.error}" if self.error is not None else ""
        return TransactionAbortedError(f"not sent: the transaction is being aborted{reason}")

    # Conversations

    async def initialize(self, *, keep_prepared: bool = False) -> None:
        """Get an identity; older producers with this id are fenced, and their transaction is aborted."""
        try:
            response = await self._init_producer_id(-1, -1, keep_prepared=keep_prepared)
        except KlammError as error:
            if error.is_fatal:
                self.fail(error)
            else:
                self.enter(ProducerPhase.UNINITIALIZED)
            raise
        self._learn_version()
        self._start_clean()
        if response.ongoing_txn_producer_id >= 0:
            self._prepared = PreparedTransaction(
                response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
            )
            self._has_written = True
            self.enter(ProducerPhase.PREPARED)
        else:
            self.enter(ProducerPhase.READY)

    async def _init_producer_id(
        self, producer_id: int, epoch: int, *, keep_prepared: bool = False
    ) -> InitProducerIdResponse:
        is_two_phase = self._is_two_phase or keep_prepared
        message = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            enable2_pc=self._is_two_phase,
            keep_prepared_txn=keep_prepared,
        )

        def request(version: int) -> InitProducerIdRequest:
            if is_two_phase and version < TWO_PHASE_INIT_PRODUCER_ID:
                raise UnsupportedVersionError(
                    f"two-phase commit needs InitProducerId version {TWO_PHASE_INIT_PRODUCER_ID}, "
                    f"the broker has {version}: enable it there, or set "
                    "transaction.two.phase.commit.enable=false"
                )
            return message

        response: InitProducerIdResponse = await self.requests.to_transaction_coordinator(
            ApiKey.INIT_PRODUCER_ID,
            request,
            f"initializing transactional.id {self.transactional_id}",
            max_version=TWO_PHASE_INIT_PRODUCER_ID if is_two_phase else PLAIN_INIT_PRODUCER_ID,
        )
        self.sequences.identify(response.producer_id, response.producer_epoch)
        self._lost_id = False
        return response

    async def _add_partitions(self) -> None:
        """Add the partitions that records wait for; transactions v1 only."""
        try:
            while self._wanted and self.state in SENDING:
                adding = set(self._wanted)
                self._has_written = True
                await self.requests.ask(
                    1,
                    self.transactional_id,
                    ApiKey.ADD_PARTITIONS_TO_TXN,
                    AddPartitionsToTxnRequest(
                        v3_and_below_transactional_id=self.transactional_id,
                        v3_and_below_producer_id=self.sequences.producer_id,
                        v3_and_below_producer_epoch=self.sequences.epoch,
                        v3_and_below_topics=[
                            AddPartitionsToTxnTopic(name=name, partitions=sorted(numbers))
                            for name, numbers in by_topic(sorted(adding)).items()
                        ],
                    ),
                    f"adding partitions to the transaction of {self.transactional_id}",
                    _added_codes,
                    CLIENT_ADD_PARTITIONS,
                )
                self._wanted -= adding
                self._added |= adding
        except KlammError as error:
            self._refused(error)
        finally:
            self._is_adding = False

    def _refused(self, error: KlammError) -> None:
        if isinstance(error, BrokerError) and loses_id(error.error_code):
            self._lost_id = True
        self.fail(error)

    async def send_offsets(self, offsets: Mapping[TopicPartition, Committed], group: GroupMetadata) -> None:
        """Make offsets of a consumer group part of the transaction."""
        what = f"sending offsets of group {group.group_id} to the transaction of {self.transactional_id}"
        identity = self.sequences.producer_id, self.sequences.epoch
        self._has_written = True
        try:
            if self.version < 2 and group.group_id not in self._groups:
                await self.requests.to_transaction_coordinator(
                    ApiKey.ADD_OFFSETS_TO_TXN,
                    AddOffsetsToTxnRequest(self.transactional_id, *identity, group.group_id),
                    what,
                )
            self._groups.add(group.group_id)
            await self.requests.to_group_coordinator(
                group.group_id,
                ApiKey.TXN_OFFSET_COMMIT,
                offset_commit_request(self.transactional_id, identity, offsets, group),
                what,
                offset_error_codes,
                32767 if self.version >= 2 else V1_TXN_OFFSET_COMMIT,
            )
        except KlammError as error:
            self._refused(error)
            raise

    async def flushed(self, batches: Sequence[Batch]) -> None:
        """Wait for batches; raises what keeps the transaction from being committed."""
        await settled(batches)
        if (
            self.state in (ProducerPhase.ABORTABLE_ERROR, ProducerPhase.FATAL_ERROR)
            and self.error is not None
        ):
            raise self.error

    async def commit(self, batches: Sequence[Batch]) -> None:
        """Wait for the records, then decide. The state is COMMITTING already."""
        await self.flushed(batches)
        try:
            await self._end(committed=True)
        except KlammError as error:
            self._refused(error)
            raise
        self.enter(ProducerPhase.READY)

    async def abort(self, batches: Sequence[Batch]) -> None:
        """Drop what is not sent, wait for what is, then decide. The state is ABORTING already."""
        await settled(batches)
        try:
            await self._end_aborted()
            if self._lost_id or self.sequences.is_broken:
                await self._init_producer_id(self.sequences.producer_id, self.sequences.epoch)
        except KlammError as error:
            if error.is_fatal:
                self.fail(error)
            else:
                self.enter(ProducerPhase.ABORTABLE_ERROR)
            raise
        self.enter(ProducerPhase.READY)

    async def _end_aborted(self) -> None:
        if self._lost_id:
            return  # an unknown producer has nothing to abort
        try:
            await self._end(committed=False)
        except BrokerError as error:
            if not loses_id(error.error_code):
                raise
            self._lost_id = True

    async def _end(self, *, committed: bool) -> None:
        if not self._has_written:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.sequences.producer_id,
            producer_epoch=self.sequences.epoch,
            committed=committed,
        )
        word = "committing" if committed else "aborting"
        response: EndTxnResponse = await self.requests.to_transaction_coordinator(
            ApiKey.END_TXN,
            request,
            f"{word} the transaction of {self.transactional_id}",
            max_version=32767 if self.version >= 2 else V1_END_TXN,
        )
        self._has_written = False
        if response.producer_id >= 0:
            self.sequences.identify(response.producer_id, response.producer_epoch)

    async def prepare(self, batches: Sequence[Batch]) -> PreparedTransaction:
        """Everything is written, nothing is decided: the first half of a two-phase commit."""
        await self.flushed(batches)
        self._prepared = PreparedTransaction(self.sequences.producer_id, self.sequences.epoch)
        self.enter(ProducerPhase.PREPARED)
        return self._prepared

    @property
    def prepared(self) -> PreparedTransaction | None:
        """The transaction that was prepared here, or found prepared by `initialize`."""
        return self._prepared

    # Handing over

    async def hand_over(self, batches: Sequence[Batch]) -> OpenTransaction:
        """Everything is written; the transaction goes on elsewhere."""
        await self.flushed(batches)
        value = OpenTransaction(
            self.transactional_id,
            self.sequences.producer_id,
            self.sequences.epoch,
            self.version,
            self.sequences.following(),
            frozenset(self._added),
            frozenset(self._groups),
        )
        self.enter(ProducerPhase.HANDED_OVER)
        return value

    def resume(self, transaction: OpenTransaction) -> None:
        """Carry on what another producer began."""
        if transaction.transactional_id != self.transactional_id:
            raise ValueError(
                f"this producer has transactional.id={self.transactional_id}, "
                f"the transaction is of {transaction.transactional_id}"
            )
        self.check("resume_transaction")
        self._start_clean()
        self.version = transaction.version
        self.sequences.identify(transaction.producer_id, transaction.epoch, transaction.next_sequences)
        self._added.update(transaction.partitions)
        self._groups.update(transaction.groups)
        # Other processes may have written without reporting it: ending must send EndTxn.
        self._has_written = True
        self.enter(ProducerPhase.IN_TRANSACTION, "resume_transaction")


def _added_codes(response: AddPartitionsToTxnResponse) -> list[int]:
    return [
        item.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for item in topic.results_by_partition
    ]


async def settled(batches: Sequence[Batch]) -> None:
    """Wait until batches are delivered or given up; nothing is raised."""
    for batch in batches:
        if not batch.is_settled:
            promise: Promise[None] = Promise()
            batch.when_settled(batch.record_count, _resolve(promise))
            await promise


def _resolve(promise: Promise[None]) -> Callable[[], None]:
    return lambda: promise.resolve(None)
