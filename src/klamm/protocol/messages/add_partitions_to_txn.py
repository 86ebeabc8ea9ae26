"""AddPartitionsToTxn (key 24), versions 0 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class AddPartitionsToTxnTopic(Message):
    """Part of the request."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (0, 5, "name", "string"),
        (0, 5, "partitions", "[]int32"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class AddPartitionsToTxnTransaction(Message):
    """Part of the request."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")
    SCHEMA = (
        (4, 5, "transactional_id", "string"),
        (4, 5, "producer_id", "int64"),
        (4, 5, "producer_epoch", "int16"),
        (4, 5, "verify_only", "bool"),
        (4, 5, "topics", "[]AddPartitionsToTxnTopic"),
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: Sequence[AddPartitionsToTxnTopic] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = topics


class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"]):
    """AddPartitionsToTxn, the request."""

    __slots__ = (
        "transactions",
        "v3_and_below_transactional_id",
        "v3_and_below_producer_id",
        "v3_and_below_producer_epoch",
        "v3_and_below_topics",
        "is_batched",
        "knows_producer_fenced",
    )
    SCHEMA = (
        (4, 5, "transactions", "[]AddPartitionsToTxnTransaction"),
        (0, 3, "v3_and_below_transactional_id", "string"),
        (0, 3, "v3_and_below_producer_id", "int64"),
        (0, 3, "v3_and_below_producer_epoch", "int16"),
        (0, 3, "v3_and_below_topics", "[]AddPartitionsToTxnTopic"),
    )

    def __init__(
        self,
        transactions: Sequence[AddPartitionsToTxnTransaction] = (),
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = (),
        is_batched: bool = False,  # what the version implies
        knows_producer_fenced: bool = False,  # what the version implies
    ) -> None:
        self.transactions = transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = v3_and_below_topics
        self.is_batched = is_batched
        self.knows_producer_fenced = knows_producer_fenced


class AddPartitionsToTxnPartitionResult(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "partition_error_code")
    SCHEMA = (
        (0, 5, "partition_index", "int32"),
        (0, 5, "partition_error_code", "int16"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnTopicResult(Message):
    """Part of the response."""

    __slots__ = ("name", "results_by_partition")
    SCHEMA = (
        (0, 5, "name", "string"),
        (0, 5, "results_by_partition", "[]AddPartitionsToTxnPartitionResult"),
    )

    def __init__(
        self,
        name: str = "",
        results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = (),
    ) -> None:
        self.name = name
        self.results_by_partition = results_by_partition


class AddPartitionsToTxnResult(Message):
    """Part of the response."""

    __slots__ = ("transactional_id", "topic_results")
    SCHEMA = (
        (4, 5, "transactional_id", "string"),
        (4, 5, "topic_results", "[]AddPartitionsToTxnTopicResult"),
    )

    def __init__(
        self,
        transactional_id: str = "",
        topic_results: Sequence[AddPartitionsToTxnTopicResult] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = topic_results


class AddPartitionsToTxnResponse(Message):
    """AddPartitionsToTxn, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below")
    SCHEMA = (
        (0, 5, "throttle_time_ms", "int32"),
        (4, 5, "error_code", "int16"),
        (4, 5, "results_by_transaction", "[]AddPartitionsToTxnResult"),
        (0, 3, "results_by_topic_v3_and_below", "[]AddPartitionsToTxnTopicResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: Sequence[AddPartitionsToTxnResult] = (),
        results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = results_by_transaction
        self.results_by_topic_v3_and_below = results_by_topic_v3_and_below
