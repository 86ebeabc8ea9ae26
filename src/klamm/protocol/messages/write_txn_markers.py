"""WriteTxnMarkers (key 27), versions 1 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class WritableTxnMarkerTopic(Message):
    """Part of the request."""

    __slots__ = ("name", "partition_indexes")
    SCHEMA = (
        (1, 2, "name", "string"),
        (1, 2, "partition_indexes", "[]int32"),
    )

    def __init__(
        self,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


class WritableTxnMarker(Message):
    """Part of the request."""

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "transaction_result",
        "topics",
        "coordinator_epoch",
        "transaction_version",
    )
    SCHEMA = (
        (1, 2, "producer_id", "int64"),
        (1, 2, "producer_epoch", "int16"),
        (1, 2, "transaction_result", "bool"),
        (1, 2, "topics", "[]WritableTxnMarkerTopic"),
        (1, 2, "coordinator_epoch", "int32"),
        (2, 2, "transaction_version", "int8"),
    )

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: Sequence[WritableTxnMarkerTopic] = (),
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"]):
    """WriteTxnMarkers, the request."""

    __slots__ = ("markers",)
    SCHEMA = ((1, 2, "markers", "[]WritableTxnMarker"),)

    def __init__(
        self,
        markers: Sequence[WritableTxnMarker] = (),
    ) -> None:
        self.markers = markers


class WritableTxnMarkerPartitionResult(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "error_code")
    SCHEMA = (
        (1, 2, "partition_index", "int32"),
        (1, 2, "error_code", "int16"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class WritableTxnMarkerTopicResult(Message):
    """Part of the response."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (1, 2, "name", "string"),
        (1, 2, "partitions", "[]WritableTxnMarkerPartitionResult"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[WritableTxnMarkerPartitionResult] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class WritableTxnMarkerResult(Message):
    """Part of the response."""

    __slots__ = ("producer_id", "topics")
    SCHEMA = (
        (1, 2, "producer_id", "int64"),
        (1, 2, "topics", "[]WritableTxnMarkerTopicResult"),
    )

    def __init__(
        self,
        producer_id: int = 0,
        topics: Sequence[WritableTxnMarkerTopicResult] = (),
    ) -> None:
        self.producer_id = producer_id
        self.topics = topics


class WriteTxnMarkersResponse(Message):
    """WriteTxnMarkers, the response."""

    __slots__ = ("markers",)
    SCHEMA = ((1, 2, "markers", "[]WritableTxnMarkerResult"),)

    def __init__(
        self,
        markers: Sequence[WritableTxnMarkerResult] = (),
    ) -> None:
        self.markers = markers
