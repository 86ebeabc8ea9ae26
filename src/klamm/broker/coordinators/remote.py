"""What a transaction needs from other brokers: its markers in their partitions, and their coordinators' word.

Nothing is repeated here: a coordinator sends markers again until they are written, and a producer repeats a
batch that could not be verified.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

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
    from klamm.broker.cluster.peers import Peers
    from klamm.broker.partitions.markers import MarkerResults, TransactionMarker
    from klamm.broker.partitions.verification import ErrorCodes

Response = TypeVar("Response")


class RemoteTransactions:
    """Sends markers and verifications to the brokers that they concern."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def write(
        self, leader_id: int, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> HeldResponse[MarkerResults]:
        """Write a marker to partitions that another broker leads."""
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
        asked = self._peers.ask(leader_id, ApiKey.WRITE_TXN_MARKERS, request)
        return _kept(asked, partitions, _marker_results)

    def verify(
        self,
        leader_id: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> HeldResponse[ErrorCodes]:
        """Ask another coordinator whether partitions are part of a transaction; with `add` they become it."""
        topics = [AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in _by_topic(partitions)]
        transaction = AddPartitionsToTxnTransaction(
            transactional_id, producer_id, producer_epoch, not add, topics
        )
        request = AddPartitionsToTxnRequest([transaction])
        asked = self._peers.ask(leader_id, ApiKey.ADD_PARTITIONS_TO_TXN, request)
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
