"""The transaction coordinator of one broker: finds the shard of an id, or answers why there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from klamm.coordinator.runtime.coordinator import ShardedCoordinator
from klamm.coordinator.runtime.log import LogUnavailableError
from klamm.coordinator.runtime.outcome import Context
from klamm.coordinator.runtime.shard import ACTIVE
from klamm.coordinator.runtime.shard_host import ShardHost
from klamm.coordinator.transaction.add_partitions import verifies
from klamm.coordinator.transaction.config import TransactionConfig
from klamm.coordinator.transaction.machine import TransactionMachine
from klamm.coordinator.transaction.patterns import compile_pattern
from klamm.coordinator.transaction.refusals import error_response
from klamm.coordinator.transaction.remembered import (
    EPOCH_BUMP_VERSION,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionRecord,
)
from klamm.coordinator.transaction.requests import AddPartitions, PartitionErrors
from klamm.coordinator.transaction.state import Note, Transaction
from klamm.coordinator.transaction.states import KNOWN_LABELS
from klamm.coordinator.transaction.wire import (
    add_partitions_parts,
    added_response,
    as_older_client_knows,
    batch_response,
    partitions_of,
    refused_partitions,
)
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from klamm.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from klamm.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from klamm.protocol.types import TopicPartition

TRANSACTIONS_TOPIC: Final = "__transaction_state"


class PartitionDirectory(Protocol):
    """The coordinator's interface to topics."""

    def has_partition(self, partition: TopicPartition) -> bool: ...
    def is_internal(self, topic: str) -> bool: ...

    def offsets_partition(self, group_id: str) -> TopicPartition:
        """The partition of `__consumer_offsets` that has a group's offsets."""
        ...


