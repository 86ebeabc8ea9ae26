"""InspectTransactions (key 20002), version 0: klamm's own, so not made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class InspectTransactionsRequest(Request["InspectTransactionsResponse"]):
    """InspectTransactions, the request."""

    __slots__ = ("transactional_ids",)
    SCHEMA = ((0, 0, "transactional_ids", "[]string"),)

    def __init__(
        self,
        transactional_ids: Sequence[str] = (),
    ) -> None:
        self.transactional_ids = transactional_ids


class InspectedTransaction(Message):
    """Part of the response."""

    __slots__ = ("error_code", "error_message", "transactional_id", "content")
    SCHEMA = (
        (0, 0, "error_code", "int16"),
        (0, 0, "error_message", "string?"),
        (0, 0, "transactional_id", "string"),
        (0, 0, "content", "bytes"),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        transactional_id: str = "",
        content: bytes = b"",  # JSON: it is for people and for tools of this version
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.transactional_id = transactional_id
        self.content = content


class InspectTransactionsResponse(Message):
    """InspectTransactions, the response."""

    __slots__ = ("throttle_time_ms", "transactions")
    SCHEMA = (
        (0, 0, "throttle_time_ms", "int32"),
        (0, 0, "transactions", "[]InspectedTransaction"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        transactions: Sequence[InspectedTransaction] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transactions = transactions
