"""WriteTxnMarkers: a transaction coordinator, or an administrator, ends transactions in partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.broker.cluster.topic_names import OFFSETS_TOPIC
from klamm.broker.net.context import HandlerResult, HeldResponse, RequestContext
from klamm.broker.partitions.markers import MarkerResults, TransactionMarker
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from klamm.protocol.types import TopicPartition

UNKNOWN_VERSION: Final = -1


def handle(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest
) -> HandlerResult[WriteTxnMarkersResponse]:
    """Write every marker; the answer waits until all of them are durable."""
    writes = []
    for wanted in request.markers:
        marker = TransactionMarker(
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.transaction_result,
            wanted.coordinator_epoch,
            bumps_epoch=wanted.transaction_version >= 2,
            is_of_unknown_version=wanted.transaction_version == UNKNOWN_VERSION and wanted.producer_id >= 0,
        )
        partitions = _partitions(wanted)
        if marker.is_of_no_producer and any(
            name.topic != OFFSETS_TOPIC and services.partitions.get(*name) is not None for name in partitions
        ):
            return _failed(request)  # as Kafka, also for the markers that it has written by then
        writes.append((wanted.producer_id, services.markers.write(marker, partitions)))
    return MarkersWait(writes).answer()


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]


def _failed(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """An error for each partition; of several markers of one producer the last counts."""
    failed = {
        marker.producer_id: dict.fromkeys(_partitions(marker), ErrorCode.unknown_server_error)
        for marker in request.markers
    }
    return _response(failed.items())


class MarkersWait(HeldResponse[WriteTxnMarkersResponse]):
    """A request with several markers: complete when the last of them is."""

    __slots__ = ("_pending", "_writes")

    def __init__(self, writes: list[tuple[int, HeldResponse[MarkerResults]]]) -> None:
        super().__init__()
        self._writes = writes
        self._pending = 0
        for _, write in writes:
            if not write.is_done:
                self._pending += 1
                write.listener = self._written

    def _written(self) -> None:
        self._pending -= 1
        if not self._pending:
            self.keep(self._results())

    def answer(self) -> HandlerResult[WriteTxnMarkersResponse]:
        return self if self._pending else self._results()

    def _results(self) -> WriteTxnMarkersResponse:
        # A marker for no partition is not in the response.
        return _response(
            (producer_id, done) for producer_id, write in self._writes if (done := write.response)
        )


def _response(results: Iterable[tuple[int, MarkerResults]]) -> WriteTxnMarkersResponse:
    # Keyed by producer id, the only field of the response that distinguishes two markers.
    by_producer: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for producer_id, error_codes in results:
        topics = by_producer.setdefault(producer_id, {})
        for (topic, partition), error_code in error_codes.items():
            topics.setdefault(topic, {})[partition] = error_code
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic,
                        [
                            WritableTxnMarkerPartitionResult(partition, int(error_code))
                            for partition, error_code in partitions.items()
                        ],
                    )
                    for topic, partitions in topics.items()
                ],
            )
            for producer_id, topics in by_producer.items()
        ]
    )
