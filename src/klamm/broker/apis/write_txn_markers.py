"""WriteTxnMarkers: a transaction coordinator, or an administrator, ends transactions in partitions."""

from __future__ import annotations

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


def handle(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest
) -> HandlerResult[WriteTxnMarkersResponse]:
    """Write every marker; the answer waits until all of them are durable."""
    return MarkersWait(
        [(marker.producer_id, _write(services, marker)) for marker in request.markers]
    ).answer()


def _write(services: Services, marker: WritableTxnMarker) -> HeldResponse[MarkerResults]:
    partitions = [
        TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes
    ]
    return services.markers.write(
        TransactionMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            bumps_epoch=marker.transaction_version >= 2,
        ),
        partitions,
    )


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
        # Keyed by producer id, the only field of the response that distinguishes two markers.
        by_producer: dict[int, dict[str, dict[int, ErrorCode]]] = {}
        for producer_id, write in self._writes:
            for (topic, partition), error_code in (write.response or {}).items():
                topics = by_producer.setdefault(producer_id, {})
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
