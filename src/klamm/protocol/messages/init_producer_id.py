"""InitProducerId (key 22), versions 0 to 6 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class InitProducerIdRequest(Request["InitProducerIdResponse"]):
    """InitProducerId, the request."""

    transactional_id: str | None = None
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False
    knows_producer_fenced: bool = False  # what the version implies
    knows_two_phase_commit: bool = False  # what the version implies


@dataclass(slots=True)
class InitProducerIdResponse:
    """InitProducerId, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1
