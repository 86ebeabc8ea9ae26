"""What a transaction needs from other brokers: its markers in their partitions, and their coordinators' word.

A partition or shard led here is served by a function call, another one by a request to its leader, as the
image names it. Nothing is repeated here: a coordinator sends markers again until they are written, and a
producer repeats a batch that could not be verified.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from klamm.broker.cluster.topic_names import TRANSACTIONS_TOPIC
from klamm.broker.net.context import HeldResponse
from klamm.coordinator.transaction.remembered import EPOCH_BUMP_VERSION
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from klamm.broker.partitions.markers import MarkerResults, TransactionMarker
    from klamm.broker.partitions.registry import Partition
    from klamm.broker.partitions.verification import ErrorCodes
    from klamm.broker.services import Services

Response = TypeVar("Response")


class RemoteTransactions:
    """Sends markers and verifications to the brokers that they concern."""

    def __init__(self, services: Services) -> None:
        self._services = services

    # --- markers ---------------------------------------------------------------------------------------

    def write(
        self,
        marker: TransactionMarker,
        partitions: Sequence[TopicPartition],
        after: Partition | None = None,
    ) -> list[tuple[Sequence[TopicPartition], HeldResponse[MarkerResults]]]:
        """Write a marker to partitions; a result for those of each leader.

        Those that come after what another partition has are all led here.
        """
        if after is not None:
            return [(partitions, self._services.markers.write(marker, partitions, after))]
        here = self._services.image.broker_id
        return [
            (
                named,
                self._services.markers.write(marker, named)
                if leader_id == here
                else self._send(leader_id, marker, named),
            )
            for leader_id, named in self._by_leader(partitions).items()
        ]

    def _by_leader(self, partitions: Sequence[TopicPartition]) -> Mapping[int, list[TopicPartition]]:
        """Partitions without a leader, or of a deleted topic, count as led here: that gives their error."""
        image = self._services.image
        by_leader: dict[int, list[TopicPartition]] = {}
        for name in partitions:
            state = image.partition(*name)
            leader_id = image.broker_id if state is None or state.leader_id < 0 else state.leader_id
            by_leader.setdefault(leader_id, []).append(name)
        return by_leader

    def _send(
        self, leader_id: int, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> HeldResponse[MarkerResults]:
        request = WriteTxnMarkersRequest(
            [
                WritableTxnMarker(
                    marker.producer_id,
                    marker.producer_epoch,
                    marker.is_commit,
                    [WritableTxnMarkerTopic(topic, indexes) for topic, indexes in _by_topic(partitions)],
                    marker.coordinator_epoch,
                    EPOCH_BUMP_VERSION if marker.bumps_epoch else 0,
                )
            ]
        )
        asked = self._services.peers.ask(leader_id, ApiKey.WRITE_TXN_MARKERS, request)
        return _kept(asked, partitions, _marker_results)

    # --- verification ----------------------------------------------------------------------------------

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> HeldResponse[ErrorCodes]:
        """Ask the coordinator whether partitions are part of a transaction; with `add` they become part."""
        transactions, image = self._services.transactions, self._services.image
        shard = image.partition(TRANSACTIONS_TOPIC, transactions.coordinator.partition_for(transactional_id))
        if shard is None or shard.leader_id in (image.broker_id, -1):
            return transactions.verify(transactional_id, producer_id, producer_epoch, partitions, add=add)
        topics = [AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in _by_topic(partitions)]
        transaction = AddPartitionsToTxnTransaction(
            transactional_id, producer_id, producer_epoch, not add, topics
        )
        request = AddPartitionsToTxnRequest([transaction])
        asked = self._services.peers.ask(shard.leader_id, ApiKey.ADD_PARTITIONS_TO_TXN, request)
        return _kept(asked, partitions, _verification_results)


def _by_topic(partitions: Sequence[TopicPartition]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return list(topics.items())


def _kept(
    asked: Future[Response],
    partitions: Sequence[TopicPartition],
    results: Callable[[Response], Mapping[TopicPartition, ErrorCode]],
) -> HeldResponse[Any]:
    """The error code of each partition, once there is a response; if there is none, NETWORK_EXCEPTION."""
    kept: HeldResponse[Mapping[TopicPartition, ErrorCode]] = HeldResponse()
    unanswered = dict.fromkeys(partitions, ErrorCode.network_exception)

    def done(asked: Future[Response]) -> None:
        # Also without a response this reads the error: else the loop would log it.
        is_answered = not asked.cancelled() and asked.exception() is None
        kept.keep(unanswered | dict(results(asked.result())) if is_answered else unanswered)

    asked.add_done_callback(done)
    return kept


def _marker_results(response: WriteTxnMarkersResponse) -> Mapping[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.error_code)
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    }


def _verification_results(response: AddPartitionsToTxnResponse) -> Mapping[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for each in topic.results_by_partition
    }
