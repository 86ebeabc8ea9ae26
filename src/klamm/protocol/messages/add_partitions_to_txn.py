"""AddPartitionsToTxn (key 24), versions 0 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class AddPartitionsToTxnTopic:
    """Part of the request."""

    name: str = ""
    partitions: Sequence[int] = ()


@dataclass(slots=True)
class AddPartitionsToTxnTransaction:
    """Part of the request."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: Sequence[AddPartitionsToTxnTopic] = ()


@dataclass(slots=True)
class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"]):
    """AddPartitionsToTxn, the request."""

    transactions: Sequence[AddPartitionsToTxnTransaction] = ()
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = ()
    is_batched: bool = False  # what the version implies
    knows_producer_fenced: bool = False  # what the version implies


@dataclass(slots=True)
class AddPartitionsToTxnPartitionResult:
    """Part of the response."""

    partition_index: int = 0
    partition_error_code: int = 0


@dataclass(slots=True)
class AddPartitionsToTxnTopicResult:
    """Part of the response."""

    name: str = ""
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = ()


@dataclass(slots=True)
class AddPartitionsToTxnResult:
    """Part of the response."""

    transactional_id: str = ""
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = ()


@dataclass(slots=True)
class AddPartitionsToTxnResponse:
    """AddPartitionsToTxn, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = ()
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = ()
