"""DescribeTransactions (key 65), versions 0 to 0 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    """DescribeTransactions, the request."""

    transactional_ids: Sequence[str] = ()


@dataclass(slots=True)
class TopicData:
    """Part of the response."""

    topic: str = ""
    partitions: Sequence[int] = ()


@dataclass(slots=True)
class TransactionState:
    """Part of the response."""

    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = -1
    producer_id: int = 0
    producer_epoch: int = 0
    topics: Sequence[TopicData] = ()


@dataclass(slots=True)
class DescribeTransactionsResponse:
    """DescribeTransactions, the response."""

    throttle_time_ms: int = 0
    transaction_states: Sequence[TransactionState] = ()
