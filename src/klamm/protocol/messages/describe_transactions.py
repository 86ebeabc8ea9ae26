"""DescribeTransactions (key 65), versions 0 to 0 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    """DescribeTransactions, the request."""

    __slots__ = ("transactional_ids",)
    SCHEMA = ((0, 0, "transactional_ids", "[]string"),)

    def __init__(
        self,
        transactional_ids: Sequence[str] = (),
    ) -> None:
        self.transactional_ids = transactional_ids


class TopicData(Message):
    """Part of the response."""

    __slots__ = ("topic", "partitions")
    SCHEMA = (
        (0, 0, "topic", "string"),
        (0, 0, "partitions", "[]int32"),
    )

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class TransactionState(Message):
    """Part of the response."""

    __slots__ = (
        "error_code",
        "transactional_id",
        "transaction_state",
        "transaction_timeout_ms",
        "transaction_start_time_ms",
        "producer_id",
        "producer_epoch",
        "topics",
    )
    SCHEMA = (
        (0, 0, "error_code", "int16"),
        (0, 0, "transactional_id", "string"),
        (0, 0, "transaction_state", "string"),
        (0, 0, "transaction_timeout_ms", "int32"),
        (0, 0, "transaction_start_time_ms", "int64"),
        (0, 0, "producer_id", "int64"),
        (0, 0, "producer_epoch", "int16"),
        (0, 0, "topics", "[]TopicData"),
    )

    def __init__(
        self,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = -1,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: Sequence[TopicData] = (),
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = topics


class DescribeTransactionsResponse(Message):
    """DescribeTransactions, the response."""

    __slots__ = ("throttle_time_ms", "transaction_states")
    SCHEMA = (
        (0, 0, "throttle_time_ms", "int32"),
        (0, 0, "transaction_states", "[]TransactionState"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        transaction_states: Sequence[TransactionState] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = transaction_states
