"""WriteTxnMarkers (key 27), versions 1 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class WritableTxnMarkerTopic:
    """Part of the request."""

    name: str = ""
    partition_indexes: Sequence[int] = ()


@dataclass(slots=True)
class WritableTxnMarker:
    """Part of the request."""

    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: Sequence[WritableTxnMarkerTopic] = ()
    coordinator_epoch: int = 0
    transaction_version: int = 0


@dataclass(slots=True)
class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"]):
    """WriteTxnMarkers, the request."""

    markers: Sequence[WritableTxnMarker] = ()


@dataclass(slots=True)
class WritableTxnMarkerPartitionResult:
    """Part of the response."""

    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True)
class WritableTxnMarkerTopicResult:
    """Part of the response."""

    name: str = ""
    partitions: Sequence[WritableTxnMarkerPartitionResult] = ()


@dataclass(slots=True)
class WritableTxnMarkerResult:
    """Part of the response."""

    producer_id: int = 0
    topics: Sequence[WritableTxnMarkerTopicResult] = ()


@dataclass(slots=True)
class WriteTxnMarkersResponse:
    """WriteTxnMarkers, the response."""

    markers: Sequence[WritableTxnMarkerResult] = ()
