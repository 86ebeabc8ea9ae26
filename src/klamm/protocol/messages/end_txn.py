"""EndTxn (key 26), versions 0 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from klamm.protocol.message import Message, Request


class EndTxnRequest(Request["EndTxnResponse"]):
    """EndTxn, the request."""

    __slots__ = (
        "transactional_id",
        "producer_id",
        "producer_epoch",
        "committed",
        "knows_producer_fenced",
        "bumps_epoch",
    )
    SCHEMA = (
        (0, 5, "transactional_id", "string"),
        (0, 5, "producer_id", "int64"),
        (0, 5, "producer_epoch", "int16"),
        (0, 5, "committed", "bool"),
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
        knows_producer_fenced: bool = False,  # what the version implies
        bumps_epoch: bool = False,  # what the version implies
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed
        self.knows_producer_fenced = knows_producer_fenced
        self.bumps_epoch = bumps_epoch


class EndTxnResponse(Message):
    """EndTxn, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")
    SCHEMA = (
        (0, 5, "throttle_time_ms", "int32"),
        (0, 5, "error_code", "int16"),
        (5, 5, "producer_id", "int64"),
        (5, 5, "producer_epoch", "int16"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
