"""Transactions of a cluster: list, describe, find those that hang, abort them, fence their producers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from klamm.client.admin.model import (
    HangingTransaction,
    ListedTransaction,
    ProducerDescription,
    ProducerIdentity,
    TransactionDescription,
)
from klamm.client.admin.results import Results
from klamm.client.admin.topics import describe_producers
from klamm.client.calls import TRANSACTION, Calls, by_topic
from klamm.errors import BrokerError, KlammError, broker_error
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from klamm.protocol.messages.inspect_transactions import InspectTransactionsRequest
from klamm.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from klamm.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from klamm.protocol.types import TopicPartition

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)


async def list_transactions(
    calls: Calls,
    *,
    states: Sequence[str],
    producer_ids: Sequence[int],
    longer_than_ms: int | None,
    id_pattern: str | None,
    timeout_ms: int | None,
) -> list[ListedTransaction]:
    """The transactional ids of all coordinators, in order."""
    deadline = calls.deadline("listing transactions", timeout_ms)
    await calls.cluster_known(deadline)
    request = ListTransactionsRequest(
        list(states), list(producer_ids), -1 if longer_than_ms is None else longer_than_ms, id_pattern
    )
    found: list[ListedTransaction] = []
    for broker_id in sorted(calls.core.metadata.cluster.brokers):
        while True:
            response: ListTransactionsResponse = await calls.to_broker(
                broker_id, ApiKey.LIST_TRANSACTIONS, request, deadline
            )
            if not response.error_code:
                break
            await deadline.pause(broker_error(response.error_code, "listing transactions"))
        if response.unknown_state_filters:
            raise ValueError(
                f"unknown transaction state {', '.join(response.unknown_state_filters)}: "
                f"expected one of {', '.join(STATES)}"
            )
        found += [
            ListedTransaction(item.transactional_id, item.producer_id, item.transaction_state, broker_id)
            for item in response.transaction_states
        ]
    return sorted(found)


async def describe_transactions(
    calls: Calls, transactional_ids: Sequence[str], *, timeout_ms: int | None
) -> Results[str, TransactionDescription]:
    """Describe transactions, each by its coordinator."""
    deadline = calls.deadline("describing transactions", timeout_ms)
    results: dict[str, TransactionDescription | KlammError] = {}
    for transactional_id in transactional_ids:
        request = DescribeTransactionsRequest([transactional_id])
        try:
            response, coordinator_id = await calls.to_coordinator(
                transactional_id,
                ApiKey.DESCRIBE_TRANSACTIONS,
                request,
                deadline,
                _described_codes,
                kind=TRANSACTION,
            )
        except BrokerError as error:
            results[transactional_id] = error
            continue
        (item,) = response.transaction_states
        if item.error_code:
            results[transactional_id] = broker_error(
                item.error_code, f"transactional.id {transactional_id}", _hint(item.error_code)
            )
        else:
            results[transactional_id] = _description(item, coordinator_id)
    return Results(results)


async def inspect_transactions(
    calls: Calls, transactional_ids: Sequence[str], *, timeout_ms: int | None
) -> Results[str, dict[str, Any]]:
    """What klamm's coordinators know of ids. UnsupportedVersionError: the broker is not klamm's."""
    deadline = calls.deadline("inspecting transactions", timeout_ms)
    results: dict[str, dict[str, Any] | KlammError] = {}
    for transactional_id in transactional_ids:
        response, coordinator_id = await calls.to_coordinator(
            transactional_id,
            ApiKey.INSPECT_TRANSACTIONS,
            InspectTransactionsRequest([transactional_id]),
            deadline,
            lambda answer: [item.error_code for item in answer.transactions],
            kind=TRANSACTION,
        )
        (item,) = response.transactions
        if item.error_code:
            results[transactional_id] = broker_error(
                item.error_code, f"transactional.id {transactional_id}", _hint(item.error_code)
            )
        else:
            results[transactional_id] = {**json.loads(item.content), "coordinator": coordinator_id}
    return Results(results)


def _described_codes(response: DescribeTransactionsResponse) -> list[int]:
    return [item.error_code for item in response.transaction_states]


def _hint(error_code: int) -> str | None:
    return "there is no such transactional id" if error_code == ErrorCode.transactional_id_not_found else None


def _description(item: TransactionState, coordinator_id: int) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=item.transactional_id,
        coordinator_id=coordinator_id,
        state=item.transaction_state,
        producer_id=item.producer_id,
        producer_epoch=item.producer_epoch,
        timeout_ms=item.transaction_timeout_ms,
        start_time_ms=None if item.transaction_start_time_ms < 0 else item.transaction_start_time_ms,
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic, number) for topic in item.topics for number in topic.partitions
            )
        ),
    )


async def abort_transaction(
    calls: Calls,
    partition: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    *,
    timeout_ms: int | None,
) -> None:
    """Write an abort marker to one partition, past the transaction coordinator."""
    deadline = calls.deadline(
        f"aborting the transaction of producer {producer_id} on {partition}", timeout_ms
    )
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name, numbers) for name, numbers in by_topic([partition]).items()],
        coordinator_epoch=coordinator_epoch,
    )
    while True:
        led, failed = await calls.leaders_of([partition], deadline)
        error: KlammError
        if failed:
            error = failed[partition]
            if isinstance(error, BrokerError) and error.error_code == ErrorCode.unknown_topic_or_partition:
                raise error
        else:
            (broker_id,) = led
            response: WriteTxnMarkersResponse = await calls.to_broker(
                broker_id, ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest([marker]), deadline
            )
            codes = [
                item.error_code
                for result in response.markers
                for topic in result.topics
                for item in topic.partitions
            ]
            code = codes[0] if codes else ErrorCode.unknown_server_error
            if not code:
                return
            error = broker_error(
                code, f"abort marker of producer {producer_id} on {partition}", _marker(code)
            )
        await deadline.pause(error)
        await calls.refresh(deadline)


def _marker(error_code: int) -> str | None:
    if error_code == ErrorCode.invalid_producer_epoch:
        return "the partition has a newer epoch of this producer"
    if error_code == ErrorCode.transaction_coordinator_fenced:
        return "the partition has seen a marker with a higher coordinator epoch"
    return None


async def fence_producers(
    calls: Calls, transactional_ids: Sequence[str], *, timeout_ms: int | None
) -> Results[str, ProducerIdentity]:
    """Take each id from its producer: its open transaction is aborted and it cannot go on."""
    deadline = calls.deadline("fencing producers", timeout_ms)
    results: dict[str, ProducerIdentity | KlammError] = {}
    for transactional_id in transactional_ids:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=min(60_000, deadline.remaining_ms()),
        )
        while True:
            try:
                response, _ = await calls.to_coordinator(
                    transactional_id,
                    ApiKey.INIT_PRODUCER_ID,
                    request,
                    deadline,
                    _init_code,
                    max_version=5,
                    kind=TRANSACTION,
                )
            except BrokerError as error:
                results[transactional_id] = error
                break
            if not response.error_code:
                results[transactional_id] = ProducerIdentity(response.producer_id, response.producer_epoch)
                break
            refused = broker_error(response.error_code, f"fencing transactional.id {transactional_id}")
            if not refused.retriable:
                results[transactional_id] = refused
                break
            await deadline.pause(refused)  # its transaction is being aborted
    return Results(results)


def _init_code(response: InitProducerIdResponse) -> tuple[int]:
    return (response.error_code,)


async def find_hanging_transactions(
    calls: Calls,
    partitions: Sequence[TopicPartition],
    *,
    now_ms: int,
    older_than_ms: int,
    timeout_ms: int | None,
) -> list[HangingTransaction]:
    """Transactions that a partition has open and no coordinator will end."""
    producers = (await describe_producers(calls, partitions, timeout_ms=timeout_ms)).unwrap()
    open_ones = [
        (partition, producer)
        for partition, found in producers.items()
        for producer in found
        if producer.current_txn_start_offset >= 0 and now_ms - producer.last_timestamp_ms >= older_than_ms
    ]
    if not open_ones:
        return []
    owners = await _owners(calls, {producer.producer_id for _, producer in open_ones}, timeout_ms)
    described = await describe_transactions(calls, sorted(set(owners.values())), timeout_ms=timeout_ms)
    hanging = []
    for partition, producer in open_ones:
        transactional_id = owners.get(producer.producer_id)
        known = described.successes.get(transactional_id) if transactional_id is not None else None
        if known is not None and _will_end(known, partition, producer):
            continue
        hanging.append(
            HangingTransaction(
                partition=partition,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                coordinator_epoch=producer.coordinator_epoch,
                start_offset=producer.current_txn_start_offset,
                last_timestamp_ms=producer.last_timestamp_ms,
                transactional_id=transactional_id,
            )
        )
    return sorted(hanging, key=lambda item: (item.partition, item.start_offset))


async def _owners(calls: Calls, producer_ids: Iterable[int], timeout_ms: int | None) -> Mapping[int, str]:
    listed = await list_transactions(
        calls,
        states=(),
        producer_ids=sorted(producer_ids),
        longer_than_ms=None,
        id_pattern=None,
        timeout_ms=timeout_ms,
    )
    return {item.producer_id: item.transactional_id for item in listed}


def _will_end(
    known: TransactionDescription, partition: TopicPartition, producer: ProducerDescription
) -> bool:
    return known.producer_id == producer.producer_id and partition in known.partitions
