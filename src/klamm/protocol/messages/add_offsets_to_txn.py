"""AddOffsetsToTxn (key 25), versions 0 to 4 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from klamm.protocol.message import Message, Request


class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    """AddOffsetsToTxn, the request."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id", "knows_producer_fenced")
    SCHEMA = (
        (0, 4, "transactional_id", "string"),
        (0, 4, "producer_id", "int64"),
        (0, 4, "producer_epoch", "int16"),
        (0, 4, "group_id", "string"),
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
        knows_producer_fenced: bool = False,  # what the version implies
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id
        self.knows_producer_fenced = knows_producer_fenced


class AddOffsetsToTxnResponse(Message):
    """AddOffsetsToTxn, the response."""

    __slots__ = ("throttle_time_ms", "error_code")
    SCHEMA = (
        (0, 4, "throttle_time_ms", "int32"),
        (0, 4, "error_code", "int16"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