class TransactionCoordinator(ShardedCoordinator[TransactionRecord, Note]):
    """Takes requests about transactional ids, whatever shard they are in; responses go to the host."""

    def __init__(
        self,
        config: TransactionConfig,
        *,
        partition_count: int,
        topics: PartitionDirectory,
        version: Callable[[], int],
        host: ShardHost,
        make_machine: Callable[[TransactionConfig, Callable[[], int]], TransactionMachine] = (
            TransactionMachine
        ),
        loading_patience_ms: int = 0,
        soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        super().__init__(
            TRANSACTIONS_TOPIC,
            partition_count=partition_count,
            make_machine=lambda: make_machine(config, version),
            error_response=error_response,
            host=host,
            loading_patience_ms=loading_patience_ms,
            soon=soon,
        )
        self._config = config
        self._topics = topics
        self.handlers = {
            AddPartitions: self._add,
            EndTxnRequest: self._end,
            InitProducerIdRequest: self._init,
            AddPartitionsToTxnRequest: self._add_partitions,
            AddOffsetsToTxnRequest: self._add_offsets,
            DescribeTransactionsRequest: self._describe,
            ListTransactionsRequest: self._list,
        }

    def transactions(self) -> Iterator[Transaction]:
        """Every transactional id of the shards that are served."""
        for shard in self.shards:
            if shard.status is ACTIVE and isinstance(shard.machine, TransactionMachine):
                yield from shard.machine.state.transactions.values()

    def confirms(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
    ) -> bool:
        """Whether partitions are part of the ongoing transaction, durably; if not, a request tells why.

        The first batch of each transaction in each partition asks. A request that is decided, and answered
        at once, costs ten times as much.
        """
        shard = self.shards.by_partition.get(self.partition_for(transactional_id))
        if shard is None or shard.status is not ACTIVE:
            return False
        assert isinstance(shard.machine, TransactionMachine)
        transaction = shard.machine.state.transactions.get(transactional_id)
        try:
            return (
                transaction is not None
                and verifies(transaction.stored, producer_id, producer_epoch, partitions)
                and shard.is_durable(transaction.stored_until)
            )
        except LogUnavailableError:
            return False

    def add(self, request: AddPartitions, context: Context) -> None:
        """Add partitions to a transaction, or verify that they are part of it. They are known to exist."""
        if not request.transactional_id:
            self._refuse(request, ErrorCode.invalid_request, context)
        else:
            self._to_shard(request.transactional_id, request, context)

    # --- one transactional id ------------------------------------------------------------------------

    def _init(self, request: InitProducerIdRequest, context: Context) -> None:
        if not request.knows_producer_fenced:
            context = self._merged(context, as_older_client_knows)
        error_code = self._init_refusal(request)
        if error_code is not NO_ERROR:
            self._refuse(request, error_code, context)
        else:
            assert request.transactional_id is not None
            self._to_shard(request.transactional_id, request, context)

    def _init_refusal(self, request: InitProducerIdRequest) -> ErrorCode:
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
            return ErrorCode.invalid_request
        if not request.transactional_id:
            return ErrorCode.invalid_request
        config = self._config
        if not config.transaction_two_phase_commit_enable:
            if request.enable2_pc:
                return ErrorCode.transactional_id_authorization_failed
            if request.keep_prepared_txn:
                return ErrorCode.unsupported_version
        if not request.enable2_pc:
            timeout_ms = request.transaction_timeout_ms
            if not 0 < timeout_ms <= config.transaction_max_timeout_ms:
                return ErrorCode.invalid_transaction_timeout
        return NO_ERROR

    def _end(self, request: EndTxnRequest, context: Context) -> None:
        if not request.knows_producer_fenced:
            context = self._merged(context, as_older_client_knows)
        if not request.transactional_id:
            self._refuse(request, ErrorCode.invalid_request, context)
        else:
            self._to_shard(request.transactional_id, request, context)

    def _add(self, request: AddPartitions, context: Context) -> None:
        refused = refused_partitions(request, self._topics.has_partition)
        if refused is not None:
            self._send(context.token, refused)
        else:
            self.add(request, context)

    def _add_offsets(self, request: AddOffsetsToTxnRequest, context: Context) -> None:
        partition = self._topics.offsets_partition(request.group_id)

        def merged(response: PartitionErrors) -> AddOffsetsToTxnResponse:
            answer = AddOffsetsToTxnResponse(error_code=response.errors[partition])
            return answer if request.knows_producer_fenced else as_older_client_knows(answer)

        context = self._merged(context, merged)
        added = AddPartitions(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            partitions=frozenset((partition,)),
        )
        if not request.transactional_id:
            self._refuse(added, ErrorCode.invalid_request, context)
        else:
            self._to_shard(request.transactional_id, added, context)

    # --- many ----------------------------------------------------------------------------------------

    def _add_partitions(self, request: AddPartitionsToTxnRequest, context: Context) -> None:
        if not request.is_batched:
            added = AddPartitions(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                partitions=partitions_of(request.v3_and_below_topics),
                internal_partitions=frozenset(
                    partition
                    for partition in partitions_of(request.v3_and_below_topics)
                    if self._topics.is_internal(partition.topic)
                ),
            )
            self._add(added, self._merged(context, partial(added_response, request)))
            return
        parts = add_partitions_parts(request, client_version=EPOCH_BUMP_VERSION)
        contexts = self._parts(context, len(parts), partial(batch_response, request))
        for part, part_context in zip(parts, contexts, strict=True):
            self._add(part, part_context)

    def _describe(self, request: DescribeTransactionsRequest, context: Context) -> None:
        names = request.transactional_ids
        contexts = self._parts(context, len(names), _merge_described)
        self._in_turns(
            partial(self._describe_one, name, part_context)
            for name, part_context in zip(names, contexts, strict=True)
        )

    def _describe_one(self, name: str, context: Context) -> None:
        request = DescribeTransactionsRequest(transactional_ids=(name,))
        if not name:
            self._refuse(request, ErrorCode.invalid_request, context)
        else:
            self._to_shard(name, request, context)

    def _list(self, request: ListTransactionsRequest, context: Context) -> None:
        error_code = self._list_refusal(request)
        if error_code is not NO_ERROR:
            self._refuse(request, error_code, context)
            return
        unknown = [label for label in request.state_filters if label not in KNOWN_LABELS]
        self._to_all_shards(request, partial(_merge_listed, list(dict.fromkeys(unknown))), context)

    def _list_refusal(self, request: ListTransactionsRequest) -> ErrorCode:
        if self.shards.is_stopped:
            return ErrorCode.coordinator_not_available
        if request.transactional_id_pattern:
            try:
                compile_pattern(request.transactional_id_pattern)
            except re.error:
                return ErrorCode.invalid_regular_expression
        return NO_ERROR


def _merge_described(answers: Sequence[DescribeTransactionsResponse]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[each for answer in answers for each in answer.transaction_states]
    )


def _merge_listed(
    unknown: list[str], answers: Sequence[ListTransactionsResponse]
) -> ListTransactionsResponse:
    for answer in answers:
        if answer.error_code:
            return answer
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[each for answer in answers for each in answer.transaction_states],
    )
