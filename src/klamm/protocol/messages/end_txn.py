"""EndTxn (key 26), versions 0 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class EndTxnRequest(Request["EndTxnResponse"]):
    """EndTxn, the request."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False
    knows_producer_fenced: bool = False  # what the version implies
    bumps_epoch: bool = False  # what the version implies


@dataclass(slots=True)
class EndTxnResponse:
    """EndTxn, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
