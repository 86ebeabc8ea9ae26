"""InitProducerId (key 22), versions 0 to 6 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from klamm.protocol.message import Message, Request


class InitProducerIdRequest(Request["InitProducerIdResponse"]):
    """InitProducerId, the request."""

    __slots__ = (
        "transactional_id",
        "transaction_timeout_ms",
        "producer_id",
        "producer_epoch",
        "enable2_pc",
        "keep_prepared_txn",
        "knows_producer_fenced",
        "knows_two_phase_commit",
    )
    SCHEMA = (
        (0, 6, "transactional_id", "string?"),
        (0, 6, "transaction_timeout_ms", "int32"),
        (3, 6, "producer_id", "int64"),
        (3, 6, "producer_epoch", "int16"),
        (6, 6, "enable2_pc", "bool"),
        (6, 6, "keep_prepared_txn", "bool"),
    )

    def __init__(
        self,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable2_pc: bool = False,
        keep_prepared_txn: bool = False,
        knows_producer_fenced: bool = False,  # what the version implies
        knows_two_phase_commit: bool = False,  # what the version implies
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn
        self.knows_producer_fenced = knows_producer_fenced
        self.knows_two_phase_commit = knows_two_phase_commit


class InitProducerIdResponse(Message):
    """InitProducerId, the response."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id",
        "producer_epoch",
        "ongoing_txn_producer_id",
        "ongoing_txn_producer_epoch",
    )
    SCHEMA = (
        (0, 6, "throttle_time_ms", "int32"),
        (0, 6, "error_code", "int16"),
        (0, 6, "producer_id", "int64"),
        (0, 6, "producer_epoch", "int16"),
        (6, 6, "ongoing_txn_producer_id", "int64"),
        (6, 6, "ongoing_txn_producer_epoch", "int16"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch
