"""ListTransactions (key 66), versions 0 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class ListTransactionsRequest(Request["ListTransactionsResponse"]):
    """ListTransactions, the request."""

    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern")
    SCHEMA = (
        (0, 2, "state_filters", "[]string"),
        (0, 2, "producer_id_filters", "[]int64"),
        (1, 2, "duration_filter", "int64"),
        (2, 2, "transactional_id_pattern", "string?"),
    )

    def __init__(
        self,
        state_filters: Sequence[str] = (),
        producer_id_filters: Sequence[int] = (),
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = state_filters
        self.producer_id_filters = producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


class TransactionState(Message):
    """Part of the response."""

    __slots__ = ("transactional_id", "producer_id", "transaction_state")
    SCHEMA = (
        (0, 2, "transactional_id", "string"),
        (0, 2, "producer_id", "int64"),
        (0, 2, "transaction_state", "string"),
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


class ListTransactionsResponse(Message):
    """ListTransactions, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")
    SCHEMA = (
        (0, 2, "throttle_time_ms", "int32"),
        (0, 2, "error_code", "int16"),
        (0, 2, "unknown_state_filters", "[]string"),
        (0, 2, "transaction_states", "[]TransactionState"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: Sequence[str] = (),
        transaction_states: Sequence[TransactionState] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = unknown_state_filters
        self.transaction_states = transaction_states
