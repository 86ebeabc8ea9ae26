"""Produce: validate and append each partition's batch, and respond as its acks require.

A batch that begins a transaction in its partition is appended when the transaction coordinator has confirmed
that the partition is part of it, or has added it (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import Final

from klamm.broker.cluster.topic_names import ADMIN_CLIENT_ID, INTERNAL_TOPICS
from klamm.broker.net.context import CloseConnectionError, HandlerResult, HeldResponse, RequestContext
from klamm.broker.partitions.flush_wait import remember_write
from klamm.broker.partitions.produce_items import Item, check_acks, check_request, is_of_transaction, items_of
from klamm.broker.partitions.produce_wait import ProduceWait, SingleWait, name_leaders
from klamm.broker.partitions.registry import Partition
from klamm.broker.partitions.validation import BatchRefusedError, checked_batch
from klamm.broker.partitions.verification import (
    ErrorCodes,
    Verification,
    verification_error,
)
from klamm.broker.services import Services
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from klamm.protocol.types import Buffer, TopicPartition
from klamm.records.batch import TRANSACTIONAL_BIT, BatchHeader
from klamm.records.compression import Codec
from klamm.records.core import sound_header
from klamm.storage.log import AppendOrigin, LogError, LogTransactions, NotContinuedError, PartitionLog
from klamm.storage.producer_state import NO_GUARD

_OF_CLIENT: Final = AppendOrigin.CLIENT  # an enum's member is looked up slowly
_LZ4: Final = Codec.LZ4
_ZSTD: Final = Codec.ZSTD
_UNKNOWN: Final = ErrorCode.unknown_server_error
_DEFAULT_FLUSH_TIMEOUT_MS: Final = 30_000  # Kafka's default of request.timeout.ms
# With every other error of an append Kafka returns the log start offset.
_WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.corrupt_message,
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.kafka_storage_error,
    }
)


def handle(
    services: Services, context: RequestContext, request: ProduceRequest
) -> HandlerResult[ProduceResponse]:
    """Append the valid batches; acks decide how long the response waits."""
    acks = request.acks
    if len(request.topic_data) == 1 and (acks == -1 or acks == 1):  # noqa: PLR1714 - twice as fast as a set
        (topic,) = request.topic_data
        if len(topic.partition_data) == 1:
            answer = _handle_one(services, context, request, topic, topic.partition_data[0])
            if answer is not None:
                return answer
    response, items = items_of(services, request)
    check_request(request, items)
    unverified = _unverified(services, request, items)
    if unverified:
        return _verify_and_append(services, context, request, response, items, unverified)
    return _append_all(services, context, request, response, items)


def _unverified(services: Services, request: ProduceRequest, items: Iterable[Item]) -> list[Item]:
    """The batches that begin a transaction in their partition, and must be verified by the coordinator."""
    adds = request.adds_partitions
    is_checked = adds or services.config.transaction_partition_verification_enable
    unverified = []
    for item in items:
        header, partition = item.header, item.partition
        if item.response.error_code or header is None or not is_of_transaction(header):
            continue
        if not is_checked or partition is None or partition.error_code is not NO_ERROR:
            continue
        item.guard = NO_GUARD
        # A client may write to no internal topic: such a partition is verified, but never added.
        if adds and item.topic in INTERNAL_TOPICS:
            continue
        if not partition.transactions.has_open_transaction(header.producer_id, header.producer_epoch):
            unverified.append(item)
    return unverified


def _verify_and_append(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    response: ProduceResponse,
    items: Sequence[Item],
    unverified: Sequence[Item],
) -> HandlerResult[ProduceResponse]:
    """Nothing of the request is appended before the coordinator has answered, as in Kafka."""
    adds = request.adds_partitions
    header = unverified[0].header
    assert header is not None
    producer_id, epoch = header.producer_id, header.producer_epoch  # the same in all of them
    beginning = _Beginning(services, context, request, response, items, producer_id)
    for item in unverified:
        assert item.partition is not None
        assert item.header is not None
        log = item.partition.transactions
        try:
            item.guard = log.begin_verification(producer_id, epoch, item.header.base_sequence, adds)
        except LogError as error:
            item.refuse(error.error_code)
            continue
        beginning.begun.append((item, log))
        beginning.names.append(item.partition.name)
    names = beginning.names
    if not names:
        return _append_all(services, context, request, response, items)
    verification = Verification(
        services, request.transactional_id or "", (producer_id, epoch), names, adds, adds
    )
    return verification.then(beginning.carry_out, beginning.end)


class _Beginning:
    """Batches that begin a transaction in their partitions, until the coordinator has answered."""

    __slots__ = ("begun", "context", "items", "names", "producer_id", "request", "response", "services")

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        request: ProduceRequest,
        response: ProduceResponse,
        items: Sequence[Item],
        producer_id: int,
    ) -> None:
        self.services = services
        self.context = context
        self.request = request
        self.response = response
        self.items = items
        self.producer_id = producer_id
        self.begun: list[tuple[Item, LogTransactions]] = []
        self.names: list[TopicPartition] = []

    def carry_out(self, error_codes: ErrorCodes) -> ProduceResponse | HeldResponse[ProduceResponse] | None:
        """The coordinator has answered: append what it has confirmed."""
        for name, (item, _) in zip(self.names, self.begun, strict=True):
            error_code = error_codes.get(name, _UNKNOWN)
            if error_code is not NO_ERROR:
                _refuse_unverified(self.request, item, error_code)
        return _append_all(self.services, self.context, self.request, self.response, self.items)

    def end(self) -> None:
        """The request is done."""
        for item, log in self.begun:
            assert item.guard is not None
            log.end_verification(self.producer_id, item.guard)


def _refuse_unverified(request: ProduceRequest, item: Item, cause: ErrorCode) -> None:
    error_code = verification_error(
        cause,
        knows_abortable=request.knows_transaction_abortable,
        knows_concurrent=request.adds_partitions,
    )
    message = None
    if error_code is ErrorCode.invalid_txn_state:
        message = "Partition was not added to the transaction"
    elif error_code is ErrorCode.not_enough_replicas:
        message = (
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {cause.name.upper()}"
        )
    item.refuse(error_code, message)


def _append_all(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    response: ProduceResponse,
    items: Sequence[Item],
) -> ProduceResponse | HeldResponse[ProduceResponse] | None:
    acks = request.acks
    check_acks(request, items)
    wait: ProduceWait | None = None
    lines = [(item.topic, item.response) for item in items]
    now_ms, timestamp_ms = services.clock.now_ms(), services.clock.timestamp_ms()
    for item in items:
        line, partition = item.response, item.partition
        if not line.error_code:
            last_offset = _append_item(services, context, item, acks, now_ms, timestamp_ms)
            if last_offset >= 0 and partition is not None and _waits(acks, partition.log, last_offset):
                if wait is None:
                    wait = ProduceWait(services, context, response, lines, _flush_timeout_ms(request))
                wait.hold(partition, line, last_offset)
        if line.error_code and partition is not None:
            _count_refusal(item, partition)
    if acks != -1:
        for item in items:
            if item.partition is not None:
                remember_write(context.written, item.partition)
    if acks == 0:
        _close_on_error(items)
        return None
    if wait is not None:
        return wait
    name_leaders(services.image, context.listener, response, lines)
    return response


def _handle_one(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    guard: int | None = None,
) -> HandlerResult[ProduceResponse]:
    """The fast path for a request of one ordinary batch, as most are.

    None when it is not one: then nothing has been done, and the general path decides. A batch that begins a
    transaction is verified first, and comes here again with its guard.
    """
    name = topic.name
    if request.uses_topic_ids:
        state = services.image.topic_by_id(topic.topic_id)
        name = "" if state is None else state.name
    partition = services.partitions.get(name, data.index)
    if partition is None or partition.error_code is not NO_ERROR or name in INTERNAL_TOPICS:
        return None
    log = partition.log
    config = log.config
    if not config.takes_batches_as_they_come or services.validation.every_record:
        return None
    batch = data.records
    header = sound_header(batch, config.max_batch_bytes, _ZSTD if request.allows_zstd else _LZ4)
    clock = services.clock
    timestamp_ms = clock.timestamp_ms()
    latest_ms = timestamp_ms + config.message_timestamp_after_max_ms
    if header is None or not 0 <= header.base_timestamp_ms <= header.max_timestamp_ms <= latest_ms:
        return None
    assert batch is not None
    is_transactional = header.attributes & TRANSACTIONAL_BIT != 0
    if is_transactional and (request.transactional_id is None or header.producer_id < 0):
        return None
    now_ms = clock.now_ms()
    acks = request.acks
    line = PartitionProduceResponse(data.index)
    response = ProduceResponse([TopicProduceResponse(topic.topic_id, topic.name, [line])])
    is_continued = is_transactional and guard is None
    try:
        last_offset = _append(
            services, partition, log, line, batch, header.record_count, header, guard, acks, now_ms,
            timestamp_ms, is_continued,
        )  # fmt: skip
    except NotContinuedError:
        return _begin_one(services, context, request, topic, data, partition, header)
    if last_offset < 0:
        partition.counters.refused(line.error_code, len(batch))
        return response
    if log.high_watermark > last_offset:
        return response
    if acks == 1 and log.is_written:
        remember_write(context.written, partition)
        return response
    timeout_ms = _flush_timeout_ms(request)
    return SingleWait(services, context, response, line, partition, last_offset, timeout_ms)


def _begin_one(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    partition: Partition,
    header: BatchHeader,
) -> HandlerResult[ProduceResponse]:
    """Append the one batch of a request when the coordinator has confirmed the transaction that it begins.

    None when it begins none or may not: then nothing has been done, and the general path decides.
    """
    is_checked = services.config.transaction_partition_verification_enable or request.adds_partitions
    log, producer_id = partition.transactions, header.producer_id
    if not is_checked or log.has_open_transaction(producer_id, header.producer_epoch):
        return None
    try:
        guard = log.begin_verification(
            producer_id, header.producer_epoch, header.base_sequence, request.adds_partitions
        )
    except LogError:
        return None
    verification = Verification(
        services,
        request.transactional_id or "",
        (producer_id, header.producer_epoch),
        [partition.name],
        request.adds_partitions,
        request.adds_partitions,
    )

    def append(error_codes: ErrorCodes) -> ProduceResponse | HeldResponse[ProduceResponse] | None:
        error_code = error_codes.get(partition.name, _UNKNOWN)
        if error_code is NO_ERROR:
            answer = _handle_one(services, context, request, topic, data, guard)
            if answer is not None:
                assert not isinstance(answer, Awaitable)  # with its guard, it is not verified again
                return answer
        response, (item,) = items_of(services, request)
        item.guard = guard
        if error_code is not NO_ERROR:
            _refuse_unverified(request, item, error_code)
        return _append_all(services, context, request, response, (item,))

    return verification.then(append, lambda: log.end_verification(producer_id, guard))


def _waits(acks: int, log: PartitionLog, last_offset: int) -> bool:
    """Whether a response waits for the flush of a batch.

    With acks=1 too, if until then the broker's memory has the only copy.
    """
    if acks == 0:
        return False
    return log.high_watermark <= last_offset and not (acks == 1 and log.is_written)


def _flush_timeout_ms(request: ProduceRequest) -> int:
    """How long an acks=all answer waits for the flush.

    Clients send the time to wait for replicas. Zero therefore means "do not wait for replicas", which Kafka
    answers with success; it must not mean "do not wait for the disk". A positive value also limits the wait
    for a slow disk.
    """
    return request.timeout_ms if request.timeout_ms > 0 else _DEFAULT_FLUSH_TIMEOUT_MS


def _append(
    services: Services,
    partition: Partition,
    log: PartitionLog,
    line: PartitionProduceResponse,
    batch: Buffer,
    record_count: int,
    header: BatchHeader | None,
    guard: int | None,
    acks: int,
    now_ms: int,
    timestamp_ms: int,
    must_continue: bool = False,
) -> int:
    """Append a batch that is valid; the offset of its last record, or -1 if the log refuses it.

    The line of the response says either. Without a `header` the log reads it. Raises NotContinuedError.
    """
    try:
        # By position, as keywords double the time of a call: batch, now_ms, timestamp_ms, origin,
        # marker_bumps_epoch, guard, header, write_later, must_continue.
        result = log.append(
            batch, now_ms, timestamp_ms, _OF_CLIENT, False, guard, header, acks == -1, must_continue
        )
    except LogError as error:
        line.error_code, line.base_offset = int(error.error_code), -1
        partition.note(error)
        if error.error_code not in _WITHOUT_LOG_START:
            line.log_start_offset = log.log_start_offset
        return -1
    if log.sync_is_due(now_ms):
        services.flusher.mark(partition)
    line.base_offset, last_offset, line.log_append_time_ms, is_duplicate = result
    counters = partition.counters
    counters.total_produce_requests += 1
    if not is_duplicate:
        counters.messages_in += record_count
        counters.bytes_in += len(batch)
    line.log_start_offset = log.log_start_offset
    return last_offset


def _append_item(
    services: Services, context: RequestContext, item: Item, acks: int, now_ms: int, timestamp_ms: int
) -> int:
    """Validate and append; the offset of the last record, or -1 if the batch is refused."""
    if item.topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        item.refuse(ErrorCode.invalid_topic_exception)
        return -1
    partition = item.partition
    if partition is None or partition.error_code is not NO_ERROR:
        item.refuse(ErrorCode.not_leader_or_follower if partition is None else partition.error_code)
        return -1
    assert item.header is not None
    log = partition.log
    batch, header = item.batch, None
    if item.checked_for is log.config:
        header = item.header
    else:
        try:
            batch = checked_batch(batch, item.header, log.config, services.validation, timestamp_ms)
        except BatchRefusedError as error:
            item.refuse(error.error_code, error.message)
            if error.error_code not in _WITHOUT_LOG_START:
                item.response.log_start_offset = log.log_start_offset
            item.response.record_errors = [BatchIndexAndErrorMessage(*each) for each in error.record_errors]
            return -1
    return _append(
        services, partition, log, item.response, batch, item.header.record_count, header, item.guard, acks,
        now_ms, timestamp_ms,
    )  # fmt: skip


def _count_refusal(item: Item, partition: Partition) -> None:
    is_keyless = item.response.error_code == ErrorCode.invalid_record and item.header is not None
    partition.counters.refused(
        item.response.error_code,
        len(item.batch),
        keyless_records=len(item.response.record_errors) if is_keyless else 0,
        has_bad_magic=item.is_corrupt,
    )


def _close_on_error(items: Iterable[Item]) -> None:
    """Close the connection on an error: with acks=0 there is no response to report it."""
    for item in items:
        if item.response.error_code:
            error = ErrorCode(item.response.error_code).name
            raise CloseConnectionError(
                f"{item.topic}-{item.response.index}: {error}, in a request with acks=0"
            )
