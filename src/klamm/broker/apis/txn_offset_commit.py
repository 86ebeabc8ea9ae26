"""TxnOffsetCommit: offsets that a group's transaction commits.

To the transaction, the group is one more partition: that of `__consumer_offsets` which holds the group.
The first commit of a transaction is verified with the transaction coordinator, as the first batch of any
partition is.
"""

from __future__ import annotations

from klamm.broker.cluster.topic_names import OFFSETS_TOPIC
from klamm.broker.net.context import HandlerResult, HeldResponse, RequestContext
from klamm.broker.partitions.verification import ErrorCodes, Verification
from klamm.broker.services import Services
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from klamm.protocol.types import TopicPartition
from klamm.storage.log import LogError, LogTransactions


def handle(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> HandlerResult[TxnOffsetCommitResponse]:
    """The group coordinator's answer, once the transaction is known to include the group."""
    groups = services.groups
    refusal = groups.coordinator.txn_commit_refusal(request)
    if refusal is not None:
        return refusal
    partition = services.partitions.get(OFFSETS_TOPIC, groups.coordinator.partition_for(request.group_id))
    if partition is None or partition.error_code is not NO_ERROR:
        # Another broker leads it now, and the shard has not been unloaded yet.
        return _refused(services, request, ErrorCode.not_coordinator)
    log = partition.transactions
    is_checked = services.config.transaction_partition_verification_enable or request.adds_offsets
    if not is_checked or log.has_open_transaction(request.producer_id, request.producer_epoch):
        return groups.ask(request, context)
    return _verify_and_commit(services, context, request, log, partition.name)


def _verify_and_commit(
    services: Services,
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    log: LogTransactions,
    name: TopicPartition,
) -> HandlerResult[TxnOffsetCommitResponse]:
    producer = (request.producer_id, request.producer_epoch)
    try:
        guard = log.begin_verification(*producer, 0, begins_at_zero=request.adds_offsets)
    except LogError as error:
        return _refused(services, request, error.error_code)
    verification = Verification(
        services, request.transactional_id, producer, [name], add=request.adds_offsets, retry=False
    )

    def commit(error_codes: ErrorCodes) -> TxnOffsetCommitResponse | HeldResponse[TxnOffsetCommitResponse]:
        error_code = error_codes.get(name, ErrorCode.unknown_server_error)
        if error_code is NO_ERROR and not (
            log.is_verified(request.producer_id, guard) or log.has_open_transaction(*producer)
        ):
            error_code = ErrorCode.invalid_txn_state  # a marker was written first
        if error_code is not NO_ERROR:
            return _refused(services, request, error_code)
        return services.groups.ask(request, context)

    return verification.then(commit, lambda: log.end_verification(request.producer_id, guard))


def _refused(
    services: Services, request: TxnOffsetCommitRequest, error_code: ErrorCode
) -> TxnOffsetCommitResponse:
    refusal = services.groups.coordinator.txn_commit_refusal(request, error_code)
    assert refusal is not None
    return refusal
